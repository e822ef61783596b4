"""A process that writes a store until it is killed, and names acknowledged messages on a pipe; and its caller.

A message follows from its id alone, so that whatever is found in a store can be judged: its id is at the beginning of
its body.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from support.broker_tables import extend_topics

import rocketstore
from rocketstore import Message, StoreConfig

QUEUES = {"Orders": 3, "Audit": 1, "TopicWithALongerName": 2}
BATCH_TOPIC, BATCH_QUEUES = "Inner", 2
STARTING, OPENED, FLUSHED, CLOSED = "starting", "opened", "flushed", "closed"


def store_config(flush_disk_type="SYNC_FLUSH", ext=False):
    """Files so small that each run fills several."""
    return StoreConfig(
        mapped_file_size_commit_log=32 << 10,
        mapped_file_size_consume_queue=20 * 20,
        mapper_file_size_batch_consume_queue=46 * 10,
        mapped_file_size_consume_queue_ext=256 if ext else 4096,
        enable_consume_queue_ext=ext,
        max_hash_slot_num=50,
        max_index_num=150,
        flush_disk_type=flush_disk_type,
    )


def make_topics(root):
    extend_topics(root, {**QUEUES, BATCH_TOPIC: BATCH_QUEUES}, {BATCH_TOPIC: "BatchCQ"})


class Plan(NamedTuple):
    """A message to put. queue_id None: the store chooses the queue."""

    topic: str
    queue_id: int | None
    body: bytes
    keys: list
    tags: str | None


def plan(ident):
    """The message of an id, which names topic and queue for those that must go there together."""
    rng = random.Random(ident)
    topic = rng.choice(list(QUEUES))
    queue_id = rng.choice([None, *range(QUEUES[topic])])
    if "/" in ident:
        topic, queue_id = ident.split("/")[1], int(ident.split("/")[2])
    size = rng.choice([0, 10, 100, 100, 1_000, 1_000, 3_000])
    body = f"{ident}|".encode() + random.Random(f"{ident}/body").randbytes(size)
    keys = rng.choice([[], [ident], [ident], [ident, f"shared{rng.randrange(5)}"]])
    tags = rng.choice([None, "TagA", "TagB"])
    return Plan(topic, queue_id, body, keys, tags)


def message(planned):
    return Message(planned.topic, planned.body, keys=planned.keys, tags=planned.tags, queue_id=planned.queue_id)


def ident_of(body):
    return body[: body.index(b"|")].decode()


class Ack(NamedTuple):
    """A message that the store said it has. Of an inner batch: the message's own queue offset, the batch's record."""

    ident: str
    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    size: int
    digest: str

    @classmethod
    def of(cls, ident, planned, queue_id, queue_offset, phy_offset, size):
        digest = hashlib.sha256(planned.body).hexdigest()[:16]
        return cls(ident, planned.topic, int(queue_id), int(queue_offset), int(phy_offset), int(size), digest)


# ---- in the child ------------------------------------------------------------------------------------------


class Writer:
    """One session with a store: threads that put messages, one line of standard output for each acknowledgement."""

    def __init__(self, root, config, session, seed):
        self.root, self.config, self.session, self.seed = root, config, session, seed
        self.lock = threading.Lock()
        self.waiting = []  # messages that were acknowledged since the last flush began

    def say(self, value):
        """One line, whole or not at all."""
        line = json.dumps(value).encode() + b"\n"
        with self.lock:
            while line:
                line = line[os.write(1, line) :]

    def run(self, operations, threads):
        self.say(STARTING)
        make_topics(self.root)
        self.store = rocketstore.open(self.root, "a", config=self.config)
        self.say(OPENED)
        self.errors = []
        workers = [threading.Thread(target=self.work, args=(number, operations)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if self.errors:
            raise self.errors[0]
        self.store.close()
        self.say(CLOSED)

    def work(self, number, operations):
        rng = random.Random(f"{self.seed}/{self.session}/{number}")
        kinds = [self.put_one] * 5 + [self.put_many] * 3 + [self.put_batch, self.put_inner_batch, self.flush]
        try:
            for turn in range(operations):
                rng.choice(kinds)(rng, f"{self.session}-{number}-{turn}")
        except Exception as error:
            self.errors.append(error)

    def acknowledge(self, acks):
        self.say([list(ack) for ack in acks])

    def put_one(self, rng, ident):
        planned = plan(ident)
        result = self.store.put_message(message(planned))
        self.acknowledge([Ack.of(ident, planned, result.queue_id, result.queue_offset, result.phy_offset, result.size)])

    def put_many(self, rng, ident):
        idents = [f"{ident}.{n}" for n in range(rng.choice([1, 2, 5, 20]))]
        plans = [plan(each) for each in idents]
        self.acknowledge_all(idents, plans, self.store.put_messages([message(planned) for planned in plans]))

    def put_batch(self, rng, ident):
        """A client's batch: records that follow each other in one file."""
        topic = rng.choice(list(QUEUES))
        queue_id = rng.randrange(QUEUES[topic])
        idents = [f"{ident}.{n}/{topic}/{queue_id}" for n in range(rng.randint(1, 4))]
        plans = [plan(each) for each in idents]
        batch = Message(topic, b"", queue_id=queue_id)
        self.acknowledge_all(idents, plans, self.store.put_batch(batch, [message(planned) for planned in plans]))

    def put_inner_batch(self, rng, ident):
        """One record with several messages in it."""
        queue_id = rng.randrange(BATCH_QUEUES)
        idents = [f"{ident}.{n}/{BATCH_TOPIC}/{queue_id}" for n in range(rng.randint(1, 4))]
        plans = [plan(each) for each in idents]
        batch = Message.batch(BATCH_TOPIC, [message(planned) for planned in plans])
        batch.queue_id = queue_id
        result = self.store.put_message(batch)
        self.acknowledge(
            Ack.of(each, planned, result.queue_id, result.queue_offset + n, result.phy_offset, result.size)
            for n, (each, planned) in enumerate(zip(idents, plans, strict=True))
        )

    def acknowledge_all(self, idents, plans, results):
        columns = (results.queue_ids, results.queue_offsets, results.phy_offsets, results.sizes)
        self.acknowledge(Ack.of(*row) for row in zip(idents, plans, *columns, strict=True))

    def flush(self, rng, ident):
        """What this thread has put so far is on the disk after it, and so is what others had been told before it."""
        begun = self.begin_flush()
        self.store.flush()
        self.say({FLUSHED: begun})

    def begin_flush(self):
        token = f"flush {time.monotonic_ns()} {threading.get_ident()}"
        self.say({"flushing": token})
        return token


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--session", required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--flush-disk-type", default="SYNC_FLUSH")
    parser.add_argument("--operations", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--record")
    parser.add_argument("--lies", type=int, default=0)
    parser.add_argument("--kill-at", type=int, default=0)
    parser.add_argument("--ext", type=int, default=0)
    options = parser.parse_args()
    if options.record:
        from support.faults import Faults

        faults = Faults()
        faults.watch(options.root)
        faults.record(options.record, options.lies)
        faults.kill_at(options.kill_at)
    config = store_config(options.flush_disk_type, bool(options.ext))
    Writer(options.root, config, options.session, options.seed).run(options.operations, options.threads)
    if options.record:
        print(json.dumps({"calls": faults.calls}), flush=True)


# ---- in the parent -----------------------------------------------------------------------------------------


@dataclass
class Run:
    """What a writer said before it ended."""

    acks: list = field(default_factory=list)
    flushed: list = field(default_factory=list)  # of these: acknowledged before a flush that ended well
    said: set = field(default_factory=set)
    calls: int = 0
    errors: str = ""

    def hear(self, line, begun):
        value = json.loads(line)
        if isinstance(value, str):
            self.said.add(value)
            if value == CLOSED:
                self.flushed = list(self.acks)
        elif isinstance(value, list):
            self.acks += [Ack(*row) for row in value]
        elif "flushing" in value:
            begun[value["flushing"]] = len(self.acks)
        elif FLUSHED in value:
            self.flushed = self.acks[: max(len(self.flushed), begun[value[FLUSHED]])]
        else:
            self.calls = value["calls"]


def run_writer(root, *, session, seed, env=None, kill_after=None, pause=0.0, **options):
    """Run a writer to its end, or until it has said `kill_after` lines and `pause` seconds have passed."""
    arguments = {"session": session, "seed": seed, **options}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in arguments.items()]
    command = [sys.executable, "-X", "faulthandler", __file__, str(root), *flags]
    run, begun, lines = Run(), {}, 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as child:
        stop = threading.Timer(120, child.kill)
        stop.start()
        try:
            for line in child.stdout:
                if line.endswith(b"\n"):
                    run.hear(line, begun)
                lines += 1
                if lines == kill_after:
                    wait(pause)
                    child.kill()
            run.errors = child.stderr.read().decode(errors="replace")
        finally:
            assert stop.is_alive(), f"the writer hangs: {root}"
            stop.cancel()
    run.status = child.returncode
    return run


def wait(seconds):
    """A moment shorter than sleep() can be."""
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        pass


if __name__ == "__main__":
    main()
