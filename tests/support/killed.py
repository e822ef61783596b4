"""Processes that are killed at one of the calls by which they change files."""

import os

__all__ = ["CALLS", "killed_at"]

NAMES = ("fsync", "fdatasync", "pwrite", "truncate", "ftruncate", "unlink", "rmdir", "mkdir", "rename", "replace")
CALLS = (*(name for name in NAMES if hasattr(os, name)), "posix_fallocate")


def killed_at(call, work, after=None):
    """Do something in a process that is killed at its `call`-th call. Returns whether it got so far.

    Parameters: after: owner and name of the function from which on calls are counted.
    """
    pid = os.fork()
    if pid == 0:
        try:
            if after is None:
                count(call)
            else:
                owner, name = after
                setattr(owner, name, counting_from(call, getattr(owner, name)))
            work()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, 9)
    return status == 9


def count(call):
    left = iter(range(call - 1))

    def counting(function):
        def wrapper(*args, **options):
            if next(left, None) is None:
                os._exit(9)
            return function(*args, **options)

        return wrapper

    for name in CALLS:
        setattr(os, name, counting(getattr(os, name)))


def counting_from(call, function):
    def wrapper(*args):
        count(call)
        return function(*args)

    return wrapper
