"""Stores of several log files whose log is then damaged, and what the log still has."""

import random
from typing import NamedTuple

from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig

LOG_SIZE = 16 << 10
CONFIG = StoreConfig(**{**SMALL, "mapped_file_size_commit_log": LOG_SIZE})
CRC_CONFIG = StoreConfig(**{**SMALL, "mapped_file_size_commit_log": LOG_SIZE}, enabled_append_prop_crc=True)
TOPICS = ("Orders", "Audit", "A", "%RETRY%group")
BORN = 1_700_000_000_000


class Row(NamedTuple):
    """A message of the log, to compare it with a later one."""

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    size: int
    store_timestamp: int
    msg_id: str
    tags: str | None
    keys: list
    body: bytes
    flag: int

    @property
    def place(self):
        """What stays also if the message is lost."""
        return self[:5]


def make_log(root, rng, count=60, config=CONFIG):
    """Put messages of several topics, queues and sizes; return their rows."""
    now = BORN
    with rocketstore.open(root, "a", config=config) as store:
        for number in range(count):
            now += rng.randrange(3) or number == count - 1  # the checkpoint names the last record alone
            message = Message(
                rng.choice(TOPICS),
                rng.randbytes(rng.choice((0, 1, 20, 300, 2000))),
                tags=rng.choice((None, "paid", "sent", "标签")),
                keys=[f"key-{number}"] if rng.random() < 0.7 else (),
                uniq_key=f"{number:032X}" if rng.random() < 0.5 else None,
                queue_id=rng.randrange(3),
            )
            store.put_message(message, store_timestamp=now)
        return rows_of(store)


def rows_of(store):
    return [
        Row(*(getattr(message, name) for name in Row._fields))
        for batch in store.scan(on_corrupt="skip")
        for message in batch
    ]


def read_rows(root):
    with rocketstore.open(root) as store:
        return rows_of(store)


def overwrite(root, phy_offset, data, size=LOG_SIZE):
    """Overwrite bytes of the log, also across files."""
    at, end = phy_offset, phy_offset + len(data)
    while at < end:
        path, stop = root / "commitlog" / f"{at // size * size:020}", min((at // size + 1) * size, end)
        if path.exists():
            with path.open("r+b") as file:
                file.seek(at % size)
                file.write(data[at - phy_offset : stop - phy_offset])
        at = stop


def last_file_begin(rows):
    return rows[-1].phy_offset // LOG_SIZE * LOG_SIZE


def damage(root, rng, rows):
    """Draw a damage before the last file of the log, whose end is a crash's affair."""
    row = rng.choice([row for row in rows if row.phy_offset < last_file_begin(rows)])
    end_of_file = (row.phy_offset // LOG_SIZE + 1) * LOG_SIZE
    match rng.randrange(6):
        case 0:  # the head
            overwrite(root, row.phy_offset, bytes(rng.choice((4, 8, 30, 40, 88))))
        case 1:  # a byte of size, magic, CRC or physical offset
            place = rng.choice((*range(12), *range(28, 36)))
            flip(root, row.phy_offset + place, rng)
        case 2 if row.body:
            flip(root, row.phy_offset + 88 + rng.randrange(len(row.body)), rng)
        case 3:  # the end of a file, and the begin of the next one
            # Up to the end: changed keys alone have no checksum, and patch leaves their record as it is.
            size = rng.randrange(1, 600)
            overwrite(root, end_of_file - size, rng.randbytes(size + rng.randrange(900)))
        case 4:  # some files
            limit = last_file_begin(rows) - row.phy_offset
            overwrite(root, row.phy_offset, rng.randbytes(min(rng.choice((LOG_SIZE, 2 * LOG_SIZE)), limit)))
        case _:
            overwrite(root, row.phy_offset, rng.choice((bytes, random.Random(1).randbytes))(row.size))


def flip(root, phy_offset, rng):
    """Change one bit of a byte of the log."""
    path = root / "commitlog" / f"{phy_offset // LOG_SIZE * LOG_SIZE:020}"
    with path.open("r+b") as file:
        file.seek(phy_offset % LOG_SIZE)
        byte = file.read(1)[0]
        file.seek(phy_offset % LOG_SIZE)
        file.write(bytes([byte ^ 1 << rng.randrange(8)]))


def bytes_of(root):
    """The bytes of all files but those that every opening touches."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "lock"
    }
