"""A store of 64 KiB with every kind of file in it, made by the reference, and the ways to damage it."""

import importlib.util
import itertools
import os
import random
import shutil
import zlib
from pathlib import Path

from reference.checkpoint import checkpoint_bytes
from reference.commit_log import write_file
from reference.consume_queue import ext_addr, pack_batch_unit, pack_ext
from reference.message_store import make_store
from reference.record import INNER_BATCH, NEED_UNWRAP, PREPARED, ROLLBACK, SCHEDULE_TOPIC, crc_of, wrapped

from rocketstore import StoreConfig

LOG_FILE_SIZE, CQ_FILE_SIZE, BATCH_FILE_SIZE, EXT_FILE_SIZE = 9216, 200, 230, 256
SLOTS, ITEMS = 17, 60
GEOMETRY = {
    "mapped_file_size_commit_log": LOG_FILE_SIZE,
    "mapped_file_size_consume_queue": CQ_FILE_SIZE,
    "mapper_file_size_batch_consume_queue": BATCH_FILE_SIZE,
    "mapped_file_size_consume_queue_ext": EXT_FILE_SIZE,
    "max_hash_slot_num": SLOTS,
    "max_index_num": ITEMS,
}
INFERRED, GIVEN = StoreConfig(), StoreConfig(**GEOMETRY)
TIME = 1_700_000_000_000
LONG_TOPIC = "L" * 130  # makes a record V2
COMPRESSED, LZ4, ZSTD = 0x1, 1 << 8, 2 << 8
CONFIG = {
    "topics.json": '{"dataVersion":{"counter":1,"timestamp":1700000000000},"topicConfigTable":{"TopicTest":'
    '{"attributes":{},"order":false,"perm":6,"readQueueNums":2,"topicFilterType":"SINGLE_TAG",'
    '"topicName":"TopicTest","topicSysFlag":0,"writeQueueNums":2}}}',
    "consumerOffset.json": '{"offsetTable":{"TopicTest@group":{0:5,1:7},"Batch@group":{0:3},"Absent@group":{9:1}}}',
    "consumerOffset.json.bak": '{"offsetTable":{"TopicTest@group":{0:4,1:7}}}',
    "delayOffset.json": '{"dataVersion":{"counter":2},"offsetTable":{1:3,18:0}}',
    "subscriptionGroup.json": '{"subscriptionGroupTable":{"group":{"groupName":"group","retryQueueNums":1}}}',
}


def build(root):
    """Write the store and return its commit log as the reference has it."""
    log = make_store(
        root, records(), file_size=LOG_FILE_SIZE, cq_file_size=CQ_FILE_SIZE, hash_slot_num=SLOTS, index_num=ITEMS
    )
    move_to_batch_queue(root, [(at, record) for at, record in log.records if record.topic == "Batch"])
    move_to_ext(root, [record for _, record in log.records if record.topic == "Ext"])
    (root / "checkpoint").write_bytes(checkpoint_bytes(TIME, TIME, TIME, 1, 2, 3)[:512])
    (root / "config").mkdir()
    for name, text in CONFIG.items():
        (root / "config" / name).write_text(text)
    return log


def records():
    """Records of every kind, mixed, so that each file of the log has some of each."""
    rng = random.Random(1)
    base = 0
    for n in range(44):
        times = {"store_timestamp": TIME + 1000 * n, "born_timestamp": TIME + 1000 * n - 7}
        uniq = f"7F00000118B4AAC2{n:016X}"
        ordinary = {"UNIQ_KEY": uniq, "KEYS": f"K{n % 5} K{n}", "TAGS": f"Tag{n % 3}"}
        body = rng.randbytes(40 + n)
        yield {"body": body, "queue_id": n % 2, "properties": ordinary, "flag": n, **times}
        yield {"topic": "Crc", "body": body[::-1], "properties": ordinary, "append_prop_crc": True, **times}
        yield {"topic": "Ext", "body": b"", "properties": {"TAGS": f"Tag{n % 3}"}, **times}
        kind = list(rare_records(n, times, base))[n % 8]
        base += 2 * (kind.get("topic") == "Batch")
        yield kind
        if n % 2:
            yield batch_record(times, base)
            base += 2


def rare_records(n, times, base):
    plain = b"ab" * 60
    yield {"topic": LONG_TOPIC, "body": b"v2", "properties": {"KEYS": f"V{n}"}, **times}
    hosts = {"born_host": "[fe80::1]:80", "store_host": "[::2]:10911"}
    yield {"topic": "V6", "properties": {"KEYS": "K"}, **hosts, **times}
    packed = {"body": zlib.compress(plain), "sys_flag": COMPRESSED}
    yield {"topic": "Zip", "properties": {"KEYS": "zlib"}, **packed, **times}
    yield compressed("lz4.frame", LZ4, plain, times)
    yield compressed("zstandard", ZSTD, plain, times)
    yield batch_record(times, base)
    yield {"topic": SCHEDULE_TOPIC, "queue_id": 2, "properties": {"DELAY": "3", "KEYS": "d"}, **times}
    kind = PREPARED if n % 2 else ROLLBACK
    yield {"topic": "Half", "sys_flag": kind, "properties": b"\xffx\1y\2KEYS\1\xc3\2", **times}


def compressed(module, kind, body, times):
    """A record whose body that codec made; without the codec, one like it that is not compressed."""
    fields = {"topic": "Zip", "properties": {"KEYS": module}, **times}
    if not importlib.util.find_spec(module.partition(".")[0]):
        return {"body": body, **fields}
    codec = importlib.import_module(module)
    data = codec.compress(body) if kind == LZ4 else codec.ZstdCompressor().compress(body)
    return {"body": data, "sys_flag": COMPRESSED | kind, **fields}


def batch_record(times, base):
    body = b"".join(inner_message(b"inner%d" % n, b"KEYS\1i%d\2" % n) for n in range(2))
    properties = {"INNER_NUM": "2", "INNER_BASE": str(base), "KEYS": f"B{base}"}
    flags = {"sys_flag": INNER_BATCH | NEED_UNWRAP, "queue_offset": base}
    return {"topic": "Batch", "body": body, "properties": properties, **flags, **times}


def inner_message(body, properties):
    rest = wrapped(0, 4) + wrapped(crc_of(body), 4) + wrapped(0, 4) + wrapped(len(body), 4) + body
    rest += wrapped(len(properties), 2) + properties
    return wrapped(4 + len(rest), 4) + rest


def move_to_batch_queue(root, found):
    """Give inner batches the kind of queue that RocketMQ gives them."""
    shutil.rmtree(root / "consumequeue" / "Batch")
    units = [
        pack_batch_unit(at, r.total_size, r.tags_code, r.store_timestamp, r.msg_base_offset, r.batch_size)
        for at, r in found
    ]
    write_run(root / "batchconsumequeue" / "Batch" / "0", units, BATCH_FILE_SIZE)


def move_to_ext(root, found):
    """Let each unit of a queue lead to its tags code in the ext files."""
    units = [pack_ext(record.tags_code, record.store_timestamp, b"\x55" * 4) for record in found]
    write_run(root / "consumequeue_ext" / "Ext" / "0", units, EXT_FILE_SIZE)
    per_file = EXT_FILE_SIZE // len(units[0])
    addresses = [ext_addr(n // per_file * EXT_FILE_SIZE + n % per_file * len(units[0])) for n in range(len(units))]
    for path in sorted((root / "consumequeue" / "Ext" / "0").iterdir()):
        data = bytearray(path.read_bytes())
        for n in range(min(CQ_FILE_SIZE // 20, len(addresses))):
            data[20 * n + 12 : 20 * n + 20] = wrapped(addresses.pop(0), 8)
        path.write_bytes(data)


def write_run(directory, units, file_size):
    per_file = file_size // len(units[0])
    for number in range(0, len(units), per_file):
        data = b"".join(units[number : number + per_file])
        write_file(directory, number // per_file * file_size, data.ljust(file_size, b"\0"))


def read_all(root, limit=1 << 20):
    """The bytes of all regular files by their path in the store, `limit` of each at most."""
    found = {}
    for directory, _, names in os.walk(root):
        for path in (Path(directory, name) for name in names):
            if path.is_file():
                with path.open("rb") as file:
                    found[str(path.relative_to(root))] = file.read(limit)
    return found


def write_all(root, files):
    shutil.rmtree(root, ignore_errors=True)
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def restore(root, files):
    """Write the files whose bytes were changed again."""
    for name, data in files.items():
        if (root / name).read_bytes() != data:
            (root / name).write_bytes(data)


# ---- damages: (name, what changes the store in `root`) -----------------------------------------------------

# SHARES_OF_A_ROUND are a round of `make soak PART=flips`: its 100 rounds together are all.
SHARES_OF_A_ROUND = 32
SHARES = 100 * SHARES_OF_A_ROUND


def every_byte(files, seed):
    """The share that has the seed's number of: a bit flipped in every byte, every file cut at every length."""
    places = [(name, at) for name, data in sorted(files.items()) for at in range(len(data))]
    for number in range(seed % SHARES, 2 * len(places), SHARES):
        name, at = places[number % len(places)]
        data = bytearray(files[name])
        if number >= len(places):
            yield f"{name} cut to {at} bytes", overwrite(name, data[:at])
        else:
            bit = random.Random(f"{seed}/{number}").randrange(8)
            data[at] ^= 1 << bit
            yield f"{name} byte {at} bit {bit} flipped", overwrite(name, data)


def overwrite(name, data):
    return lambda root: (root / name).write_bytes(data)


def many_bytes(files, seed, count):
    """Damage of more than one byte, to files in the measure of their size."""
    rng = random.Random(f"{seed}/many bytes")
    names = sorted(name for name, data in files.items() if data)
    sizes = [len(files[name]) for name in names]
    for number in range(count):
        (name,) = rng.choices(names, sizes)
        data = bytearray(files[name])
        kind = rng.choice(KINDS)
        kind(data, rng)
        yield f"seed {seed}, number {number}: {name}, {kind.__name__}", overwrite(name, data)


def zeros(data, rng):
    fill(data, rng, b"\0")


def ones(data, rng):
    fill(data, rng, b"\xff")


def fill(data, rng, value):
    at = rng.randrange(len(data))
    size = min(rng.choice([1, 4, 20, 100, 512, 4096]), len(data) - at)
    data[at : at + size] = value * size


def garbage(data, rng):
    at = rng.randrange(len(data))
    size = min(rng.randint(1, 64), len(data) - at)
    data[at : at + size] = rng.randbytes(size)


def flips(data, rng):
    for _ in range(rng.randint(2, 8)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def extreme_number(data, rng):
    """The numbers that arithmetic goes wrong with."""
    size = rng.choice([1, 2, 4, 8])
    value = rng.choice([0, 1, -1, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)), 2 ** (8 * size - 2), 91, 20, -20])
    at = rng.randrange(max(len(data) - size, 1))
    data[at : at + size] = wrapped(value, size)[: len(data) - at]


def swapped_blocks(data, rng):
    size = min(rng.choice([4, 8, 20, 46, 100, 200, 512]), len(data) // 2)
    first, second = rng.randrange(len(data) - size), rng.randrange(len(data) - size)
    if abs(first - second) >= size:
        data[first : first + size], data[second : second + size] = (
            data[second : second + size],
            data[first : first + size],
        )


def copied_block(data, rng):
    size = min(rng.choice([4, 8, 20, 46, 100, 200, 512]), len(data))
    source, target = rng.randrange(len(data) - size + 1), rng.randrange(len(data) - size + 1)
    data[target : target + size] = data[source : source + size]


def inserted_bytes(data, rng):
    at, length = rng.randrange(len(data)), len(data)
    data[at:at] = rng.choice([bytes(4), rng.randbytes(20), data[at : at + 200]])
    if rng.random() < 0.5:
        del data[length:]


def removed_bytes(data, rng):
    at = rng.randrange(len(data))
    del data[at : at + rng.choice([1, 4, 20, 46, 200])]


def longer(data, rng):
    data += rng.choice([bytes(1), bytes(20), bytes(9216), rng.randbytes(46)])


KINDS = [zeros, ones, garbage, flips, extreme_number, extreme_number, extreme_number]
KINDS += [swapped_blocks, copied_block, copied_block, inserted_bytes, removed_bytes, longer]


# ---- pipes, directories and other names --------------------------------------------------------------------

DIRECTORIES = ["commitlog", "consumequeue", "consumequeue/Crc", "consumequeue/Crc/0", "batchconsumequeue"]
DIRECTORIES += ["batchconsumequeue/Batch", "batchconsumequeue/Batch/0", "consumequeue_ext/Ext/0", "index", "config"]


def replacements(files):
    """Each kind of file, and each directory, is something else."""
    names = [f"commitlog/{at * LOG_FILE_SIZE:020}" for at in range(3)] + ["consumequeue/Crc/0/00000000000000000200"]
    names += [f"batchconsumequeue/Batch/0/{0:020}", f"consumequeue_ext/Ext/0/{0:020}", "index/20240101000000001"]
    names += ["checkpoint", "lock", *(f"config/{name}" for name in CONFIG)]
    assert set(names) <= files.keys()
    for name, (what, make) in itertools.product(names + DIRECTORIES, SOMETHING_ELSE.items()):
        yield f"{name} is {what}", replace(name, make)


def replace(name, make):
    def change(root):
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        make(path)

    return change


SOMETHING_ELSE = {
    "missing": lambda path: None,
    "a directory": lambda path: path.mkdir(),
    "empty": lambda path: path.touch(),
    "a FIFO": os.mkfifo,
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to a FIFO": lambda path: (os.mkfifo(path.with_name("fifo")), path.symlink_to("fifo")),
    "a huge sparse file": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    "a sparse file of 2 GiB": lambda path: (path.touch(), os.truncate(path, 1 << 31)),
}

STRANGE_NAMES = [
    "9" * 20,
    "09223372036854775807",
    "09223372036854770000",
    "00000000000000000001",
    "00000000000000000046",
    "0" * 20 + ".bak",
    "-0000000000000000001",
    "+1",
    "01",
    "-1",
    "-",
    "2147483648",
    "99999999999999999999999999999999999999",
    "٣" * 20,
    "x\ny",
    "\udcff\udcfe",
    "\x1b[31m",
    "%s{}",
    "CURRENT",
]


def strange_names():
    """In each directory there is one more entry: a copy of the file beside it, or of the directory."""
    for directory, strange in itertools.product([".", *DIRECTORIES], STRANGE_NAMES):
        yield f"{directory} has {strange!r}", add_copy(directory, strange)


def add_copy(directory, strange):
    def change(root):
        model = min(path for path in (root / directory).iterdir())
        target = root / directory / strange
        shutil.copytree(model, target) if model.is_dir() else shutil.copy(model, target)

    return change
