"""The hash and the checksum give the same on every path of the processor."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocketstore.kernels import csrc

TESTS = Path(__file__).parent.parent
CPUINFO = Path("/proc/cpuinfo")
NEEDS = {
    "portable": set(),
    "sse4": {"sse4_1", "pclmulqdq"},
    "avx2": {"avx2"},
    "avx512": {"avx512f", "avx512bw", "avx512vl", "vpclmulqdq"},
}
SIMD = [name for name in NEEDS if name != "portable"]


def run(level, *command):
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "ROCKETSTORE_CPU": level},
        text=True,
        cwd=TESTS.parent,
        capture_output=True,
        timeout=300,
        check=False,
    )


def machine_has(level):
    """What the kernel says; where it does not say, the library's own word is taken."""
    flags = {word for line in CPUINFO.read_text().splitlines() if line.startswith("flags") for word in line.split()}
    below = list(NEEDS)[: list(NEEDS).index(level) + 1]
    return all(NEEDS[name] <= flags for name in below)


@pytest.mark.parametrize(
    ("level", "tests"),
    [
        ("portable", "not slow"),
        pytest.param("portable", "slow", marks=pytest.mark.slow),
        *(pytest.param(name, "slow or not slow", marks=pytest.mark.slow) for name in SIMD),
    ],
)
def test_hash_and_checksum_agree_with_the_reference_at(level, tests):
    if level == csrc.cpu_level():
        pytest.skip(f"{level} is in use: the tests themselves have run it")
    answer = run(level, "-c", "from rocketstore.kernels import csrc; print(csrc.cpu_level())")
    assert answer.returncode == 0, answer.stderr
    if answer.stdout.strip() != level:
        assert not (CPUINFO.exists() and machine_has(level))
        pytest.skip(f"this machine has no {level}")
    done = run(
        level,
        "-m",
        "pytest",
        "-q",
        "-m",
        tests,
        "-p",
        "no:cacheprovider",
        str(TESTS / "kernels" / "test_java_hash.py"),
        str(TESTS / "kernels" / "test_crc32.py"),
        str(TESTS / "kernels" / "test_scan_bytes.py"),
        str(TESTS / "kernels" / "test_utf8.py"),
        str(TESTS / "queue" / "test_consume_queue_decode.py"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
