"""What tests of a store's writer share: threads, child processes, and what is in queues and log."""

import faulthandler
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from reference.commit_log import read_files, scan
from reference.consume_queue import load
from support.puts import (
    config_of,
)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks paths of descriptors up in /proc")
OPEN = """
import sys
import rocketstore
from rocketstore.errors import StoreLockedError
try:
    rocketstore.open(sys.argv[1], sys.argv[2]).close()
except StoreLockedError:
    sys.exit(3)
"""


def run_threads(target, count):
    """Run target(0), target(1), ... in threads; what one raises is raised."""
    errors = []

    def run(number):
        try:
            target(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def in_child(call):
    """What a call gives in a forked process that does not hang: repr of the result or the error."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            faulthandler.dump_traceback_later(10, exit=True, file=write)
            try:
                text = repr(call())
            except BaseException as error:
                text = repr(error)
            os.write(write, text.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        text = stream.read().decode()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"the child hung or died: {text}"
    return text


def opened_elsewhere(root, mode="a"):
    """Whether another process can open the store for writing."""
    command = [sys.executable, "-c", OPEN, str(root), mode]
    code = subprocess.run(command, check=False, timeout=60).returncode
    assert code in (0, 3)
    return code == 0


def queue_lengths(root, **options):
    """Count the units of the queues on disk from the bytes of their files."""
    config = config_of(**options)
    found = {}
    for directory in (Path(root) / "consumequeue").glob("*/*"):
        queue = load(directory, config.mapped_file_size_consume_queue)
        found[directory.parent.name, int(directory.name)] = queue.max_offset
    return found


def logged(root):
    """The records in the log's files, as the reference finds them."""
    return [record for _, record in scan(read_files(Path(root) / "commitlog"))]
