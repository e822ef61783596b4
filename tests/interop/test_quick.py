"""One short pass against RocketMQ 5.5.0, part of make test."""

import random

import pytest

from interop import checks

pytestmark = pytest.mark.java


@pytest.mark.parametrize("number", range(4))
def test_rocketstore_writes_and_finds_what_an_index_file_does(java_of, tmp_path, seed, number):
    checks.check_index_file(java_of("5.5.0"), random.Random(f"quick file {seed} {number}"), tmp_path)


@pytest.mark.parametrize("number", range(4))
def test_rocketstore_writes_and_finds_what_an_index_service_does(java_of, tmp_path, seed, number):
    checks.check_index_service(java_of("5.5.0"), random.Random(f"quick service {seed} {number}"), tmp_path)
