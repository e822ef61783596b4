"""Stores whose log a broker cut, or did not cut, after a stop, after a kill and beside a running broker.

RocketMQ's own classes made the stores of the archives `tests/golden/ends-RELEASE.tar.xz` (`interop/histories.py`):
of each family, messages of several kinds ("mixed") and batches ("batches"), a store

    whole      that two runs wrote and nothing damaged
    cut        of which a record was zeroed after the first run; the next start cut the log there, nothing was put
    written    the same, and the second run put new messages there

as its files were while the second run lived (`-live`), after it stopped (`-stopped`), and the same of a third run
without messages (`-again-live`, `-again-stopped`). truth.json has of each store: `end`, where RocketMQ ended the log;
`cut`, where it cut the log, or null; `live`, (offset, size) of the records that were put and are before that end;
`leftovers`, of the records that it cut off and that are still there in one piece; `first_run`, how many of the live
records the first run put.

A `Cell` is a state in which a store was left, damage or a cut, what happened to its files since, and a release.
"""

import contextlib
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from reference.commit_log import read_files
from reference.log_end import Log
from support.damages import change_log
from support.stores import GOLDEN, extract

from rocketstore import StoreConfig

RELEASES = ("4.6.0", "4.9.8", "5.3.3", "5.5.1")
FAMILIES = MIXED, BATCHES = "mixed", "batches"
INNER_TOPIC = "InnerBatches"
LOG_FILE = 16 * 1024
SIZES = {
    "mapped_file_size_commit_log": LOG_FILE,
    "mapped_file_size_consume_queue": 20 * 25,
    "mapper_file_size_batch_consume_queue": 46 * 10,
    "max_hash_slot_num": 97,
    "max_index_num": 1000,
}
CONFIG = StoreConfig(**SIZES)
NO_PROCESS = str(2**22 + 1)  # no process of Linux has this number
HOUR = 3_600_000
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
if sys.argv[2] == "lock":
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""
# ---- the archives ------------------------------------------------------------------------------------------------


class Truth(NamedTuple):
    """What truth.json has of a store."""

    end: int
    cut: int | None
    first_run: int
    live: list
    leftovers: list


class Ends:
    """The stores of a release, unpacked into a directory."""

    def __init__(self, release, directory, *, archive=None):
        extract(archive or GOLDEN / f"ends-{release}.tar.xz", directory)
        self.directory = Path(directory)
        self.truth = read_truth(self.directory)

    def copy(self, name, root, *, keeps_times=True):
        """Copy a store; with the times that its files have, or as plain `cp -r`."""
        copy = shutil.copy2 if keeps_times else shutil.copyfile
        return Path(shutil.copytree(self.directory / name, root, copy_function=copy))


def read_truth(directory):
    rows = json.loads((Path(directory) / "truth.json").read_text())
    return {name: Truth(**{**row, **pairs_of(row)}) for name, row in rows.items()}


def pairs_of(row):
    return {name: [tuple(place) for place in row[name]] for name in ("live", "leftovers")}


def add_batch_topics(root):
    """Write the entry that a broker would have in topics.json."""
    if (root / "batchconsumequeue").exists():
        table = {INNER_TOPIC: {"topicName": INNER_TOPIC, "attributes": {"queue.type": "BatchCQ"}}}
        (root / "config").mkdir(exist_ok=True)
        (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


# ---- damage ------------------------------------------------------------------------------------------------------


def put_bytes(root, offset, data):
    change_log(root, offset // LOG_FILE * LOG_FILE, offset % LOG_FILE, data)


def zero(root, offset, size):
    put_bytes(root, offset, bytes(size))


def flip_magic(root, offset, size):
    put_bytes(root, offset + 4, b"\x55")


def change_head(root, offset, size):
    put_bytes(root, offset, b"\x13\x57\x13\x57\x01")


def change_body(root, offset, size):
    """Of a record with a body of five bytes at least."""
    put_bytes(root, offset + 88, b"\x55\x66\x67\x55\x66")


def tear(root, offset, size):
    """The last half did not reach the disk."""
    put_bytes(root, offset + size // 2, bytes(size - size // 2))


def lose_sectors(root, offset, size):
    """Zero a record and the bytes behind it, up to the end of a sector of 512 bytes."""
    put_bytes(root, offset, bytes((offset + size + 511) // 512 * 512 - offset))


DAMAGES = (zero, flip_magic, change_head, change_body, tear, lose_sectors)
# ---- what happened to the files since ----------------------------------------------------------------------------


def sound_records(root):
    return Log(read_files(root / "commitlog")).records


def set_times(root, times_of):
    """Set store and born time of each record: times_of(number of the record, record) gives them."""
    for number, placed in enumerate(sound_records(root)):
        born, stored = times_of(number, placed.record)
        put_bytes(root, placed.offset + 40, struct.pack(">q", born))
        put_bytes(root, placed.offset + 56, struct.pack(">q", stored))


def as_it_is(root):
    pass


def clock_ahead(root):
    """The clock of the machine was a day ahead when the files were made."""
    for path in root.rglob("*"):
        os.utime(path, (path.stat().st_mtime + 86400, path.stat().st_mtime + 86400))


def clock_back(root):
    """The clock was set back by an hour before the last third of the records was stored."""
    first = len(sound_records(root)) * 2 // 3

    def times_of(number, record):
        back = HOUR if number >= first else 0
        return record.born_timestamp - back, record.store_timestamp - back

    set_times(root, times_of)


def one_millisecond(root):
    """All records were stored in the same millisecond."""
    time = sound_records(root)[-1].record.store_timestamp
    set_times(root, lambda number, record: (record.born_timestamp, time))


def no_checkpoint(root):
    (root / "checkpoint").unlink()


def no_lock(root):
    (root / "lock").unlink()


def no_queues(root):
    for name in ("consumequeue", "batchconsumequeue"):
        shutil.rmtree(root / name, ignore_errors=True)


def no_queues_of_a_topic(root):
    shutil.rmtree(root / "consumequeue" / "Orders")


def no_index(root):
    shutil.rmtree(root / "index")


# ---- cells -------------------------------------------------------------------------------------------------------

STATES = STOPPED, KILLED, RUNNING = "stopped", "killed", "running"
EVENTS = DAMAGE, DAMAGE_THEN_MESSAGES, CUT, CUT_THEN_MESSAGES, TORN = "damage", "damage-put", "cut", "cut-put", "torn"
STORES = {DAMAGE: "whole", DAMAGE_THEN_MESSAGES: "whole", CUT: "cut", CUT_THEN_MESSAGES: "written", TORN: "whole"}
CONDITIONS = {
    "copied": as_it_is,
    "moved": as_it_is,
    "restarted": as_it_is,
    "batches": as_it_is,
    "clock_ahead": clock_ahead,
    "clock_back": clock_back,
    "one_millisecond": one_millisecond,
    "no_checkpoint": no_checkpoint,
    "no_lock": no_lock,
    "no_queues": no_queues,
    "no_queues_of_a_topic": no_queues_of_a_topic,
    "no_index": no_index,
}


class Cell(NamedTuple):
    state: str
    event: str
    condition: str
    release: str

    @property
    def number(self):
        """A number that differs from cell to cell."""
        return CELLS.index(self)

    @property
    def damage(self):
        return DAMAGES[(self.number // len(RELEASES) + self.number) % len(DAMAGES)]

    @property
    def store(self):
        family = BATCHES if self.condition == "batches" else MIXED
        run = "-again" if self.condition == "restarted" else ""
        return f"{family}-{STORES[self.event]}{run}-{'stopped' if self.state == STOPPED else 'live'}"


CELLS = [Cell(*values) for values in itertools.product(STATES, EVENTS, CONDITIONS, RELEASES)]


def few_cells():
    """Return cells that have each value of each dimension, and first a cut that is proved."""
    cells = [
        Cell(STOPPED, CUT_THEN_MESSAGES, "copied", "5.5.1"),
        Cell(RUNNING, DAMAGE_THEN_MESSAGES, "moved", "4.9.8"),  # old records behind it, and then those of this run
        Cell(STOPPED, DAMAGE_THEN_MESSAGES, "no_index", "5.5.1"),  # in an earlier file, which building an index reads
    ]
    for number, condition in enumerate(itertools.islice(itertools.cycle(CONDITIONS), 2 * len(CONDITIONS) - 1)):
        state, event = STATES[number % 3], EVENTS[number * 2 % 5]
        cells.append(Cell(state, event, condition, RELEASES[number // 3 % 4]))
    return cells


class Made(NamedTuple):
    """A cell's store. damaged: (offset, size) of the records that were damaged in it; truth: of before that."""

    root: Path
    truth: Truth
    damaged: list


def make_cell(ends, cell, root):
    """Make the store of a cell."""
    if cell.condition == "moved":
        ends.copy(cell.store, root.with_name("before")).rename(root)
    else:
        ends.copy(cell.store, root, keeps_times=cell.condition != "copied")
    for name in ("abort", "lock") if cell.state == RUNNING else ():  # the broker started after the files were copied
        shutil.copystat(ends.directory / cell.store / name, root / name)
    if cell.state == KILLED:
        (root / "abort").write_text(NO_PROCESS)
    truth = ends.truth[cell.store]
    CONDITIONS[cell.condition](root)
    before = {placed.offset for placed in sound_records(root)}
    if STORES[cell.event] == "whole":
        for place in choose_records(cell, truth):
            cell.damage(root, *place)
    lost = before - {placed.offset for placed in sound_records(root)}
    return Made(root, truth, [place for place in truth.live if place[0] in lost])


def choose_records(cell, truth):
    """Return the record that is damaged: of the second run, or of the first run with the second run's behind it.

    A torn record is the last.
    """
    if cell.event == TORN:
        return truth.live[-1:]
    first, second = truth.live[: truth.first_run], truth.live[truth.first_run : -3]
    places = second if cell.event == DAMAGE else first[1:]
    return [places[cell.number * 7 % len(places)]]


# ---- a running broker --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def running(root, *, holds_lock=True):
    """Another process holds the lock of the store, and its number is in `abort`, as a broker's."""
    path, how = (root / "lock", "lock") if holds_lock else (root / "abort", "none")
    command = [sys.executable, "-S", "-c", HOLD, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        started = (root / "abort").stat().st_mtime
        (root / "abort").write_text(str(process.pid))
        os.utime(root / "abort", (started, started))
        assert process.stdout.readline() == b"held\n"
        yield
        process.stdin.close()
