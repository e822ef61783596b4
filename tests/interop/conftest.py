"""The JVMs of the run and the stores they wrote: one for each release, shared by all tests and seeds."""

import random
from pathlib import Path
from typing import NamedTuple

import pytest
from support.broker_tables import extend_topics

from interop import stores
from interop.broker import INNER, QUEUES, RELEASE, Client
from interop.harness import Java

pytest.register_assert_rewrite(
    "interop.checks", "interop.record_checks", "interop.store_checks", "interop.write_checks"
)


class Written(NamedTuple):
    """A store that RocketMQ wrote. Tests read it, and change copies of it."""

    java: Java
    root: Path
    options: dict
    messages: list
    results: list  # what each put was answered


@pytest.fixture(scope="session")
def java_of(tmp_path_factory):
    """A function from a release to its JVM; skips where Java, Maven or the release cannot be had."""
    running = {}

    def start(release):
        if release not in running:
            running[release] = Java(release, tmp_path_factory.mktemp(f"java-{release}"))
        return running[release]

    yield start
    for java in running.values():
        java.close()


@pytest.fixture(scope="session")
def store_of(java_of, tmp_path_factory, seed):
    """A function from a release and the name of a profile of stores.py to a store, written once a run."""
    made = {}

    def write(release, profile, **given):
        key = (release, profile, *sorted(given.items()))
        if key not in made:
            java = java_of(release)
            options, messages = stores.make(profile, random.Random(f"{seed} {key}"), release, **given)
            root = tmp_path_factory.mktemp("store") / profile
            made[key] = Written(java, root, options, messages, java.write_store(root, options, messages))
        return made[key]

    return write


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A RocketMQ client, which starts and asks brokers."""
    client = Client(RELEASE, tmp_path_factory.mktemp("client"))
    yield client
    client.close()


@pytest.fixture
def root(tmp_path):
    """Where a broker and rocketstore will both write."""
    extend_topics(tmp_path / "store", {INNER: QUEUES[INNER]}, {INNER: "BatchCQ"})
    return tmp_path / "store"
