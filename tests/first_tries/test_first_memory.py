"""A store that is larger than the memory is read with little memory."""

import subprocess
import sys

import pytest

import rocketstore
from rocketstore import Message, StoreConfig

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

BODIES = 256 << 20  # bytes
SCRIPT = """
import sys, rocketstore
def own_memory():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) << 10
store = rocketstore.open(sys.argv[1])
first, most, body_bytes = None, 0, 0
for batch in store.scan():
    body_bytes += sum(map(len, batch.body))
    first = own_memory() if first is None else first
    most = max(most, own_memory())
print(body_bytes, most - first)
"""


def test_a_scan_needs_memory_for_a_part_of_the_store_only(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        body = bytes(64 << 10)
        for _ in range(BODIES // (64 * len(body))):
            store.put_messages([Message("T", body)] * 64)
    answer = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path], capture_output=True, text=True, check=True)
    body_bytes, grown = map(int, answer.stdout.split())
    assert body_bytes == BODIES
    assert grown < BODIES / 3
