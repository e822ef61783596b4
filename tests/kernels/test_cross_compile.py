"""The C tests in tests/c: on this machine, and compiled for others and run by qemu."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
DEBIAN = {"aarch64": "arm64", "s390x": "s390x"}  # s390x is big-endian


def check(build, *variables):
    """Run the C tests, and fail with their output if one fails."""
    if not (TESTS.parent / "csrc").is_dir():
        pytest.skip("csrc/ is not beside tests/: an installed package is tested")
    make = subprocess.run(
        ["make", "-C", str(TESTS / "c"), "check", f"BUILD={build}", *variables],
        text=True,
        capture_output=True,
        timeout=900,
        check=False,
    )
    assert make.returncode == 0, make.stdout + make.stderr


def missing_tools(machine):
    tools = ["make", f"{machine}-linux-gnu-gcc", f"qemu-{machine}"]
    return [tool for tool in tools if shutil.which(tool) is None]


@functools.cache
def install_cross_compilers():
    """Install what both machines need with apt; return why that failed, or an empty string."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "only root can install them, with apt-get"
    packages = ["make", "qemu-user"]
    for machine, debian in DEBIAN.items():
        packages += [f"gcc-{machine}-linux-gnu", f"libc6-dev-{debian}-cross"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        apt = subprocess.run(
            ["apt-get", "-qq", *arguments], env=environment, text=True, capture_output=True, timeout=900, check=False
        )
        if apt.returncode != 0:
            return f"apt-get {arguments[0]} failed: {apt.stderr.strip()}"
    return ""


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("make") and shutil.which("cc")), reason="needs make and a C compiler")
def test_c_tests_pass_on_this_machine(tmp_path):
    check(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("machine", DEBIAN)
def test_c_tests_pass_on(machine, tmp_path):
    if missing_tools(machine):
        reason = install_cross_compilers()
        if missing_tools(machine):
            pytest.skip(f"needs {' and '.join(missing_tools(machine))}; {reason}")
    check(
        tmp_path,
        f"CC={machine}-linux-gnu-gcc",
        f"RUN=qemu-{machine} -L /usr/{machine}-linux-gnu",
        "LEVELS=portable best",
    )
