"""Faults in the Python processes of a Spark cluster, which tests ask for by files. Python imports this module itself.

The directory ROCKETSTORE_FAULTS may have a file named after a function, such as ``jobs.intent:WriteIntent.fulfil``. The
next call of the function claims the file, and does what it says: "kill" kills the JVM above this process, with SIGKILL,
and this process; "kill executors" kills all executors of the cluster; "raise" raises an error; "sleep" with a number
waits for so many seconds. After the word "after", the fault follows the call, whose result is lost with "kill". A call
that returns an iterator has its fault after the first element. A claimed file is renamed.
"""

import contextlib
import functools
import importlib.abc
import inspect
import os
import signal
import sys
import time
from pathlib import Path

FUNCTIONS = {
    "spark.source.messages": ["read_part"],
    "spark.source.stream": ["read_part"],
    "spark.source.tables": ["TableReader.read"],
    "spark.source.sink": ["StoreSink.append_rows"],
    "jobs.prepared_rows": ["PreparedRowsWriter.add", "PreparedRowsWriter.finish"],
    "jobs.intent": ["WriteIntent.fulfil"],
    "spark.build.build_index": ["count_items", "spill_items", "rescan"],
    "spark.build.rebuild_consume_queue": ["spill_requests", "build_parts"],
    "spark.build.spill": ["read_entries", "write_spill"],
    "spark.build.index_files": ["build_file"],
    "spark.lookup.query_messages": ["find_batch"],
}
PREFIX = "rocketstore."


def claim(name):
    """Return what the file of a function says, and the file, renamed; None if another process was first."""
    path = Path(os.environ["ROCKETSTORE_FAULTS"]) / name
    try:
        claimed = path.rename(path.with_name(f"{name}.claimed-{os.getpid()}"))
    except FileNotFoundError:
        return None
    return claimed.read_text()


def find_jvm(pid):
    """Return the nearest ancestor of a process that is a JVM."""
    while pid > 1:
        status = Path(f"/proc/{pid}/stat").read_text()
        name, _, rest = status.partition("(")[2].rpartition(")")
        if name == "java":
            return pid
        pid = int(rest.split()[1])
    raise LookupError("no JVM is above this process")


def find_executors():
    """Return the JVMs of the cluster that run tasks."""
    place = f"ROCKETSTORE_FAULTS={os.environ['ROCKETSTORE_FAULTS']}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is not ours
            command = (process / "cmdline").read_bytes().split(b"\0")
            is_ours = place in (process / "environ").read_bytes().split(b"\0")
            if is_ours and b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in command:
                yield int(process.name)


def do(fault):
    word, _, seconds = fault.partition(" ")
    if word == "sleep":
        time.sleep(float(seconds))
    elif fault == "kill executors":
        for pid in find_executors():
            os.kill(pid, signal.SIGKILL)
    elif word == "raise":
        raise RuntimeError("a fault that a test asked for")
    else:
        os.kill(find_jvm(os.getpid()), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def faulty(name, function):
    @functools.wraps(function)
    def call(*args, **options):
        fault = claim(name)
        if fault is None:
            return function(*args, **options)
        if inspect.isgeneratorfunction(function):
            return interrupted(fault, function(*args, **options))
        if not fault.startswith("after "):
            do(fault)
            return function(*args, **options)
        result = function(*args, **options)
        do(fault.removeprefix("after "))
        return result

    return call


def interrupted(fault, results):
    """Yield the results of a generator, with a fault after the first."""
    for number, result in enumerate(results):
        yield result
        if number == 0:
            do(fault)


class Loader(importlib.abc.Loader):
    def __init__(self, loader, names):
        self.loader = loader
        self.names = names

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        for name in self.names:
            *holders, last = name.split(".")
            holder = functools.reduce(getattr, holders, module)
            key = f"{module.__name__.removeprefix(PREFIX)}:{name}"
            setattr(holder, last, faulty(key, getattr(holder, last)))


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        names = FUNCTIONS.get(name.removeprefix(PREFIX))
        if not names or not name.startswith(PREFIX):
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, others), None)
        if spec is not None:
            spec.loader = Loader(spec.loader, names)
        return spec


if "ROCKETSTORE_FAULTS" in os.environ:
    sys.meta_path.insert(0, Finder())
