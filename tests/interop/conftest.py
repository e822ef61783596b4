"""The JVMs of the run: one for each RocketMQ release that a test asks for, shared by all tests and seeds."""

import pytest

from interop.harness import Java

pytest.register_assert_rewrite("interop.checks")


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
