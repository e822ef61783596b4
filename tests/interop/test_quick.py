"""One short pass against RocketMQ 5.5.1, part of make test."""

import random

import pytest

from interop import checks, records, store_checks
from interop.record_checks import check_random_records
from rocketstore.kernels.csrc import utf8_repair
from rocketstore.kernels.record import decode_properties

pytestmark = pytest.mark.java


@pytest.fixture
def store(store_of):
    return store_of("5.5.1", "rich", crash=False)


@pytest.mark.parametrize("number", range(4))
def test_rocketstore_writes_and_finds_what_an_index_file_does(java_of, tmp_path, seed, number):
    checks.check_index_file(java_of("5.5.1"), random.Random(f"quick file {seed} {number}"), tmp_path)


@pytest.mark.parametrize("number", range(4))
def test_rocketstore_writes_and_finds_what_an_index_service_does(java_of, tmp_path, seed, number):
    checks.check_index_service(java_of("5.5.1"), random.Random(f"quick service {seed} {number}"), tmp_path)


def test_records_right_and_wrong_are_parsed_as_java_does(java_of, seed):
    check_random_records([java_of("5.5.1")], random.Random(f"quick records {seed}"), 250)


def test_utf8_is_decoded_and_properties_are_split_as_java_does(java_of, seed):
    datas = records.texts(random.Random(f"texts {seed}"), 3000)
    for data, answer in zip(datas, java_of("5.5.1").texts(datas), strict=True):
        assert utf8_repair(data).decode() == answer["text"], data.hex()
        assert decode_properties(data) == answer["properties"], data.hex()


def test_every_field_of_every_message_is_java_s(store):
    store_checks.check_scan(store)


def test_every_unit_of_every_queue_is_java_s(store):
    store_checks.check_queues(store)


def test_queues_are_read_as_java_does(store, seed):
    store_checks.check_reads(store, random.Random(f"quick reads {seed}"), 300)


def test_keys_are_found_as_java_does(store, seed):
    store_checks.check_keys(store, random.Random(f"quick keys {seed}"), 200)
