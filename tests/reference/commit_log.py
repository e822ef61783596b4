"""The files of a commit log: making them, walking through them, and what a broker finds in them."""

from pathlib import Path

from .record import BORN_V6, COMMIT, ROLLBACK, SCHEDULE_TOPIC, Record, blank, build_record, parse_record

# What tests of a log want of its records too.
__all__ = [
    "SCHEDULE_TOPIC",
    "CommitLog",
    "Record",
    "blank",
    "build_record",
    "make_commit_log",
    "parse_record",
    "read_files",
    "scan",
    "walk_file",
    "write_file",
]

END_FILE_MIN_BLANK_LENGTH = 8


def make_commit_log(directory, file_size, records, *, first_offset=0):
    """Write the files of a commit log and return the physical offset of each record.

    A record is bytes, written as they are, or the arguments of build_record: its physical offset, and the next offset
    of its queue where it has one, are given to it unless they are among them.
    """
    files = {first_offset: bytearray()}
    start, offsets, next_queue_offset = first_offset, [], {}
    for record in records:
        size = len(record if isinstance(record, bytes) else build_record(**record))
        left = file_size - len(files[start])
        if size + END_FILE_MIN_BLANK_LENGTH > left:
            if size + END_FILE_MIN_BLANK_LENGTH > file_size:
                raise ValueError(f"a record of {size} bytes fits in no file of {file_size}")
            files[start] += blank(left)
            start += file_size
            files[start] = bytearray()
        offsets.append(start + len(files[start]))
        files[start] += record if isinstance(record, bytes) else placed(record, offsets[-1], next_queue_offset)
    for start, data in files.items():
        write_file(directory, start, data.ljust(file_size, b"\0"))
    return offsets


def placed(fields, phy_offset, next_queue_offset):
    """The record with the offsets that doAppend gives it."""
    queue = fields.get("topic", "TopicTest"), fields.get("queue_id", 0)
    queue_offset = 0
    if fields.get("sys_flag", 0) & ROLLBACK in (0, COMMIT):
        queue_offset = next_queue_offset.get(queue, 0)
        next_queue_offset[queue] = queue_offset + 1
    return build_record(**{"phy_offset": phy_offset, "queue_offset": queue_offset, **fields})


def write_file(directory, start, data):
    path = Path(directory) / f"{start:020d}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def read_files(directory):
    """The files of a directory by their start."""
    return {int(path.name): path.read_bytes() for path in sorted(Path(directory).glob("[0-9]" * 20))}


def walk_file(data, **options):
    """Yield (position, Parsed) of every record of a file, and of what ends them."""
    position = 0
    while position < len(data):
        parsed = parse_record(data, position, **options)
        yield position, parsed
        if not parsed.success or parsed.size <= 0:
            return
        position += parsed.size


def scan(files, **options):
    """Return (offset, Record) of every record from file to file, up to the first thing that is no record.

    files: as read_files gives them. That is what recovery would keep of the log.
    """
    found = []
    for start, data in sorted(files.items()):
        end = None
        for position, end in walk_file(data, **options):
            if end.record is not None:
                found.append((start + position, end.record))
        if end is None or not end.success:
            return found
    return found


class CommitLog:
    """The files of a commit log, up to where a broker finds its end."""

    def __init__(self, files, **options):
        self.files = files
        self.file_size = len(next(iter(files.values()), b""))
        self.records = scan(files, **options)
        self.record_at = dict(self.records)
        self.min_offset = min(files, default=-1)
        self.max_offset = self.end()

    def end(self):
        """Behind the last record: in its file, or at the start of the next where a blank follows it."""
        if not self.records:
            return max(self.min_offset, 0)
        offset, record = self.records[-1]
        return offset + record.total_size

    def select(self, phy_offset, size):
        """CommitLog.getMessage: the bytes, or None where one file does not have them all before the end."""
        start = phy_offset // self.file_size * self.file_size
        position = phy_offset - start
        readable = min(max(self.max_offset - start, 0), self.file_size)
        if start not in self.files or size <= 0 or position + size > readable:
            return None
        return self.files[start][position : position + size]

    def pickup_store_timestamp(self, phy_offset, size):
        """-1 unless the log has the record."""
        data = self.select(phy_offset, size) if phy_offset >= self.min_offset else None
        if data is None:
            return -1
        sys_flag = int.from_bytes(data[36:40], "big")
        position = 68 if sys_flag & BORN_V6 else 56
        return int.from_bytes(data[position : position + 8], "big", signed=True)

    def roll_next_file(self, phy_offset):
        return phy_offset + self.file_size - phy_offset % self.file_size
