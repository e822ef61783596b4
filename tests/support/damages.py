"""Damages to a store before it is opened again. Each function makes one damage in a directory.

They are told the root and a random.Random; the store's files are its own (see `DAMAGES`). What cannot be done to a
store, such as deleting its second file where there is one, is left undone.
"""

import shutil
import struct

from reference.commit_log import parse_record, read_files, walk_file, write_file

NOISE = b"\xa5\x00\x17 no record "


# ---- commit log --------------------------------------------------------------------------------------------


def log_files(root):
    return {start: bytearray(data) for start, data in read_files(root / "commitlog").items()}


def records(root):
    """(file start, position, size) of every record."""
    return [
        (start, position, parsed.size)
        for start, data in sorted(log_files(root).items())
        for position, parsed in walk_file(data)
        if parsed.success and parsed.size > 0
    ]


def change_log(root, start, position, data):
    file = log_files(root)[start]
    file[position : position + len(data)] = data
    write_file(root / "commitlog", start, file)


def negative_blank(root):
    """Change the size in the first blank of the log to -8; return where the blank is."""
    start, data = min(log_files(root).items())
    position = max(position + parsed.size for position, parsed in walk_file(data) if parsed.success)
    change_log(root, start, position, struct.pack(">i", -8))
    return start + position


def zero_log_from(root, start, position):
    """Zeros to the end of the file, and no file after it."""
    for other, data in log_files(root).items():
        if other > start:
            (root / "commitlog" / f"{other:020d}").unlink()
        elif other == start:
            write_file(root / "commitlog", start, data[:position].ljust(len(data), b"\0"))


def nothing(root, rng):
    pass


def tear(root, start, position, cut):
    """Zeros from some place in a record on, but not in its topic: RocketMQ makes no directory of that name."""
    zero_log_from(root, start, position + cut)
    torn = parse_record(log_files(root)[start], position).record
    if torn is not None and "\0" in torn.topic:
        zero_log_from(root, start, position + 8)


def cut_in_the_last_record(root, rng):
    start, position, size = records(root)[-1]
    tear(root, start, position, rng.choice((1, 4, 7, 8, 27, 28, 83, 88, size // 2, size - 20, size - 1)))


def cut_between_records(root, rng):
    start, position, _ = rng.choice(records(root)[-20:])
    zero_log_from(root, start, position)


def cut_in_any_record(root, rng):
    start, position, size = rng.choice(records(root)[1:])
    tear(root, start, position, rng.randrange(1, size))


def noise_after_the_last_record(root, rng):
    start, position, size = records(root)[-1]
    room = len(log_files(root)[start]) - position - size  # eight bytes at least
    change_log(root, start, position + size, NOISE[:room])


def noise_instead_of_the_last_record(root, rng):
    start, position, size = records(root)[-1]
    change_log(root, start, position, rng.randbytes(size))


def damaged_body_of_a_record(root, rng):
    start, position, _ = rng.choice(records(root)[1:])
    data = log_files(root)[start]
    sys_flag = int.from_bytes(data[position + 36 : position + 40], "big")
    position += 88 + 12 * ((sys_flag >> 4 & 1) + (sys_flag >> 5 & 1))  # hosts of IPv6
    change_log(root, start, position, bytes([data[position] ^ 0x55]))


def damaged_magic_of_a_record(root, rng):
    start, position, _ = rng.choice(records(root)[1:])
    change_log(root, start, position + 4, b"\0\0\0\0")


def wrong_size_of_a_record(root, rng):
    start, position, size = rng.choice(records(root)[1:])
    change_log(root, start, position, struct.pack(">i", size + rng.choice((-1, 1, 100))))


def missing_last_log_file(root, rng):
    if len(log_files(root)) > 1:
        (root / "commitlog" / f"{max(log_files(root)):020d}").unlink()


def missing_first_log_files(root, rng):
    starts = sorted(log_files(root))
    for start in starts[: rng.randint(1, max(len(starts) - 1, 1))] if len(starts) > 1 else []:
        (root / "commitlog" / f"{start:020d}").unlink()


def missing_log(root, rng):
    shutil.rmtree(root / "commitlog")


def log_file_made_ahead(root, rng):
    starts = sorted(log_files(root))
    size = len(log_files(root)[starts[0]])
    write_file(root / "commitlog", starts[-1] + size, bytes(size))


def empty_last_log_file(root, rng):
    starts = sorted(log_files(root))
    write_file(root / "commitlog", starts[-1] + len(log_files(root)[starts[0]]), b"")


# ---- queues ------------------------------------------------------------------------------------------------


def queue_directories(root):
    return sorted(path for name in ("consumequeue", "batchconsumequeue") for path in (root / name).glob("*/*"))


def unit_size(directory):
    return 46 if directory.parent.parent.name == "batchconsumequeue" else 20


def units(directory):
    """(file start, position, physical offset, record size) of all that are no zeros."""
    size = unit_size(directory)
    return [
        (start, position, *struct.unpack_from(">qi", data, position))
        for start, data in sorted(read_files(directory).items())
        for position in range(0, len(data) - size + 1, size)
        if any(data[position : position + size])
    ]


def zero_units(directory, number):
    """Zero the last units of a queue."""
    for start, position, *_ in units(directory)[-number:]:
        data = bytearray(read_files(directory)[start])
        data[position : position + unit_size(directory)] = bytes(unit_size(directory))
        write_file(directory, start, data)


def missing_queues(root, rng):
    for name in ("consumequeue", "batchconsumequeue", "consumequeue_ext"):
        shutil.rmtree(root / name, ignore_errors=True)


def missing_queue(root, rng):
    directory = rng.choice(queue_directories(root))
    shutil.rmtree(directory)
    shutil.rmtree(root / "consumequeue_ext" / directory.relative_to(directory.parents[1]), ignore_errors=True)


def zeroed_newest_unit(root, rng):
    zero_units(max(queue_directories(root), key=lambda path: max(unit[2] for unit in units(path))), 1)


def zeroed_last_unit(root, rng):
    zero_units(rng.choice(queue_directories(root)), 1)


def queues_behind(root, rng):
    """Records that no queue has: also what follows when records revive behind a rewritten end."""
    for directory in queue_directories(root):
        zero_units(directory, rng.randint(1, 4))


def zeroed_queue_file(root, rng):
    directory = max(queue_directories(root), key=lambda path: len(read_files(path)))
    starts = sorted(read_files(directory))
    write_file(directory, starts[min(1, len(starts) - 1)], bytes(len(read_files(directory)[starts[0]])))


def zeroed_first_queue_file(root, rng):
    directory = rng.choice(queue_directories(root))
    start = min(read_files(directory))
    write_file(directory, start, bytes(len(read_files(directory)[start])))


def missing_first_queue_file(root, rng):
    directory = max(queue_directories(root), key=lambda path: len(read_files(path)))
    if len(read_files(directory)) > 1:
        (directory / f"{min(read_files(directory)):020d}").unlink()


def empty_last_queue_file(root, rng):
    directory = rng.choice(queue_directories(root))
    files = read_files(directory)
    write_file(directory, max(files) + len(files[max(files)]), b"")


def torn_last_unit(root, rng):
    """Its last half was not written."""
    directory = rng.choice(queue_directories(root))
    start, position, *_ = units(directory)[-1]
    data, cut = bytearray(read_files(directory)[start]), rng.choice((9, 12, 16))
    data[position + cut : position + unit_size(directory)] = bytes(unit_size(directory) - cut)
    write_file(directory, start, data)


def unit_of_another_record(root, rng):
    """The last unit of a queue leads to the first record of the log."""
    directory = rng.choice(queue_directories(root))
    start, position, *_ = units(directory)[-1]
    data = bytearray(read_files(directory)[start])
    first_start, first_position, size = records(root)[0]
    struct.pack_into(">qi", data, position, first_start + first_position, size)
    write_file(directory, start, data)


# ---- index and state ---------------------------------------------------------------------------------------


def missing_index(root, rng):
    shutil.rmtree(root / "index")


def missing_newest_index_file(root, rng):
    max((root / "index").iterdir()).unlink()


def missing_checkpoint(root, rng):
    (root / "checkpoint").unlink()


def zeroed_checkpoint(root, rng):
    (root / "checkpoint").write_bytes(bytes(4096))


def old_checkpoint(root, rng):
    """Of some time before: the last flush was of a record in the middle."""
    start, position, _ = rng.choice(records(root) or [(0, 0, 0)])
    record = log_files(root)[start][position:] if records(root) else bytes(100)
    time = struct.unpack_from(">q", record, 68 if record[39] & 0x10 else 56)[0]
    data = bytearray((root / "checkpoint").read_bytes())
    struct.pack_into(">qq", data, 0, time, time)
    struct.pack_into(">q", data, 40, rng.choice((0, start + position)))
    (root / "checkpoint").write_bytes(data)


def unclean(root, rng):
    (root / "abort").write_bytes(b"4711")


def clean(root, rng):
    (root / "abort").unlink(missing_ok=True)


OF_LOG = (
    nothing,
    cut_in_the_last_record,
    cut_between_records,
    cut_in_any_record,
    noise_after_the_last_record,
    noise_instead_of_the_last_record,
    damaged_body_of_a_record,
    damaged_magic_of_a_record,
    wrong_size_of_a_record,
    missing_last_log_file,
    missing_first_log_files,
    missing_log,
    log_file_made_ahead,
    empty_last_log_file,
)
OF_QUEUES = (
    missing_queues,
    missing_queue,
    zeroed_newest_unit,
    zeroed_last_unit,
    queues_behind,
    zeroed_queue_file,
    zeroed_first_queue_file,
    missing_first_queue_file,
    empty_last_queue_file,
    torn_last_unit,
    unit_of_another_record,
)
OF_INDEX = (missing_index, missing_newest_index_file)
OF_CHECKPOINT = (nothing, missing_checkpoint, zeroed_checkpoint, old_checkpoint)
DAMAGES = OF_LOG + OF_QUEUES + OF_INDEX
