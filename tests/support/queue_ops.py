"""Random lives of consume queues: what a broker does to one, step by step, and what the reference makes of it.

A step is (name, *arguments): put ROWS, reopen, truncate P, expire P, correct P, damage FILE POSITION BYTES. Rows are
(offset, size, tags code, store time, queue offset, batch size), as a DispatchRequest has them.
"""

import random
from typing import NamedTuple

import numpy as np
from reference import consume_queue as oracle
from reference.consume_queue import BATCH_UNIT_SIZE, UNIT_SIZE
from support.releases import numbers_of

from rocketstore.queue.batch_consume_queue_writer import BatchConsumeQueueWriter
from rocketstore.queue.consume_queue_ext_writer import ConsumeQueueExtWriter
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter

START = 1_700_000_000_000


class State(NamedTuple):
    """What a queue shows, and its files by name."""

    max_phy_offset: int
    min_offset: int
    max_offset: int
    files: dict
    ext_files: dict


class Life:
    """A queue of the reference that random steps are taken with. Attributes: steps; states, None: of no interest."""

    def __init__(self, rng, *, batch=False, ext_file_size=None, release="5.5.1"):
        self.rng = rng
        unit_size = BATCH_UNIT_SIZE if batch else UNIT_SIZE
        self.file_size = unit_size * rng.randint(2, 9)
        self.queue = oracle.Queue(self.file_size, unit_size)
        self.ext = oracle.Ext(ext_file_size) if ext_file_size else None
        self.release = release
        self.numbers = numbers_of(release)
        self.first = rng.choice([0, 0, 1, rng.randrange(40)])
        self.log_end = rng.choice([0, 0, rng.randrange(1000)])
        self.log_begin = 0
        self.steps, self.states = [], []

    def live(self, count):
        for _ in range(count):
            weights = [60, 8, 8, 8, 5, 5]
            self.rng.choices([self.put, self.reopen, self.truncate, self.expire, self.correct, self.damage], weights)[
                0
            ]()
        return self

    def took(self, *step):
        self.steps.append(step)
        queue = self.queue
        ext_files = self.ext.files if self.ext else {}
        self.states.append(
            State(
                queue.max_physic_offset,
                queue.min_offset,
                queue.max_offset,
                {f"{start:020}": bytes(data) for start, data in queue.files.items()},
                {f"{start:020}": bytes(data) for start, data in ext_files.items()},
            )
        )

    def put(self):
        rows = [self.row() for _ in range(self.rng.choice([1, 1, 1, 2, 5, 30]))]
        self.took("put", rows)

    def row(self):
        rng, queue = self.rng, self.queue
        size = rng.randint(60, 200)
        offset = self.log_end
        if rng.random() < 0.1:
            offset = max(offset - rng.randrange(600), 0)  # dispatched again
        queue_offset = queue.max_offset if queue.files else self.first
        if rng.random() < 0.1:
            queue_offset = max(queue_offset + rng.randint(-4, 4), 0)
        self.log_end = max(self.log_end, offset + size)
        tags_code = rng.choice([0, rng.randint(-(2**31), 2**31 - 1), START + rng.randrange(10**6)])
        number = rng.choice([1, 1, 3, rng.randint(1, 32767)])
        if queue.is_batch and rng.random() < 0.05:
            queue_offset, number = rng.choice([(-1, 1), (queue_offset, -1), (queue_offset, 0)])
        row = (offset, size, tags_code, START + self.log_end, queue_offset, number)
        put_row(queue, self.ext, row)
        return row

    def reopen(self):
        old = self.queue
        self.queue = oracle.Queue(old.file_size, old.unit_size, old.files)
        read = oracle.recover(self.queue)
        if self.ext and not read:
            self.ext.end = max(self.ext.files, default=-self.ext.file_size) + self.ext.file_size
        elif self.ext:
            oracle.recover_ext(self.ext)
            units = [unit for start in read for unit in self.queue.units(start)]
            addresses = [unit.tags_code for unit in units if oracle.is_ext_addr(unit.tags_code)]
            if addresses:
                oracle.truncate_ext_by_max_address(self.ext, addresses[-1])
        self.took("reopen")

    def a_place(self):
        units = [unit for start in self.queue.starts for unit in self.queue.units(start)]
        near = self.rng.choice(units).offset + self.rng.choice([-1, 0, 0, 1]) if units else 0
        return max(self.rng.choice([near, near, self.log_end, self.rng.randrange(self.log_end + 100)]), 0)

    def truncate(self):
        phy_offset = self.a_place()
        oracle.truncate(self.queue, phy_offset)
        self.log_end = min(self.log_end, phy_offset)
        self.took("truncate", phy_offset)

    def expire(self):
        self.log_begin = max(self.log_begin, min(self.a_place(), self.log_end))
        if self.may_correct():
            oracle.delete_expired(self.queue, self.log_begin)
            self.correct("expire")

    def correct(self, step="correct"):
        if self.may_correct():
            unit = oracle.correct_min_offset(self.queue, self.log_begin, self.numbers)
            if unit and self.ext:
                oracle.truncate_ext_by_min_address(self.ext, unit.tags_code)
            self.took(step, self.log_begin)

    def may_correct(self):
        """RocketMQ 5.3.3 throws where a queue has files, but the last of them no unit."""
        queue = self.queue
        return self.numbers > (5, 3, 3) or not queue.files or queue.written(queue.starts[-1]) > 0

    def damage(self):
        """A unit is overwritten while nobody has the queue open."""
        queue = self.queue
        if not queue.files:
            return
        start = self.rng.choice(queue.starts)
        position = self.rng.randrange(queue.file_size // queue.unit_size) * queue.unit_size
        data = self.rng.choice([bytes(queue.unit_size), self.rng.randbytes(queue.unit_size)])
        queue.files[start] = bytearray(queue.files[start])
        queue.files[start][position : position + len(data)] = data
        self.steps.append(("damage", f"{start:020}", position, data))
        self.states.append(None)
        self.reopen()


def put_row(queue, ext, row):
    offset, size, tags_code, store_timestamp, queue_offset, number = row
    if queue.is_batch:
        oracle.put_batch(queue, offset, size, tags_code, store_timestamp, queue_offset, number)
        return
    if ext is not None:
        tags_code = oracle.put_ext(ext, tags_code, store_timestamp)
    oracle.put(queue, offset, size, tags_code, queue_offset)


def columns(rows):
    """Rows as put_units takes them."""
    types = [np.int64, np.int32, np.int64, np.int64, np.int64, np.int32]
    return [np.array([row[at] for row in rows], kind) for at, kind in enumerate(types)]


def lives(seed, count, steps=40, **kind):
    return [Life(random.Random(f"{seed} {kind} {number}"), **kind).live(steps) for number in range(count)]


# ---- the same with a writer --------------------------------------------------------------------------------


def open_writer(life, directory):
    """A new writer of the life's queue."""
    if life.queue.is_batch:
        return BatchConsumeQueueWriter(directory / "queue", life.file_size)
    ext = ConsumeQueueExtWriter(directory / "ext", life.ext.file_size) if life.ext else None
    return ConsumeQueueWriter(directory / "queue", life.file_size, ext, compat=life.release)


def take(writer, name, *rest):
    """Take a step with a writer."""
    if name == "put":
        put(writer, rest[0])
    elif name == "truncate":
        writer.truncate(*rest)
    elif name == "expire":
        writer.delete_expired(*rest)
    elif name == "correct":
        writer.correct_min_offset(*rest)


def put(writer, rows):
    offsets, sizes, tags_codes, times, queue_offsets, numbers = columns(rows)
    if isinstance(writer, BatchConsumeQueueWriter):
        return writer.put_units(offsets, sizes, tags_codes, times, queue_offsets, numbers)
    if writer.ext:
        units = zip(tags_codes.tolist(), times.tolist(), strict=True)
        tags_codes = np.array([writer.ext.put(*unit) for unit in units])
    return writer.put_units(offsets, sizes, tags_codes, queue_offsets)


def files_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()} if directory.exists() else {}


def check_writer(life, directory):
    """Take every step of a life with writers, and compare what they show and leave with the reference."""
    writer = open_writer(life, directory)
    for at, (step, state) in enumerate(zip(life.steps, life.states, strict=True)):
        if step[0] == "damage":
            file, position, data = step[1:]
            with (directory / "queue" / file).open("r+b") as stream:
                stream.seek(position)
                stream.write(data)
            continue
        if step[0] == "reopen":
            writer.close()
            writer = open_writer(life, directory)
        else:
            take(writer, *step)
        shown = (writer.max_phy_offset, writer.min_queue_offset, writer.max_queue_offset)
        files = files_of(directory / "queue"), files_of(directory / "ext")
        assert State(*shown, *files) == state, f"step {at}: {step}, after {life.steps[:at]}"
    writer.close()
