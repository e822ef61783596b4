"""Blocks of remote files that several threads share, and Ctrl-C at any place of the thread that reads them."""

import sys
from concurrent.futures import ThreadPoolExecutor

from support.interrupted import interrupt_everywhere
from support.subprocesses import in_subprocess

from rocketstore.disk.remote import blocks as module
from rocketstore.disk.remote.blocks import Blocks
from rocketstore.disk.service_thread import ServiceThread


class Numbers:
    """A file whose bytes count from 0 to 255, again and again."""

    def content_version(self):
        return ("numbers",)

    def pread(self, begin, end):
        return bytes(number % 256 for number in range(begin, end))


def interrupt_reads():
    module.BLOCK = 10
    file, other = Numbers(), ThreadPoolExecutor(1)
    expected = [file.pread(0, 10), file.pread(10, 20), file.pread(20, 25)]

    def read(blocks):
        found = []
        for number in range(3):
            blocks.read_ahead(file, 25, number + 1)
            found.append(blocks.get(file, 25, number))
        return found

    def read_beside_another_thread():
        blocks = Blocks()
        try:
            assert read(blocks) == expected
        finally:
            sys.settrace(None)
            assert other.submit(read, blocks).result(30) == expected

    assert other.submit(read, Blocks()).result() == expected
    interrupt_everywhere(
        read_beside_another_thread, "blocks.py", "work_threads.py", "service_thread.py", "threading.py"
    )


def test_ctrl_c_at_any_instruction_leaves_no_block_for_which_another_thread_waits():
    """With the futures of Python it was lost at some places: it became the error of a block that nobody asked for."""
    assert int(in_subprocess(interrupt_reads)) > 100


def test_a_thread_that_starts_the_read_of_a_block_may_use_the_blocks_meanwhile(monkeypatch):
    """As the garbage collector does, if it closes a generator that reads sparingly."""
    blocks, sparing = Blocks(), []

    def start(thread, start=ServiceThread.start):
        with blocks.sparing():
            sparing.append(blocks.is_sparing)
        start(thread)

    monkeypatch.setattr(ServiceThread, "start", start)
    assert blocks.get(Numbers(), 25, 0) == Numbers().pread(0, 25)
    assert sparing == [True]


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
