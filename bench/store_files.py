"""Stores to measure on. ``write_store``, by NumPy: one full commit log file, and the consume queues of its messages.

Message i of TopicTest is in queue i % 4, with a body of random bytes, one of five tags, a UNIQ_KEY as a client makes
it, WAIT, CLUSTER, and the key "order-" with the 16 hexadecimal digits of splitmix64(i); every third has one key more.

``write_log``, by rocketstore: a commit log of any length alone, of messages with 1 KiB, one key, a UNIQ_KEY and a tag.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
from keys import HEX, TOPIC, digits, splitmix64

from rocketstore import CommitLog, Message, StoreConfig
from rocketstore.config import DEFAULT_SIZES

QUEUES, TAGS = 4, ("TagA", "TagB", "TagC", "TagD", "TagE")
PERIOD = 60  # messages until key, tag and queue come together again: a block, the same for all but its numbers
START = 1_700_000_000_000
BODIES = 4096  # different ones
MAGIC, BLANK_MAGIC = 0xDAA320A7, 0xCBD43194
SECOND_KEY = 1 << 40
QUEUE_FILE_UNITS = 300_000
UNIT = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
BODY_AT = 88
HEX_UPPER = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def write_store(root: Path, body_size: int, log_size: int = 1 << 30) -> int:
    """Write commitlog and consumequeue under ``root``; return how many messages there are."""
    block, places = make_block(body_size)
    blocks = (log_size - 8) // len(block)
    (root / "commitlog").mkdir(parents=True)
    write_log_file(root, body_size, log_size, 0, 0)
    write_queues(root / "consumequeue" / TOPIC, places, len(block), blocks)
    return int(blocks) * PERIOD


def write_log_files(root: Path, body_size: int, log_size: int, file_size: int) -> int:
    """Write a commit log alone, in complete files of ``file_size`` bytes; return how many messages there are."""
    (root / "commitlog").mkdir(parents=True)
    first = 0
    for from_offset in range(0, log_size, file_size):
        first += write_log_file(root, body_size, file_size, from_offset, first)
    return first * PERIOD


def write_log_file(root: Path, body_size: int, file_size: int, from_offset: int, first: int) -> int:
    """Write the log file that begins at a physical offset. Return how many blocks it has.

    Parameters: first: the number of its first block.
    """
    block, places = make_block(body_size)
    blocks = (file_size - 8) // len(block)
    rng = np.random.default_rng(1)
    bodies = rng.integers(0, 256, (BODIES, body_size), np.uint8)
    crcs = np.array([zlib.crc32(body) & 0x7FFFFFFF for body in bodies], ">i4")
    with (root / "commitlog" / f"{from_offset:020d}").open("wb") as file:
        step = max(1, (16 << 20) // len(block))
        for begin in range(first, first + blocks, step):
            numbers = np.arange(begin, min(begin + step, first + blocks))
            file.write(fill(block, places, numbers, bodies, crcs, from_offset - first * len(block)))
        file.write(struct.pack(">iI", file_size - file.tell(), BLANK_MAGIC))
        file.truncate(file_size)
    return int(blocks)


def message_keys(numbers: np.ndarray) -> pa.Array:
    """Return the first key of each message number, as an Arrow string column."""
    data = np.empty((len(numbers), 22), np.uint8)
    data[:, :6] = np.frombuffer(b"order-", np.uint8)
    data[:, 6:] = hex_digits(splitmix64(np.asarray(numbers, np.uint64)), 16, HEX)
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * 22
    return pa.Array.from_buffers(pa.string(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def hex_digits(numbers: np.ndarray, width: int, alphabet: np.ndarray) -> np.ndarray:
    shifts = np.arange(4 * (width - 1), -1, -4, dtype=np.uint64)
    return alphabet[(np.asarray(numbers, np.uint64)[:, None] >> shifts) & np.uint64(15)]


def make_block(body_size: int) -> tuple[np.ndarray, list[tuple[int, int, int]]]:
    """Return PERIOD records with zeros for what differs from block to block, and (position, size, KEYS' position)."""
    data, places = b"", []
    for i in range(PERIOD):
        keys = " ".join(["order-" + "0" * 16] * (1 + (i % 3 == 0)))
        text = "".join(
            f"{name}\1{value}\2"
            for name, value in (
                ("UNIQ_KEY", "7F0000010A2B18B4AAC2" + "0" * 12),
                ("CLUSTER", "DefaultCluster"),
                ("TAGS", TAGS[i % len(TAGS)]),
                ("WAIT", "true"),
                ("KEYS", keys),
            )
        ).encode()
        size = 91 + body_size + len(TOPIC) + len(text)
        host = bytes([127, 0, 0, 1])
        record = b"".join(
            [
                struct.pack(">iIiiiqqiq", size, MAGIC, 0, i % QUEUES, 0, 0, 0, 0, 0),
                host,
                struct.pack(">iq", 40000, 0),
                host,
                struct.pack(">iiqi", 10911, 0, 0, body_size),
                bytes(body_size),
                bytes([len(TOPIC)]),
                TOPIC.encode(),
                struct.pack(">h", len(text)),
                text,
            ]
        )
        places.append((len(data), size, record.index(b"KEYS\1") + 5))
        data += record
    return np.frombuffer(data, np.uint8), places


def fill(
    block: np.ndarray,
    places: list[tuple[int, int, int]],
    numbers: np.ndarray,
    bodies: np.ndarray,
    crcs: np.ndarray,
    origin: int,
) -> bytes:
    """Return the blocks of these numbers. Parameters: origin: where block 0 would begin, a physical offset."""
    out = np.tile(block, (len(numbers), 1))
    for i, (at, size, keys_at) in enumerate(places):
        record = out[:, at : at + size]
        message = numbers * PERIOD + i
        body_size = bodies.shape[1]
        put(record, 8, crcs[message * 611 % BODIES])
        put(record, 20, (message // QUEUES).astype(">i8"))
        put(record, 28, (origin + numbers * len(block) + at).astype(">i8"))
        put(record, 40, (START + message // 40).astype(">i8"))
        put(record, 56, (START + message // 40).astype(">i8"))
        record[:, BODY_AT : BODY_AT + body_size] = bodies[message * 611 % BODIES]
        uniq_at = BODY_AT + body_size + 1 + len(TOPIC) + 2 + len("UNIQ_KEY\1") + 20
        record[:, uniq_at : uniq_at + 8] = hex_digits(0x04D20000 + message // 40, 8, HEX_UPPER)
        record[:, uniq_at + 8 : uniq_at + 12] = hex_digits(message & 0xFFFF, 4, HEX_UPPER)
        record[:, keys_at + 6 : keys_at + 22] = hex_digits(splitmix64(message.astype(np.uint64)), 16, HEX)
        if i % 3 == 0:
            second = splitmix64((message + SECOND_KEY).astype(np.uint64))
            record[:, keys_at + 29 : keys_at + 45] = hex_digits(second, 16, HEX)
    return out.tobytes()


def put(record: np.ndarray, at: int, numbers: np.ndarray) -> None:
    record[:, at : at + numbers.itemsize] = numbers[:, None].view(np.uint8)


def write_queues(directory: Path, places: list[tuple[int, int, int]], block_size: int, blocks: int) -> None:
    starts = np.arange(blocks)[:, None] * block_size
    for queue in range(QUEUES):
        mine = range(queue, PERIOD, QUEUES)
        units = np.empty((blocks, len(mine)), UNIT)
        units["offset"] = starts + np.array([places[i][0] for i in mine])
        units["size"] = [places[i][1] for i in mine]
        units["tags_code"] = [java_hash(TAGS[i % len(TAGS)]) for i in mine]
        write_queue(directory / str(queue), units.reshape(-1))


def write_queue(directory: Path, units: np.ndarray) -> None:
    """Write the files of a consume queue, each as long as RocketMQ makes it."""
    directory.mkdir(parents=True)
    for first in range(0, len(units), QUEUE_FILE_UNITS):
        with (directory / f"{first * UNIT.itemsize:020d}").open("wb") as file:
            file.write(units[first : first + QUEUE_FILE_UNITS].tobytes())
            file.truncate(QUEUE_FILE_UNITS * UNIT.itemsize)


def java_hash(text: str) -> int:
    code = 0
    for char in text:
        code = (31 * code + ord(char) + 2**31) % 2**32 - 2**31
    return code


# ---- a log alone -------------------------------------------------------------------------------------------

LOG_BODY_SIZE, BATCH = 1024, 10_000


def write_log(root: Path, log_size: int) -> int:
    """Write commitlog of at least so many bytes under ``root``; return how many messages there are."""
    bodies = np.random.default_rng(1).integers(0, 256, (BODIES, LOG_BODY_SIZE), np.uint8)
    first = 0
    with CommitLog.open(root / "commitlog", "a", config=StoreConfig(**DEFAULT_SIZES)) as log:
        while log.max_phy_offset < log_size:
            log.append_batch(log_messages(first, bodies), store_timestamp="given")
            first += BATCH
    return first


def log_messages(first: int, bodies: np.ndarray) -> list[Message]:
    numbers = np.arange(first, first + BATCH)
    keys = digits(numbers).tobytes().decode()
    uniq_keys = hex_digits(numbers, 32, HEX).tobytes().decode()
    made = []
    for i, number in enumerate(numbers.tolist()):
        message = Message(
            TOPIC,
            bodies[number * 611 % len(bodies)].tobytes(),
            keys=keys[32 * i : 32 * i + 32],
            tags=TAGS[number % len(TAGS)],
            queue_id=number % QUEUES,
            properties={"UNIQ_KEY": uniq_keys[32 * i : 32 * i + 32]},
        )
        message.store_timestamp = START + number // 40
        made.append(message)
    return made
