"""Builds the library of tests/c/faults.c, preloads it into child processes, and arms it inside one."""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

KINDS = ("sync", "write", "allocate", "rename", "open", "mmap")
SHORT = -1  # a write of half of the bytes, which is no error
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "SHORT": SHORT}
FILE_SYNCS_LIE, DIRECTORY_SYNCS_LIE = 1, 2
SOURCE = Path(__file__).parent.parent / "c" / "faults.c"


def build(directory):
    """Compile the library into a directory and give its path. Skips where that is impossible."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        pytest.skip("preloads a library made of Linux's system calls, 64 bits")
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = Path(directory) / "faults.so"
    command = [*compiler.split(), "-std=gnu11", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra"]
    subprocess.run([*command, "-o", str(library), str(SOURCE), "-lpthread"], check=True, timeout=60)
    return library


def environment(library):
    """The environment of a child process that has the library preloaded, after whatever is preloaded anyway."""
    preloaded = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(library)]))
    return {**os.environ, "LD_PRELOAD": preloaded, "ROCKETSTORE_FAULTS": str(library)}


class Faults:
    """The library in this process, which was started with it."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ["ROCKETSTORE_FAULTS"])
        self.library.faults_arm.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_int]
        self.library.faults_kill_at.argtypes = [ctypes.c_long]
        self.library.faults_count.restype = self.library.faults_calls.restype = ctypes.c_long
        self.library.faults_fired.restype = ctypes.c_char_p

    def watch(self, root):
        """Look at the calls on paths under a directory, and count them from 0."""
        self.library.faults_watch(os.fsencode(root))

    def ignore(self):
        """Look at nothing any more."""
        self.library.faults_watch(b"")

    def arm(self, kind, nth, error, *, for_ever=False):
        """Fail the n-th call of a kind from now on, from 1, with an error of ERRORS."""
        self.library.faults_arm(KINDS.index(kind), nth, ERRORS[error], for_ever)

    def disarm(self):
        self.library.faults_disarm()

    def kill_at(self, nth):
        """Kill this process before the n-th call of all since watch()."""
        self.library.faults_kill_at(nth)

    def record(self, directory, lies=0):
        """Keep the journal that power.py reads. lies: syncs that succeed and are not in it."""
        self.library.faults_record(os.fsencode(directory), lies)

    def count(self, kind):
        return self.library.faults_count(KINDS.index(kind))

    @property
    def calls(self):
        return self.library.faults_calls()

    @property
    def fired(self):
        """The last call that was failed, as "fsync /path"; "" if none was."""
        return os.fsdecode(self.library.faults_fired())
