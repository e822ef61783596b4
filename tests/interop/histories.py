"""Short histories of stores: runs of a broker's store classes, damage between them, and what was put.

`make_archive` makes the stores of `tests/golden/ends-RELEASE.tar.xz`, which `support/log_ends.py` reads and describes.
"""

import io
import json
import shutil
import tarfile
import time

from reference.log_end import Log
from support.damages import read_files
from support.log_ends import BATCHES, FAMILIES, LOG_FILE, MIXED, SIZES, add_batch_topics, zero
from support.log_ends import INNER_TOPIC as INNER
from support.releases import numbers_of

from interop.stores import base64_of
from rocketstore.config import camel_case

BORN_HOST, STORE_HOST = "127.0.0.1:50000", "127.0.0.1:10911"
FIRST, SECOND, NEW = {MIXED: 84, BATCHES: 130}, 14, 5  # messages of each run
LEAST_IN_LAST_FILE = 20
CUT_BEFORE_THE_END = 12  # records that a broker cuts off
LEFT_OUT = ("rocksdb", "timer", "compaction")  # directories and files that no log's end needs


def config_of(**more):
    """The options of the stores, for RocketMQ."""
    sizes = {camel_case(name): size for name, size in SIZES.items()}
    return {
        **sizes,
        "maxMessageSize": LOG_FILE // 2,
        "enableCompaction": False,
        "cleanFileForciblyEnable": False,
        "diskMaxUsedSpaceRatio": 99,
        "fileReservedTime": 24 * 3650,
        "flushDiskType": "ASYNC_FLUSH",
        **more,
    }


class Writer:
    """Makes messages with unique keys, keys and text, numbered, born now."""

    def __init__(self, release):
        self.has_inner_batches = numbers_of(release) >= (5,)
        self.number = 0

    def properties(self, *, has_keys=True):
        self.number += 1
        keys = {"KEYS": f"key-{self.number}", "UNIQ_KEY": f"7F00000100002A9F0000{self.number:012X}"}
        return {"TAGS": "TagA", **(keys if has_keys else {})}

    def message(self, topic, queue_id, length, **fields):
        return {
            "topic": topic,
            "queueId": queue_id,
            "bornTimestamp": time.time_ns() // 1_000_000,
            "bornHost": BORN_HOST,
            "storeHost": STORE_HOST,
            "body": base64_of(self.text(length)),
            "properties": self.properties(),
            **fields,
        }

    def text(self, length):
        return (b"message %d. " % self.number * (length // 10 + 1))[:length]

    def batch(self, topic, count, length, *, is_inner=False):
        items = [{"body": base64_of(self.text(length)), "properties": self.properties()} for _ in range(count)]
        # Each record of a client's batch has the properties of the batch behind its own.
        properties = self.properties(has_keys=is_inner)
        made = self.message(topic, 0, 0, batch=items, innerBatch=is_inner, properties=properties)
        del made["body"]
        return made

    def mixed(self, length):
        """One of messages in four queues, every seventh without keys, every ninth prepared and never committed."""
        number = self.number
        if number % 7 == 6:
            return self.message("Quiet", 0, length, properties=self.properties(has_keys=False))
        if number % 9 == 8:
            return self.message("Orders", 0, length, sysFlag=0x4)
        return self.message("Orders" if number % 2 else "Payments", number // 2 % 2, length)

    def batches(self, length):
        """One of a client's batch, an inner batch where the release has them, and a message."""
        number = self.number
        if number % 3 == 0:
            return self.batch("Batches", 2 + number % 2, length)
        if number % 3 == 1 and self.has_inner_batches:
            return self.batch(INNER, 3, length // 2, is_inner=True)
        return self.message("Orders", 0, length)

    def put(self, family, count, *, shorter=0):
        """Return messages of different lengths for about `count` records."""
        make = {MIXED: self.mixed, BATCHES: self.batches}[family]
        made, last = [], self.number + count
        while self.number < last:
            made.append(make(150 + self.number * 37 % 120 - shorter))
        return made


class History:
    """A store that is started, written, stopped, killed and damaged. places: (offset, size) of what was put."""

    def __init__(self, java, root, *, config=None, batch_topics=(INNER,)):
        self.java = java
        self.root = root
        self.options = {"config": config or config_of(), "batchTopics": list(batch_topics)}
        self.places = []
        root.mkdir(parents=True, exist_ok=True)

    def branch(self, root):
        """A copy of a stopped store with its own later history."""
        other = History(self.java, shutil.copytree(self.root, root), config=self.options["config"])
        other.places = list(self.places)
        return other

    def start(self):
        """Start the store; return where it ends its log. Places behind that end are no messages any more."""
        end = self.java.start(self.root, self.options)["maxOffset"]
        self.places = [place for place in self.places if place[0] < end]
        return end

    def put(self, messages):
        for message, result in zip(messages, self.java.put_messages(self.root, messages), strict=True):
            assert result.get("appendStatus") == "PUT_OK", (message, result)
            self.add(message, result["wroteOffset"], result["wroteBytes"])

    def add(self, message, offset, size):
        """A client's batch is several records."""
        if "batch" not in message or message["innerBatch"]:
            self.places.append((offset, size))
            return
        data = read_files(self.root / "commitlog")[offset // LOG_FILE * LOG_FILE]
        end = offset + size
        while offset < end:
            position = offset % LOG_FILE
            size = int.from_bytes(data[position : position + 4], "big")
            self.places.append((offset, size))
            offset += size

    def stop(self):
        (end,) = self.java.stop(self.root)
        return end

    def kill(self):
        """Leave what a killed process leaves: page cache and mappings are one."""
        copy = self.root.with_name(f"{self.root.name}-killed")
        shutil.copytree(self.root, copy)
        self.stop()
        shutil.rmtree(self.root)
        copy.rename(self.root)

    def damage(self, how, number):
        """Damage a record that was put, see support/log_ends.py; return where it was."""
        offset, size = self.places[number]
        how(self.root, offset, size)
        return offset


# ---- the archives --------------------------------------------------------------------------------------------


class Moments:
    """Copies of stores at moments of their histories, with the truth of each."""

    def __init__(self, directory):
        self.directory = directory
        self.truth = {}

    def add(self, name, history, *, end, put, cut, first_run):
        """put: the places that were put in the store's whole history, with those that a broker cut off."""
        root = self.directory / name
        shutil.copytree(history.root, root)
        for path in sorted(root.iterdir()):
            if path.name.startswith(LEFT_OUT):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        add_batch_topics(root)
        sound = {placed.offset for placed in Log(read_files(root / "commitlog")).records}
        live = list(history.places)
        left = [place for place in put if place[0] >= end and place[0] in sound]
        assert {offset for offset, _ in live} <= sound
        self.truth[name] = {"end": end, "cut": cut, "first_run": first_run, "live": live, "leftovers": left}


def live_through(moments, name, history, *, put, cut=None, messages=()):
    """Add moments: the store runs, with messages of this run; it was stopped; it runs again; it was stopped again."""
    end = history.start()
    assert cut in (None, end), (name, end, cut, history.places[-3:])
    first_run = len(history.places)
    history.put(messages)
    put = [*put, *(place for place in history.places if place not in put)]
    end = max((offset + size for offset, size in history.places), default=0)
    for run in ("", "-again"):
        moments.add(f"{name}{run}-live", history, end=end, put=put, cut=cut, first_run=first_run)
        stopped = history.stop()
        assert stopped == end, (name, run, stopped, end, cut)
        moments.add(f"{name}{run}-stopped", history, end=end, put=put, cut=cut, first_run=first_run)
        if not run:
            assert history.start() == end


def count_in_last_file(places):
    last = max(offset // LOG_FILE for offset, _ in places)
    return sum(offset // LOG_FILE == last for offset, _ in places)


def make_family(java, directory, family):
    """Make the stores of a family in a directory; return their truth by name."""
    moments, writer = Moments(directory), Writer(java.release)
    base = History(java, directory / f"{family}-base")
    base.start()
    base.put(writer.put(family, FIRST[family]))
    while count_in_last_file(base.places) < LEAST_IN_LAST_FILE:  # a broker of 5.5.1 reads no other file
        base.put(writer.put(family, 1))
    base.stop()
    put = list(base.places)
    # An ordinary store: two runs.
    whole = base.branch(directory / f"{family}-run-whole")
    live_through(moments, f"{family}-whole", whole, put=put, messages=writer.put(family, SECOND))
    # A record did not reach the disk, and a broker cut the log there.
    damaged = base.branch(directory / f"{family}-run-damaged")
    cut = damaged.damage(zero, -CUT_BEFORE_THE_END)
    assert cut % LOG_FILE
    idle = damaged.branch(directory / f"{family}-run-cut")
    live_through(moments, f"{family}-cut", idle, put=put, cut=cut)
    new = damaged.branch(directory / f"{family}-run-written")
    live_through(moments, f"{family}-written", new, put=put, cut=cut, messages=writer.put(family, NEW, shorter=41))
    for path in (base.root, whole.root, damaged.root, idle.root, new.root):
        shutil.rmtree(path)
    return moments.truth


def make_stores(java, directory):
    """Make all stores of a release; return their truth by name."""
    directory.mkdir(parents=True, exist_ok=True)
    truth = {}
    for family in FAMILIES:
        truth |= make_family(java, directory, family)
    return truth


def write_archive(directory, truth, path):
    """Write the stores and truth.json; the same stores give the same bytes."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        text = json.dumps(truth, indent=0).encode()
        archive.addfile(entry_of("truth.json", len(text), 0), io.BytesIO(text))
        # Copies of one file beside each other take no room.
        paths = sorted((path for path in directory.rglob("*") if path.is_file()), key=place_in_archive(directory))
        for path in paths:
            name, data = str(path.relative_to(directory)), path.read_bytes()
            archive.addfile(entry_of(name, len(data), path.stat().st_mtime), io.BytesIO(data))


def place_in_archive(directory):
    def key(path):
        store, *rest = path.relative_to(directory).parts
        return rest, store

    return key


def entry_of(name, size, mtime):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = size, mtime
    return entry
