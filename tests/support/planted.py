"""Faults planted in sound stores, each with the finding that must name it: its kind, file and place.

A fault is a function that damages a `Store` and returns (kind, path below the root, offset in it or None for any).
"""

import functools
import itertools
import json
import os
import shutil
import struct
from pathlib import Path

from reference.commit_log import read_files, scan
from reference.consume_queue import UNIT as UNIT_FIELDS
from reference.consume_queue import pack_batch_unit
from reference.record import build_record

import rocketstore
from rocketstore import Message, StoreConfig

LOG_FILE, QUEUE_FILE, BATCH_FILE, EXT_FILE = 4096, 200, 230, 256
SLOTS, ITEMS = 13, 60
BEGIN = 1_700_000_000_000
UNIT, BATCH_UNIT, ITEM = 20, 46, 20
ITEMS_AT = 40 + 4 * SLOTS
DELAYED = "SCHEDULE_TOPIC_XXXX"
FILLER = struct.pack(">qiq", 0, 2**31 - 1, 0)
SIZES = {
    "mapped_file_size_commit_log": LOG_FILE,
    "mapped_file_size_consume_queue": QUEUE_FILE,
    "mapper_file_size_batch_consume_queue": BATCH_FILE,
    "mapped_file_size_consume_queue_ext": EXT_FILE,
    "max_hash_slot_num": SLOTS,
    "max_index_num": ITEMS,
}
OPTIONS = {
    "plain": {},
    "crc": {"enabled_append_prop_crc": True},
    "ext": {"enable_consume_queue_ext": True},
    "batch": {},
    "light": {"enable_lmq": True, "enable_multi_dispatch": True},
    "expired": {},
}


# ---- sound stores ------------------------------------------------------------------------------------------


def build(base, root):
    """Make the sound store of a name."""
    config = StoreConfig(**SIZES, **OPTIONS[base])
    with rocketstore.open(root, "a", config=config) as store:
        store.create_topic("TopicTest", 3)
        store.create_topic("Inner", 1, queue_type="BatchCQ")
        for n in range(75):
            put(store, base, n)
    if base == "expired":
        expire(root)


def put(store, base, n):
    time = BEGIN + 1500 * n
    properties = {"KEYS": f"K{n} k{n % 7}", "UNIQ_KEY": f"U{n:05}", "TAGS": f"Tag{n % 3}"}
    if base == "light" and n % 2:
        properties["INNER_MULTI_DISPATCH"] = "%LMQ%a,%LMQ%b"
    message = Message("TopicTest", b"body %03d" % n * (1 + n % 9), queue_id=n % 3, properties=properties)
    store.put_message(message, store_timestamp=time)
    if n % 5 == 0:
        delayed = Message(DELAYED, b"later", queue_id=2, properties={"DELAY": "3", "TAGS": "d"})
        store.put_message(delayed, store_timestamp=time + 1)
    if n % 11 == 0:
        flag = 0x4 if n % 2 else 0xC
        half = Message("TopicTest", b"half", queue_id=0, properties={"KEYS": f"half{n}"}, sys_flag=flag)
        store.put_message(half, store_timestamp=time + 2)
    if base == "batch" and n % 3 == 0:
        inner = Message.batch("Inner", [Message("Inner", b"one", queue_id=0), Message("Inner", b"two", queue_id=0)])
        inner.queue_id = 0
        store.put_message(inner, store_timestamp=time + 3)


def expire(root):
    """The first two log files go, as they do when they are old, and what of queues and index is of them alone."""
    for start in (0, LOG_FILE):
        (root / "commitlog" / f"{start:020}").unlink()


class Store:
    """The files of a store to damage, by their paths below the root."""

    def __init__(self, root):
        self.root = Path(root)
        self.records = scan(read_files(self.root / "commitlog"))

    def read(self, name):
        return (self.root / name).read_bytes()

    def write(self, name, position, data):
        """Overwrite bytes."""
        with (self.root / name).open("r+b") as file:
            file.seek(position)
            file.write(data)

    def add(self, name, position, size, number):
        """Change a number, big-endian, that has so many bytes."""
        old = int.from_bytes(self.read(name)[position : position + size], "big", signed=True)
        self.write(name, position, (old + number).to_bytes(size, "big", signed=True))

    # ---- log ---------------------------------------------------------------------------------------------------

    def place(self, phy_offset):
        """The file and the place in it."""
        return f"commitlog/{phy_offset // LOG_FILE * LOG_FILE:020}", phy_offset % LOG_FILE

    def record(self, n, topic="TopicTest"):
        """(physical offset, record) of the n-th record of a topic that has a unit."""
        found = [(at, record) for at, record in self.records if record.topic == topic and record.sys_flag & 0xC == 0]
        return found[n]

    def middle(self, topic="TopicTest"):
        """One that is neither the first nor the last of its file."""
        found = (self.record(n, topic) for n in itertools.count(20 if topic == "TopicTest" else 3))
        return next(pair for pair in found if 500 < pair[0] % LOG_FILE < LOG_FILE - 1000)

    def end(self):
        at, record = self.records[-1]
        return at + record.total_size

    def log_files(self):
        return sorted(path.name for path in (self.root / "commitlog").iterdir())

    # ---- queues ------------------------------------------------------------------------------------------------

    def unit(self, record, topic=None, queue_id=None, offset=None):
        """The file of a record's unit, and where it is."""
        offset = record.queue_offset if offset is None else offset
        name = f"consumequeue/{topic or record.topic}/{record.queue_id if queue_id is None else queue_id}"
        return f"{name}/{offset * UNIT // QUEUE_FILE * QUEUE_FILE:020}", offset * UNIT % QUEUE_FILE

    def batch_unit(self, n):
        per_file = BATCH_FILE // BATCH_UNIT
        return f"batchconsumequeue/Inner/0/{n // per_file * BATCH_FILE:020}", n % per_file * BATCH_UNIT

    # ---- index -------------------------------------------------------------------------------------------------

    def index(self, n):
        return f"index/{sorted(path.name for path in (self.root / 'index').iterdir())[n]}"

    def count(self, n):
        return int.from_bytes(self.read(self.index(n))[36:40], "big") - 1

    def item(self, n, ordinal):
        """(key hash, physical offset, seconds, previous item)"""
        return struct.unpack_from(">iqii", self.read(self.index(n)), ITEMS_AT + ITEM * ordinal)

    def linked(self, n):
        """An item that has one before it in its slot."""
        return next(k for k in range(self.count(n) // 2, self.count(n)) if self.item(n, k)[3] > 0)


FAULTS = {}


def fault(base="plain"):
    def add(function):
        FAULTS[function.__name__] = base, function
        return function

    return add


def each(base, names):
    """Plant one fault with each of some arguments."""

    def add(function):
        for name, arguments in names.items():
            FAULTS[f"{function.__name__}: {name}"] = base, functools.partial(function, **arguments)
        return function

    return add


# ---- records -----------------------------------------------------------------------------------------------


@each(
    "plain",
    {
        "body": {"field": 88, "change": 1, "size": 1, "kind": "log-body-crc"},
        "last byte of the body": {"field": -1, "change": 1, "size": 1, "kind": "log-body-crc"},
        "body CRC": {"field": 8, "change": 1, "size": 4, "kind": "log-body-crc"},
        "magic": {"field": 4, "change": 1, "size": 4, "kind": "log-magic"},
        "another version": {"field": 4, "change": 12, "size": 4, "kind": "log-topic-length"},
        "size and 1": {"field": 0, "change": 1, "size": 4, "kind": "log-size"},
        "size less 1": {"field": 0, "change": -1, "size": 4, "kind": "log-size"},
        "size beyond the file": {"field": 0, "change": 1 << 20, "size": 4, "kind": "log-size"},
        "negative size": {"field": 0, "change": -(1 << 30), "size": 4, "kind": "log-size"},
        "physical offset": {"field": 28, "change": 8, "size": 8, "kind": "log-phy-offset"},
        "negative physical offset": {"field": 28, "change": -(1 << 60), "size": 8, "kind": "log-phy-offset"},
        "queue offset and 1": {"field": 20, "change": 1, "size": 8, "kind": "log-queue-offset-gap"},
        "queue offset less 1": {"field": 20, "change": -1, "size": 8, "kind": "log-queue-offset-again"},
        "huge queue offset": {"field": 20, "change": 1 << 60, "size": 8, "kind": "log-queue-offset-gap"},
        "negative queue offset": {"field": 20, "change": -(1 << 60), "size": 8, "kind": "log-queue-offset-again"},
        "store time": {"field": 56, "change": -100_000, "size": 8, "kind": "log-time-falls"},
        "body length": {"field": 84, "change": 1 << 20, "size": 4, "kind": "log-body-length"},
        "negative body length": {"field": 84, "change": -(1 << 20), "size": 4, "kind": "log-body-length"},
        "body length and 1": {"field": 84, "change": 1, "size": 4, "kind": "log-size"},
    },
)
def changed_record(store, field, change, size, kind):
    at, record = store.middle()
    name, position = store.place(at)
    field = 88 + len(record.body) - 1 if field < 0 else field
    data = store.read(name)[position + field : position + field + size]
    if size == 1 or field == 4:
        store.write(name, position + field, (int.from_bytes(data, "big") ^ change).to_bytes(size, "big"))
    else:
        store.add(name, position + field, size, change)
    return kind, name, position


@each(
    "plain",
    {
        "negative topic length": {"field": 0, "data": b"\xff", "kind": "log-topic-length"},
        "topic length beyond the record": {"field": 0, "data": b"\x7f", "kind": None},
        "shorter topic": {"field": 0, "data": b"\x08", "kind": None},
        "negative properties length": {"field": 10, "data": b"\xff\xff", "kind": "log-size"},
        "properties length beyond the file": {"field": 10, "data": b"\x7f\xff", "kind": "log-properties-length"},
        "shorter properties": {"field": 10, "data": b"\0\x03", "kind": "log-size"},
    },
)
def changed_length(store, field, data, kind):
    at, record = store.middle()
    name, position = store.place(at)
    store.write(name, position + 88 + len(record.body) + field, data)
    return kind or ("log-properties-length", "log-size"), name, position


@each("plain", {"its head": {"size": 8}, "all of it": {"size": None}})
def zeroed_record(store, size):
    at, record = store.middle()
    name, position = store.place(at)
    store.write(name, position, bytes(size or record.total_size))
    return "log-zeros", name, position


@fault()
def noise_over_records(store):
    at, record = store.middle()
    name, position = store.place(at)
    store.write(name, position, b"noise" * (record.total_size // 5 + 20))
    return "log-magic", name, position


@fault()
def record_from_another_place(store):
    at, record = store.middle()
    other = next(o for o, r in store.records if o > at + LOG_FILE and r.total_size == record.total_size)
    source, start = store.place(other)
    name, position = store.place(at)
    store.write(name, position, store.read(source)[start : start + record.total_size])
    return "log-phy-offset", name, position


@fault()
def record_of_another_queue(store):
    at, record = store.middle()
    name, position = store.place(at)
    store.write(name, position + 12, ((record.queue_id + 1) % 3).to_bytes(4, "big"))
    return ("unit-of-another-queue", *store.unit(record))


@fault()
def record_of_another_topic(store):
    at, record = store.middle()
    name, position = store.place(at)
    store.write(name, position + 89 + len(record.body), b"TopicTesu")
    return "unit-of-another-queue", store.unit(record)[0], store.unit(record)[1]


@fault()
def key_of_a_record(store):
    """The record has a key that was not put, and the item is of one that it has not."""
    at, _ = store.middle()
    name, position = store.place(at)
    where = store.read(name).index(b"KEYS\x01K", position) + 5
    store.write(name, where, b"Z")
    return "index-key-missing", name, position


@fault()
def tags_of_a_record(store):
    at, record = store.middle()
    name, position = store.place(at)
    where = store.read(name).index(b"TAGS\x01T", position) + 5
    store.write(name, where, b"Z")
    return ("unit-tags-code", *store.unit(record))


@fault()
def delay_that_is_no_number(store):
    at, _ = store.middle(DELAYED)
    name, position = store.place(at)
    where = store.read(name).index(b"DELAY\x013", position) + 6
    store.write(name, where, b"x")
    return "log-delay", name, position


@each("plain", {"plain body": {"flag": 0x01}, "type 5": {"flag": 0x0501}})
def body_that_does_not_decompress(store, flag):
    at, _ = store.middle()
    name, position = store.place(at)
    store.write(name, position + 36, flag.to_bytes(4, "big"))
    return "log-body-compression", name, position


@fault("batch")
def inner_batch_that_counts_no_number(store):
    at, _ = store.record(4, "Inner")
    name, position = store.place(at)
    where = store.read(name).index(b"INNER_NUM\x01", position) + 10
    store.write(name, where, b"x")
    return "log-inner-batch", name, position


@each(
    "crc",
    {
        "a letter": {"field": -19, "size": 1, "kind": "log-property-crc"},
        "its name": {"field": -20, "size": 9, "kind": "log-property-crc"},
        "all": {"field": -20, "size": 20, "kind": "log-property-crc-missing"},
    },
)
def destroyed_crc_property(store, field, size, kind):
    at, record = store.middle()
    name, position = store.place(at)
    store.write(name, position + record.total_size + field, b"x" * size)
    return kind, name, position


@each("crc", {"digits": {"field": -2}, "flag": {"field": 19}, "born time": {"field": 47}, "key": {"field": None}})
def changed_record_with_crc(store, field):
    """Nothing but the CRC of the whole record covers these."""
    at, record = store.middle()
    name, position = store.place(at)
    if field is None:
        field = store.read(name).index(b"UNIQ_KEY\x01U", position) + 10 - position
    field += record.total_size if field < 0 else 0
    store.write(name, position + field, bytes([store.read(name)[position + field] ^ 1]))
    return "log-property-crc", name, position


# ---- files of the log --------------------------------------------------------------------------------------


def blank_of(store, n):
    """The file and the place of the blank that ends the n-th file."""
    at, record = [pair for pair in store.records if pair[0] // LOG_FILE == n][-1]
    return f"commitlog/{n * LOG_FILE:020}", at % LOG_FILE + record.total_size


@fault()
def missing_blank(store):
    name, position = blank_of(store, 1)
    store.write(name, position, bytes(8))
    return "log-blank-missing", name, position


@each("plain", {"longer": {"change": 1}, "shorter": {"change": -1}, "negative": {"change": -(1 << 30)}})
def blank_of_another_size(store, change):
    name, position = blank_of(store, 1)
    store.add(name, position, 4, change)
    return "log-blank-size", name, position


@fault()
def old_bytes_in_a_blank(store):
    name, position = blank_of(store, 1)
    store.write(name, LOG_FILE - 1, b"x")
    return "log-blank-bytes", name, position


@fault()
def missing_log_file(store):
    (store.root / "commitlog" / store.log_files()[2]).unlink()
    return "log-file-missing", f"commitlog/{3 * LOG_FILE:020}", 0


@fault()
def missing_last_log_file(store):
    last = store.log_files()[-1]
    record = next(record for at, record in store.records if at >= int(last) and record.topic == "TopicTest")
    (store.root / "commitlog" / last).unlink()
    return ("unit-beyond-log", *store.unit(record))


@fault()
def missing_last_log_file_after_a_crash(store):
    (store.root / "abort").touch()
    return missing_last_log_file(store)


@fault()
def missing_last_log_file_that_the_checkpoint_knows(store):
    missing_last_log_file(store)
    return "checkpoint-ahead", "checkpoint", 0


@each("plain", {"shorter": {"size": LOG_FILE - 1}, "longer": {"size": LOG_FILE + 1}, "empty": {"size": 0}})
def log_file_of_another_length(store, size):
    name = f"commitlog/{store.log_files()[2]}"
    os.truncate(store.root / name, size)
    return "log-file-size", name, size


@fault()
def empty_last_log_file(store):
    name = f"commitlog/{int(store.log_files()[-1]) + LOG_FILE:020}"
    (store.root / name).touch()
    return "log-file-empty", name, 0


@fault()
def log_file_by_another_name(store):
    names = store.log_files()
    new = f"commitlog/{int(names[-1]) + 8:020}"
    (store.root / "commitlog" / names[-1]).rename(store.root / new)
    return "log-file-name", new, 0


@fault()
def log_file_between_two(store):
    name = f"commitlog/{LOG_FILE + LOG_FILE // 2:020}"
    shutil.copy(store.root / "commitlog" / store.log_files()[0], store.root / name)
    return "log-file-overlap", ("commitlog/" + f"{2 * LOG_FILE:020}", name), 0


@fault()
def two_log_files_exchanged(store):
    first, second = (store.root / "commitlog" / name for name in store.log_files()[1:3])
    first.rename(store.root / "other")
    second.rename(first)
    (store.root / "other").rename(second)
    return "log-phy-offset", f"commitlog/{first.name}", 0


@fault()
def bytes_behind_the_end(store):
    name, position = store.place(store.end())
    store.write(name, position, b"something")
    return "log-tail", name, position


@fault()
def magic_of_the_last_record(store):
    name, position = store.place(store.records[-1][0])
    store.write(name, position + 4, b"x")
    return "log-tail", name, position


@fault()
def half_of_the_last_record(store):
    (store.root / "abort").touch()
    at, record = store.records[-1]
    name, position = store.place(at)
    store.write(name, position + record.total_size - 9, bytes(9))
    return "log-torn-record", name, position


@fault()
def log_file_made_ahead(store):
    name = f"commitlog/{int(store.log_files()[-1]) + LOG_FILE:020}"
    (store.root / name).write_bytes(bytes(LOG_FILE))
    return "log-file-ahead", name, 0


@fault()
def foreign_file_in_the_log(store):
    (store.root / "commitlog" / "notes.txt").write_text("notes")
    return "foreign-file-fatal", "commitlog/notes.txt", 0


@fault()
def foreign_directory_in_the_log(store):
    (store.root / "commitlog" / "more").mkdir()
    return "foreign-file", "commitlog/more", 0


@fault()
def missing_log(store):
    shutil.rmtree(store.root / "commitlog")
    return "log-missing", "commitlog", 0


@fault()
def log_without_files(store):
    for path in (store.root / "commitlog").iterdir():
        path.unlink()
    return "log-missing", "commitlog", 0


@fault()
def records_that_a_broker_cut_off(store):
    """A new, shorter record stands in the place of an old one. So a broker cut the log there, and wrote on."""
    *_, (at, old), _ = (
        (at, record)
        for at, record in store.records
        if at < int(store.log_files()[-1]) and record.topic == "TopicTest" and record.sys_flag & 0xC == 0
    )
    last = at // LOG_FILE * LOG_FILE
    assert any(at < behind < last + LOG_FILE for behind, _ in store.records)
    for name in store.log_files():
        if int(name) > last:
            (store.root / "commitlog" / name).unlink()
    place = {"phy_offset": at, "queue_id": old.queue_id, "queue_offset": old.queue_offset}
    new = build_record(topic=old.topic, body=b"n", born_timestamp=1 << 41, store_timestamp=1 << 41, **place)
    store.write(f"commitlog/{last:020}", at - last, new + bytes(old.total_size - len(new)))
    store.write(*store.unit(old), UNIT_FIELDS.pack(at, len(new), 0))
    (store.root / "checkpoint").write_bytes(bytes(4096))
    return "log-leftovers", f"commitlog/{last:020}", at - last + len(new)


@fault()
def log_of_zeros(store):
    for name in store.log_files():
        (store.root / "commitlog" / name).write_bytes(bytes(LOG_FILE))
    return "unit-beyond-log", "consumequeue/TopicTest/0/00000000000000000000", 0


@fault()
def units_that_a_broker_left_behind_the_log(store):
    """Where the checkpoint knows of no later record, units behind the log are what a broker's recovery left."""
    (store.root / "checkpoint").write_bytes(bytes(4096))
    _, *place = missing_last_log_file(store)
    return ("unit-leftover", *place)


# ---- units -------------------------------------------------------------------------------------------------


@each(
    "plain",
    {
        "zeros": {"data": bytes(20), "kind": "unit-missing"},
        "a filler": {"data": FILLER, "kind": "unit-filler"},
        "a negative size": {"data": struct.pack(">qiq", 0, -1, 0), "kind": "unit-missing"},
        "a negative offset": {"data": struct.pack(">qiq", -1, 100, 0), "kind": "unit-missing"},
        "no record's offset": {"data": struct.pack(">qiq", 3, 100, 0), "kind": "unit-no-record"},
        "an offset beyond the log": {"data": struct.pack(">qiq", 1 << 40, 100, 0), "kind": "unit-beyond-log"},
    },
)
def unit_of(store, data, kind):
    record = store.middle()[1]
    name, position = store.unit(record)
    store.write(name, position, data)
    return kind, name, position


@each(
    "plain",
    {
        "offset": {"field": 0, "size": 8, "kind": "unit-no-record"},
        "size": {"field": 8, "size": 4, "kind": "unit-size"},
        "tags code": {"field": 12, "size": 8, "kind": "unit-tags-code"},
    },
)
def unit_with_another(store, field, size, kind):
    name, position = store.unit(store.middle()[1])
    store.add(name, position + field, size, 1)
    return kind, name, position


@fault()
def delayed_unit_with_another_time(store):
    name, position = store.unit(store.middle(DELAYED)[1])
    store.add(name, position + 12, 8, 1000)
    return "unit-delivery-time", name, position


@fault()
def unit_with_an_ext_address_and_no_ext_files(store):
    name, position = store.unit(store.middle()[1])
    store.write(name, position + 12, struct.pack(">q", -(2**63) + 20))
    return "ext-missing", name, position


@fault()
def unit_of_the_next_queue(store):
    record = store.middle()[1]
    name, position = store.unit(record)
    other = store.unit(record, queue_id=(record.queue_id + 1) % 3)
    store.write(name, position, store.read(other[0])[other[1] : other[1] + UNIT])
    return "unit-of-another-queue", name, position


@fault()
def unit_of_the_same_record_twice(store):
    record = store.middle()[1]
    name, position = store.unit(record)
    before = store.unit(record, offset=record.queue_offset - 1)
    store.write(name, position, store.read(before[0])[before[1] : before[1] + UNIT])
    return "unit-again", name, position


def units_of(store, queue="consumequeue/TopicTest/1"):
    return b"".join(read_files(store.root / queue).values())


def write_units(store, data, queue="consumequeue/TopicTest/1"):
    for start in read_files(store.root / queue):
        (store.root / queue / f"{start:020}").write_bytes(data[start : start + QUEUE_FILE].ljust(QUEUE_FILE, b"\0"))


@fault()
def two_units_exchanged(store):
    units = units_of(store)
    write_units(store, units[:60] + units[80:100] + units[60:80] + units[100:])
    return "unit-shifted", f"consumequeue/TopicTest/1/{0:020}", 60


@fault()
def unit_left_out(store):
    """As RocketMQ leaves it when the append of a unit fails."""
    units = units_of(store)
    write_units(store, units[:60] + units[80:])
    return "unit-shifted", f"consumequeue/TopicTest/1/{0:020}", 60


@fault()
def unit_left_out_is_named_itself(store):
    units = units_of(store)
    write_units(store, units[:60] + units[80:])
    return "unit-missing", f"consumequeue/TopicTest/1/{0:020}", 60


@fault()
def unit_put_between(store):
    units = units_of(store)
    write_units(store, units[:60] + units[40:60] + units[60:])
    return "unit-shifted", f"consumequeue/TopicTest/1/{0:020}", 80


@fault()
def last_unit_lost(store):
    record = [record for _, record in store.records if record.topic == "TopicTest" and record.sys_flag & 0xC == 0][-1]
    name, position = store.unit(record)
    store.write(name, position, bytes(UNIT))
    return "unit-missing", name, position


@fault()
def old_unit_behind_the_end(store):
    last = max(r.queue_offset for _, r in store.records if (r.topic, r.queue_id, r.sys_flag) == ("TopicTest", 1, 0))
    name, position = store.unit(store.record(1)[1], offset=last + 3)
    store.write(name, position, units_of(store)[:UNIT])
    return "unit-tail", name, position


@fault()
def one_more_unit(store):
    last = max(r.queue_offset for _, r in store.records if (r.topic, r.queue_id, r.sys_flag) == ("TopicTest", 1, 0))
    name, position = store.unit(store.record(1)[1], offset=last + 1)
    store.write(name, position, units_of(store)[:UNIT])
    return "unit-again", name, position


@fault("expired")
def unit_of_an_expired_record_behind_others(store):
    record = store.middle()[1]
    name, position = store.unit(record)
    first = f"consumequeue/TopicTest/{record.queue_id}/{0:020}"
    store.write(name, position, store.read(first)[:UNIT])
    return "unit-order", name, position


@fault("expired")
def expired_units_in_another_order(store):
    units = units_of(store)
    write_units(store, units[20:40] + units[:20] + units[40:])
    return "unit-order", f"consumequeue/TopicTest/1/{0:020}", 20


@fault("expired")
def no_unit_among_expired_ones(store):
    name = f"consumequeue/TopicTest/1/{0:020}"
    store.write(name, 40, bytes(UNIT))
    return "unit-invalid", name, 40


@fault("expired")
def filler_among_expired_units(store):
    name = f"consumequeue/TopicTest/1/{0:020}"
    store.write(name, 40, FILLER)
    return "unit-filler", name, 40


# ---- files of queues ---------------------------------------------------------------------------------------

MIDDLE_FILE = f"consumequeue/TopicTest/1/{QUEUE_FILE:020}"


@fault()
def missing_queue_file(store):
    (store.root / MIDDLE_FILE).unlink()
    return "queue-file-missing", f"consumequeue/TopicTest/1/{2 * QUEUE_FILE:020}", 0


@fault()
def missing_first_queue_file(store):
    (store.root / f"consumequeue/TopicTest/1/{0:020}").unlink()
    return "unit-missing", "consumequeue/TopicTest/1", 0


@fault()
def missing_last_queue_file(store):
    (store.root / f"consumequeue/TopicTest/1/{2 * QUEUE_FILE:020}").unlink()
    return "unit-missing", MIDDLE_FILE, QUEUE_FILE


@fault()
def queue_file_of_zeros(store):
    (store.root / MIDDLE_FILE).write_bytes(bytes(QUEUE_FILE))
    return "unit-missing", MIDDLE_FILE, 0


@each("plain", {"shorter": {"size": QUEUE_FILE - 20}, "longer": {"size": QUEUE_FILE + 20}, "empty": {"size": 0}})
def queue_file_of_another_length(store, size):
    os.truncate(store.root / MIDDLE_FILE, size)
    return "queue-file-size", MIDDLE_FILE, size


@fault()
def empty_last_queue_file(store):
    name = f"consumequeue/TopicTest/1/{3 * QUEUE_FILE:020}"
    (store.root / name).touch()
    return "queue-file-empty", name, 0


@fault()
def last_queue_file_without_units(store):
    name = f"consumequeue/TopicTest/1/{3 * QUEUE_FILE:020}"
    (store.root / name).write_bytes(bytes(QUEUE_FILE))
    return "queue-file-zeros", name, 0


@fault()
def queue_file_by_another_name(store):
    name = f"consumequeue/TopicTest/1/{2 * QUEUE_FILE + 20:020}"
    (store.root / f"consumequeue/TopicTest/1/{2 * QUEUE_FILE:020}").rename(store.root / name)
    return "queue-file-name", name, 0


@fault()
def missing_queue(store):
    shutil.rmtree(store.root / "consumequeue/TopicTest/1")
    return "queue-missing", "consumequeue/TopicTest/1", 0


@fault()
def missing_queues(store):
    shutil.rmtree(store.root / "consumequeue")
    return "queue-missing", "consumequeue/TopicTest/2", 0


@fault("batch")
def deleted_topic(store):
    shutil.rmtree(store.root / "batchconsumequeue/Inner")
    path = store.root / "config/topics.json"
    topics = json.loads(path.read_text())
    del topics["topicConfigTable"]["Inner"]
    path.write_text(json.dumps(topics))
    return "topic-deleted", "consumequeue/Inner/0", 0


@each(
    "plain",
    {
        "of no bytes, the last": {"name": "x", "size": 0, "kind": "foreign-file-empty"},
        "of no bytes, the first": {"name": "+", "size": 0, "kind": "foreign-file-fatal"},
        "of some bytes": {"name": "x", "size": 5, "kind": "foreign-file-fatal"},
        "as long as the others": {"name": "x", "size": QUEUE_FILE, "kind": "foreign-file-fatal"},
    },
)
def foreign_file_in_a_queue(store, name, size, kind):
    (store.root / f"consumequeue/TopicTest/1/{name}").write_bytes(bytes(size))
    return kind, f"consumequeue/TopicTest/1/{name}", 0


@each("plain", {"letters": {"name": "abc"}, "a zero before": {"name": "01"}})
def queue_directory_that_is_no_number(store, name):
    (store.root / "consumequeue/TopicTest" / name).mkdir()
    return "foreign-file", f"consumequeue/TopicTest/{name}", 0


@fault()
def foreign_file_among_topics(store):
    (store.root / "consumequeue/x").touch()
    return "foreign-file", "consumequeue/x", 0


@fault("batch")
def queue_in_the_other_root(store):
    (store.root / "batchconsumequeue/Inner").rename(store.root / "consumequeue/Inner")
    return "queue-wrong-root", "consumequeue/Inner/0", 0


@fault("batch")
def plain_queue_in_the_other_root(store):
    shutil.copytree(store.root / "batchconsumequeue/Inner", store.root / "batchconsumequeue/Plain")
    return "queue-wrong-root", "batchconsumequeue/Plain/0", 0


# ---- batch, ext and light queues ---------------------------------------------------------------------------


@each(
    "batch",
    {
        "offset": {"field": 0, "size": 8, "kind": "unit-no-record"},
        "size": {"field": 8, "size": 4, "kind": "unit-size"},
        "tags code": {"field": 12, "size": 8, "kind": "unit-tags-code"},
        "store time": {"field": 20, "size": 8, "kind": "unit-store-time"},
        "base": {"field": 28, "size": 8, "kind": "unit-batch-base"},
        "number": {"field": 36, "size": 2, "kind": "unit-batch-size"},
        "compacted offset": {"field": 38, "size": 4, "kind": "unit-batch-constant"},
        "reserved": {"field": 42, "size": 4, "kind": "unit-batch-constant"},
    },
)
def batch_unit_with_another(store, field, size, kind):
    name, position = store.batch_unit(7)
    store.add(name, position + field, size, 1)
    return kind, name, position


@fault("batch")
def batch_unit_of_zeros(store):
    name, position = store.batch_unit(7)
    store.write(name, position, bytes(BATCH_UNIT))
    return "unit-missing", ("batchconsumequeue/Inner/0/" + f"{BATCH_FILE:020}", name), None


@fault("batch")
def batch_unit_of_an_ordinary_record(store):
    name, position = store.batch_unit(7)
    at, record = store.record(30)
    store.write(name, position, pack_batch_unit(at, record.total_size, 0, BEGIN, 14, 2))
    return "unit-of-another-queue", name, position


@fault("batch")
def missing_batch_queue(store):
    shutil.rmtree(store.root / "batchconsumequeue")
    return "queue-missing", "batchconsumequeue/Inner/0", 0


def ext_unit(store, n):
    """The unit in the queue of the n-th record, the ext file and where its ext unit is in it."""
    record = store.record(n)[1]
    name, position = store.unit(record)
    address = struct.unpack_from(">q", store.read(name), position + 12)[0] + 2**63
    ext = f"consumequeue_ext/TopicTest/{record.queue_id}/{address // EXT_FILE * EXT_FILE:020}"
    return name, position, ext, address % EXT_FILE


@each(
    "ext",
    {
        "tags code": {"field": 2, "kind": "ext-tags-code"},
        "store time": {"field": 10, "kind": "ext-store-time"},
    },
)
def ext_unit_with_another(store, field, kind):
    name, position, ext, at = ext_unit(store, 31)
    store.add(ext, at + field, 8, 1)
    return kind, name, position


@fault("ext")
def ext_unit_of_zeros(store):
    name, position, ext, at = ext_unit(store, 31)
    store.write(ext, at, bytes(20))
    return "ext-missing", name, position


@each(
    "ext",
    {
        "longer": {"field": 0, "change": 8, "kind": "ext-size"},
        "longer than the file": {"field": 0, "change": 1000, "kind": "ext-beyond-file"},
        "shorter than any": {"field": 0, "change": -1, "kind": "ext-size"},
        "with a bitmap": {"field": 18, "change": 8, "kind": "ext-size"},
    },
)
def ext_unit_that_is_not_as_long_as_it_says(store, field, change, kind):
    *_, ext, at = ext_unit(store, 31)
    store.add(ext, at + field, 2, change)
    return kind, ext, at


@each("ext", {"nothing": {"mark": b"\0\0"}, "another number": {"mark": b"\xef\xff"}})
def ext_file_without_an_end(store, mark):
    *_, ext, _ = ext_unit(store, 0)
    end = EXT_FILE // 20 * 20
    assert store.read(ext)[end : end + 2] == b"\xff\xff"
    store.write(ext, end, mark)
    return "ext-end", ext, end


@each("ext", {"far": {"address": 1 << 40}, "near": {"address": 1 << 12}})
def ext_address_that_leads_nowhere(store, address):
    name, position, *_ = ext_unit(store, 31)
    store.write(name, position + 12, struct.pack(">q", address - 2**63))
    return "ext-missing", name, position


@fault("ext")
def ext_address_of_another_unit(store):
    name, position, *_ = ext_unit(store, 31)
    store.add(name, position + 12, 8, -20)
    return "ext-store-time", name, position


@fault("ext")
def tags_code_in_place_of_an_ext_address(store):
    name, position, *_ = ext_unit(store, 31)
    store.write(name, position + 12, struct.pack(">q", 4711))
    return "unit-tags-code", name, position


@fault("ext")
def missing_ext_file(store):
    name, position, ext, _ = ext_unit(store, 0)
    (store.root / ext).unlink()
    return "ext-missing", name, position


@fault("ext")
def ext_file_of_another_length(store):
    *_, ext, _ = ext_unit(store, 0)
    os.truncate(store.root / ext, EXT_FILE - 4)
    return "ext-file-size", ext, EXT_FILE - 4


@fault("ext")
def missing_ext_files(store):
    shutil.rmtree(store.root / "consumequeue_ext")
    return ("ext-missing", *ext_unit_place(store))


def ext_unit_place(store):
    return store.unit(store.record(0)[1])


@fault("light")
def light_unit_of_zeros(store):
    name = f"consumequeue/%LMQ%a/0/{0:020}"
    store.write(name, 60, bytes(UNIT))
    return "unit-missing", name, 60


@fault("light")
def missing_light_queue(store):
    shutil.rmtree(store.root / "consumequeue/%LMQ%b")
    return "queue-missing", "consumequeue/%LMQ%b/0", 0


@fault("light")
def light_unit_of_a_record_that_does_not_name_it(store):
    name = f"consumequeue/%LMQ%a/0/{0:020}"
    at, record = store.record(0)
    store.write(name, 60, struct.pack(">qiq", at, record.total_size, record.tags_code))
    return "unit-of-another-queue", name, 60


@fault("light")
def light_units_exchanged(store):
    queue = "consumequeue/%LMQ%b/0"
    units = units_of(store, queue)
    write_units(store, units[:60] + units[80:100] + units[60:80] + units[100:], queue)
    return "unit-shifted", f"{queue}/{0:020}", 60


# ---- index -------------------------------------------------------------------------------------------------


@each(
    "plain",
    {
        "begin time": {"field": 0, "size": 8, "kind": "index-begin-time"},
        "end time": {"field": 8, "size": 8, "kind": "index-end-time"},
        "begin offset": {"field": 16, "size": 8, "kind": "index-begin-offset"},
        "end offset": {"field": 24, "size": 8, "kind": "index-end-offset"},
        "slot count": {"field": 32, "size": 4, "kind": "index-slot-count"},
        "index count": {"field": 36, "size": 4, "kind": "index-count"},
    },
)
def index_header_with_another(store, field, size, kind):
    name = store.index(1)
    store.add(name, field, size, -2 if field == 36 else 3)
    return kind, name, field


@each(
    "plain",
    {
        "more": {"count": ITEMS + 3},
        "a few more": {"count": None},
        "none": {"count": 0},
        "negative": {"count": -5},
    },
)
def index_that_counts(store, count):
    name = store.index(-1)
    count = store.count(-1) + 4 if count is None else count
    store.write(name, 36, struct.pack(">i", count))
    return "index-count", name, 36


def item_place(ordinal):
    return ITEMS_AT + ITEM * ordinal


@each(
    "plain",
    {
        "hash": {"field": 0, "size": 4},
        "offset": {"field": 4, "size": 8},
        "seconds": {"field": 12, "size": 4},
    },
)
def item_with_another(store, field, size):
    ordinal, name = store.linked(1), store.index(1)
    store.add(name, item_place(ordinal) + field, size, 1)
    return {0: "index-item-no-key", 4: "index-item-no-record", 12: "index-item-time"}[field], name, item_place(ordinal)


@fault()
def item_with_a_negative_hash(store):
    ordinal, name = store.linked(1), store.index(1)
    store.add(name, item_place(ordinal), 4, -(2**31))
    return "index-hash", name, item_place(ordinal)


@each("plain", {"the first": {"ordinal": 1}, "another": {"ordinal": None}})
def item_with_a_negative_time(store, ordinal):
    """At which a broker's walk of a slot ends."""
    ordinal, name = ordinal or store.linked(1), store.index(1)
    store.write(name, item_place(ordinal) + 12, struct.pack(">i", -1))
    return "index-time-negative", name, item_place(ordinal)


@fault()
def first_item_with_other_seconds(store):
    """Which are from the end of the file before."""
    store.add(store.index(1), item_place(1) + 12, 4, 1)
    return "index-item-time", store.index(1), item_place(1)


@fault()
def item_of_another_record(store):
    """The first item of a record leads to the record before it."""
    name = store.index(1)
    ordinal = next(k for k in range(20, 50) if store.item(1, k)[1] != store.item(1, k - 1)[1])
    store.write(name, item_place(ordinal) + 4, struct.pack(">q", store.item(1, ordinal - 1)[1]))
    return "index-item-no-key", name, item_place(ordinal)


@fault()
def item_of_an_older_record(store):
    ordinal, name = store.linked(1), store.index(1)
    store.write(name, item_place(ordinal) + 4, struct.pack(">q", 0))
    return "index-order", name, item_place(ordinal)


@fault()
def item_beyond_the_log(store):
    ordinal, name = store.count(-1), store.index(-1)
    store.write(name, item_place(ordinal) + 4, struct.pack(">q", 1 << 40))
    return "index-item-beyond-log", name, item_place(ordinal)


@each("plain", {"none": {"change": None}, "an older one": {"change": -1}})
def item_linked_to(store, change):
    ordinal, name = store.linked(1), store.index(1)
    previous = 0 if change is None else store.item(1, ordinal)[3] + change
    store.write(name, item_place(ordinal) + 16, struct.pack(">i", previous))
    return "index-chain", name, item_place(ordinal)


@each("plain", {"itself": {"change": 0}, "a newer one": {"change": 3}, "one beyond the file": {"change": 10**6}})
def item_in_a_circle_with(store, change):
    ordinal, name = store.linked(1), store.index(1)
    store.write(name, item_place(ordinal) + 16, struct.pack(">i", ordinal + change))
    return "index-chain-cycle", name, item_place(ordinal)


@each(
    "plain",
    {
        "zero": {"value": 0},
        "an older item": {"value": 1},
        "beyond them": {"value": 10**6},
        "negative": {"value": -1},
    },
)
def slot_that_is(store, value):
    name = store.index(1)
    slot = store.item(1, store.count(1))[0] % SLOTS
    store.write(name, 40 + 4 * slot, struct.pack(">i", value))
    return "index-slot", name, 40 + 4 * slot


@fault()
def two_items_exchanged(store):
    name, first = store.index(1), item_place(20)
    data = store.read(name)
    store.write(name, first, data[first + 100 : first + 120])
    store.write(name, first + 100, data[first : first + 20])
    return "index-order", name, None


@fault()
def item_of_zeros(store):
    ordinal, name = store.linked(1), store.index(1)
    store.write(name, item_place(ordinal), bytes(ITEM))
    return "index-order", name, item_place(ordinal)


@fault()
def missing_index(store):
    shutil.rmtree(store.root / "index")
    return "index-missing", "index", 0


@fault()
def missing_first_index_file(store):
    (store.root / store.index(0)).unlink()
    return "index-begins-late", "index", 0


@fault()
def missing_index_file(store):
    at = store.item(1, 5)[1]
    (store.root / store.index(1)).unlink()
    return "index-key-missing", store.place(at)[0], None


@fault()
def missing_last_index_file(store):
    at = store.item(-1, 3)[1]
    (store.root / store.index(-1)).unlink()
    return "index-key-missing", store.place(at)[0], None


@each("plain", {"shorter": {"change": -4}, "longer": {"change": 20}, "empty": {"change": None}})
def index_file_of_another_length(store, change):
    name = store.index(1)
    length = 0 if change is None else len(store.read(name)) + change
    os.truncate(store.root / name, length)
    return "index-file-size" if change == 20 else "index-file-short", name, length


@each("plain", {"too long": {"name": "2" * 18}, "too short": {"name": "1"}})
def index_file_named(store, name):
    shutil.copy(store.root / store.index(0), store.root / "index" / name)
    return "index-file-name", f"index/{name}", 0


@fault()
def foreign_file_in_the_index(store):
    (store.root / "index/notes").touch()
    return "foreign-file", "index/notes", 0


@fault()
def index_files_exchanged(store):
    first, second = store.root / store.index(1), store.root / store.index(2)
    first.rename(store.root / "other")
    second.rename(first)
    (store.root / "other").rename(second)
    return "index-file-order", f"index/{second.name}", item_place(1)


@fault()
def index_file_with_room_before_others(store):
    name = store.index(1)
    last = store.item(1, ITEMS - 1)
    store.write(name, item_place(ITEMS - 1), bytes(ITEM))
    store.add(name, 36, 4, -1)
    store.write(name, 40 + 4 * (last[0] % SLOTS), struct.pack(">i", last[3]))
    return "index-file-not-full", name, 36


@fault()
def torn_put(store):
    """An item and its slot, and no count, in a store that crashed."""
    (store.root / "abort").touch()
    name, ordinal = store.index(-1), store.count(-1) + 1
    previous = int.from_bytes(store.read(name)[40:44], "big")
    at = store.records[-1][0]
    store.write(name, item_place(ordinal), struct.pack(">iqii", SLOTS, at, 0, previous))
    store.write(name, 40, struct.pack(">i", ordinal))
    return "index-torn-put", name, 36


@each("plain", {"no slot yet": {"size": 40 + 4 * SLOTS}, "no header yet": {"size": 40}})
def torn_file(store, size):
    """The first bytes of a file that is written at once."""
    (store.root / "abort").touch()
    name = store.index(-1)
    store.write(name, 0, bytes(size))
    return "index-torn-put", name, 36


@fault()
def empty_index_file(store):
    """A file that was made and has no length yet."""
    (store.root / "abort").touch()
    name = "index/20991231235959999"
    (store.root / name).touch()
    return "index-torn-put", name, 0


# ---- state and configuration -------------------------------------------------------------------------------


@fault()
def abort_file(store):
    (store.root / "abort").write_text("4711")
    return "abort", "abort", 0


@fault()
def queue_behind_after_a_crash(store):
    (store.root / "abort").touch()
    record = [record for _, record in store.records if record.topic == "TopicTest" and record.sys_flag & 0xC == 0][-1]
    name, position = store.unit(record)
    store.write(name, position, bytes(UNIT))
    return "queue-behind", name, position


@fault()
def index_behind_after_a_crash(store):
    (store.root / "abort").touch()
    name = store.index(-1)
    (store.root / name).unlink()
    return "index-behind", "index", 0


@fault()
def index_newer_than_the_checkpoint_of_a_crash(store):
    (store.root / "abort").touch()
    return "index-to-be-deleted", store.index(-1), 8


@fault()
def lock_that_is_a_directory(store):
    (store.root / "lock").unlink()
    (store.root / "lock").mkdir()
    return "lock-no-file", "lock", 0


@fault()
def missing_checkpoint(store):
    (store.root / "checkpoint").unlink()
    return "checkpoint-missing", "checkpoint", 0


@fault()
def write_that_was_ended_in_the_middle(store):
    (store.root / "rocketstore-intent.json").touch()
    return "write-unfinished", "rocketstore-intent.json", 0


@fault()
def checkpoint_that_is_cut(store):
    os.truncate(store.root / "checkpoint", 20)
    return "checkpoint-size", "checkpoint", 20


@fault()
def checkpoint_of_another_length(store):
    os.truncate(store.root / "checkpoint", 100)
    return "checkpoint-size", "checkpoint", 100


@fault()
def checkpoint_that_is_a_directory(store):
    (store.root / "checkpoint").unlink()
    (store.root / "checkpoint").mkdir()
    return "checkpoint-damaged", "checkpoint", 0


@each(
    "plain",
    {
        "physicMsgTimestamp": {"field": 0, "value": 2 * BEGIN, "kind": "checkpoint-ahead"},
        "logicsMsgTimestamp": {"field": 8, "value": 2 * BEGIN, "kind": "checkpoint-ahead"},
        "confirmPhyOffset": {"field": 32, "value": 1 << 40, "kind": "checkpoint-ahead"},
        "logicsPhysicalOffset": {"field": 40, "value": 1 << 40, "kind": "checkpoint-ahead"},
        "confirmPhyOffset in a record": {"field": 32, "value": 50, "kind": "checkpoint-offset"},
        "logicsPhysicalOffset in a record": {"field": 40, "value": 50, "kind": "checkpoint-offset"},
        "indexMsgTimestamp": {"field": 16, "value": 2 * BEGIN, "kind": "checkpoint-index-ahead"},
        "old indexMsgTimestamp": {"field": 16, "value": 0, "kind": "checkpoint-index-behind"},
        "negative physicMsgTimestamp": {"field": 0, "value": -1, "kind": "checkpoint-negative"},
    },
)
def checkpoint_with(store, field, value, kind):
    store.write("checkpoint", field, struct.pack(">q", value))
    return kind, "checkpoint", field


@fault()
def damaged_topics(store):
    (store.root / "config/topics.json").write_text("{")
    (store.root / "config/topics.json.bak").unlink(missing_ok=True)
    return "config-damaged", "config/topics.json", 0


@fault()
def damaged_topics_with_a_good_copy(store):
    shutil.copy(store.root / "config/topics.json", store.root / "config/topics.json.bak")
    (store.root / "config/topics.json").write_text("{")
    return "config-bak-used", "config/topics.json", 0


@fault()
def damaged_sizes(store):
    (store.root / "config/rocketstore.json").write_text("[1]")
    return "sizes-damaged", "config/rocketstore.json", 0


@each("plain", {name: {"name": name} for name in ("topics", "consumerOffset", "subscriptionGroup", "delayOffset")})
def damaged_config_whose_copy_is_damaged(store, name):
    for suffix in ("json", "json.bak"):
        (store.root / f"config/{name}.{suffix}").write_text("{")
    return "config-bak-damaged", f"config/{name}.json", 0


@fault()
def directory_by_the_name_of_an_index_file(store):
    (store.root / "index" / "20991231235959999").mkdir()
    return "foreign-file-fatal", "index/20991231235959999", 0


@fault("light")
def light_queue_offset_that_is_no_number(store):
    """In the last record with offsets in light queues, which a start reads."""
    name = b"INNER_MULTI_QUEUE_OFFSET\x01"
    at = next(at for at, record in reversed(store.records) if "INNER_MULTI_DISPATCH" in record.properties)
    file, position = store.place(at)
    found = store.read(file).index(name, position) + len(name)
    store.write(file, found, b"x")
    return "log-light-offset", file, position


@each(
    "batch",
    {
        "plain": {"name": "consumerOffset.json", "key": "TopicTest@group", "offsets": "1:26"},
        "batch": {"name": "consumerOffset.json", "key": "Inner@group", "offsets": "0:51"},
    },
)
def consumer_beyond_the_queue(store, name, key, offsets):
    (store.root / "config" / name).write_text(f'{{"offsetTable":{{"{key}":{{{offsets}}}}}}}')
    return "config-offset", f"config/{name}", 0


@each("plain", {"with messages": {"offsets": "3:16"}, "without": {"offsets": "1:1"}})
def delay_level_beyond_its_queue(store, offsets):
    (store.root / "config/delayOffset.json").write_text(f'{{"offsetTable":{{{offsets}}}}}')
    return "config-offset", "config/delayOffset.json", 0


@fault()
def foreign_file_in_the_store(store):
    (store.root / "notes.txt").touch()
    return "foreign-file", "notes.txt", 0


@fault()
def queues_in_rocksdb(store):
    (store.root / "consumequeue/000001.sst").write_bytes(b"sst")
    (store.root / "consumequeue/CURRENT").write_bytes(b"MANIFEST-000005")
    return ("rocksdb-damaged", "not-checked"), "consumequeue", 0  # the second without the extra 'rocksdb'
