"""Whether a store that was opened again after a crash is sound: judged by tests/reference on its bytes, then by asking.

Messages are those of crash_writer.py, which follow from their ids.
"""

import hashlib
import struct
from pathlib import Path

from reference.commit_log import blank, read_files, scan
from reference.consume_queue import BATCH_UNIT_SIZE, UNIT_SIZE, is_ext_addr, load, read_ext
from reference.index_file import IndexFile, IndexService, key_hash
from support.crash_writer import QUEUES, Ack, ident_of, message, plan

import rocketstore

INNER_MESSAGE = struct.Struct(">iiiii")  # size, magic, body CRC, flag, body length
INNER_BATCH = 0x80
RECOVERIES = 20  # of one store at most; each may index one message again, some of whose items were there already


def inner_bodies(data):
    """The bodies of the messages in the body of an inner batch."""
    position, found = 0, []
    while position < len(data):
        size, _, _, _, body_size = INNER_MESSAGE.unpack_from(data, position)
        found.append(data[position + INNER_MESSAGE.size :][:body_size])
        position += size
    return found


class Found:
    """The messages in the files of a store, by their ids."""

    def __init__(self, root, config):
        self.root, self.config = Path(root), config
        self.files = read_files(self.root / "commitlog")
        self.records = scan(self.files)
        self.messages = {}  # ident -> (record, queue offset)
        self.torn = []
        for phy_offset, record in self.records:
            assert record.phy_offset == phy_offset, "a record lies about where it is"
            if is_torn(record):
                self.torn.append(phy_offset)
                continue
            is_inner = record.sys_flag & INNER_BATCH
            for number, body in enumerate(inner_bodies(record.body) if is_inner else [record.body]):
                ident = ident_of(body)
                assert ident not in self.messages, f"{ident} is there twice"
                self.messages[ident] = record, record.queue_offset + number
                check_content(record, body, plan(ident), is_inner)

    @property
    def end(self):
        return self.records[-1][0] + self.records[-1][1].total_size if self.records else min(self.files, default=0)

    def queues(self):
        """The records of each queue, in the order of the log."""
        found = {}
        for _, record in self.records:
            found.setdefault((record.topic, record.queue_id), []).append(record)
        return found

    def next_queue_offset(self, topic, queue_id):
        records = self.queues().get((topic, queue_id))
        return records[-1].queue_offset + records[-1].batch_size if records else 0


def is_torn(record):
    """Whether it lacks part of its properties, which no CRC covers: to RocketMQ, and to us, it is a record."""
    return any("\0" in text for item in record.properties.items() for text in item)


def check_content(record, body, planned, is_inner):
    assert body == planned.body
    assert record.topic == planned.topic
    assert planned.queue_id in (None, record.queue_id)
    if not is_inner:
        assert (record.keys or "").split() == planned.keys
        assert record.tags == planned.tags


# ---- the files -----------------------------------------------------------------------------------------------


def check_files(root, config, acks=()):
    """Log, queues and index agree with each other and have all acknowledged messages. Return the messages."""
    found = Found(root, config)
    check_acks(found, acks)
    check_log_end(found)
    check_queues(found)
    check_index(found)
    return found


def check_acks(found, acks):
    for ack in acks:
        assert ack.ident in found.messages, f"lost: {ack}, the log ends at {found.end}"
        record, queue_offset = found.messages[ack.ident]
        assert (record.topic, record.queue_id, queue_offset) == (ack.topic, ack.queue_id, ack.queue_offset), ack
        assert (record.phy_offset, record.total_size) == (ack.phy_offset, ack.size), ack


def check_log_end(found):
    """Behind the last record there is nothing, so that nothing old can come back."""
    size = found.config.mapped_file_size_commit_log
    for start, data in found.files.items():
        assert len(data) == size or start >= found.end, "only a file ahead may be in the making"
        behind = data[max(found.end - start, 0) :]
        is_full = start < found.end and behind == blank(len(behind))
        assert is_full or not any(behind), f"something is left behind {found.end}"
    first = min(found.files, default=0)
    assert sorted(found.files) == list(range(first, first + size * len(found.files), size))


def check_queues(found):
    """Queue offsets follow each other, and each queue has a unit for each record and for nothing else."""
    queues = found.queues()
    for queue, records in queues.items():
        expected = records[0].queue_offset
        for record in records:
            assert record.queue_offset == expected, f"{queue}: {expected} was to come, {record.queue_offset} did"
            expected += record.batch_size
        assert records[0].queue_offset == 0 or min(found.files) > 0, f"{queue} begins at {records[0].queue_offset}"
    for unit_size, name, size in (
        (UNIT_SIZE, "consumequeue", found.config.mapped_file_size_consume_queue),
        (BATCH_UNIT_SIZE, "batchconsumequeue", found.config.mapper_file_size_batch_consume_queue),
    ):
        directories = {path.relative_to(found.root / name).parts: path for path in (found.root / name).glob("*/*")}
        for (topic, queue_id), directory in directories.items():
            records = queues.pop((topic, int(queue_id)), [])
            units = [unit for unit in units_of(directory, size, unit_size) if unit.offset >= min(found.files)]
            ext = read_files(found.root / "consumequeue_ext" / topic / queue_id)
            fields = [(unit.queue_offset, unit.offset, unit.size, code_of(unit, ext), unit.batch_num) for unit in units]
            expected = [
                (record.queue_offset, record.phy_offset, record.total_size, record.tags_code, record.batch_size)
                for record in records
            ]
            wrong = set(fields) ^ set(expected)
            assert fields == expected, f"{topic}/{queue_id}: {len(fields)} units, {len(expected)} records: {wrong}"
    assert not queues, f"no files for {list(queues)}"


def code_of(unit, ext):
    """The tags code of a unit, or of the ext unit that it leads to."""
    return read_ext(ext, unit.tags_code).tags_code if is_ext_addr(unit.tags_code) else unit.tags_code


def units_of(directory, file_size, unit_size):
    """All valid units of a queue from its first file on; no unit is behind them."""
    queue = load(directory, file_size, unit_size)
    if not queue.files:
        return []
    queue.end = min(queue.end, max(queue.files) + file_size)
    units = [unit for start in queue.starts for unit in queue.units(start)]
    rest = queue.files[max(queue.starts)][max(queue.end - max(queue.starts), 0) :]
    assert not any(rest), f"{directory}: something is left behind the last unit"
    return units


def check_index(found):
    """Each item is of a record that has its key, and each key of each record has an item."""
    by_offset = {}
    service = IndexService(1, 2)
    for phy_offset, record in found.records:
        by_offset[phy_offset] = {key_hash(key) for key in service.keys_of(record)}
    seen = {phy_offset: set() for phy_offset in by_offset}
    again = set()
    for path in sorted((found.root / "index").glob("[0-9]" * 17)):
        file = IndexFile(found.config.max_hash_slot_num, found.config.max_index_num, data=path.read_bytes())
        for ordinal in range(1, file.index_count):
            code, phy_offset, _, _ = file.item(ordinal)
            if phy_offset < min(found.files, default=0):
                continue
            assert code in by_offset.get(phy_offset, ()), f"{path.name}: item {ordinal} is of no record: {phy_offset}"
            if code in seen[phy_offset]:
                again.add(phy_offset)
            assert phy_offset in file.select_hash(code, 10**6), f"{path.name}: item {ordinal} is on no chain"
            seen[phy_offset].add(code)
    assert len(again) <= RECOVERIES, f"indexed again: {sorted(again)}"
    assert seen == by_offset, "not indexed: " + str([at for at in seen if seen[at] != by_offset[at]][:5])


# ---- asking --------------------------------------------------------------------------------------------------


def check_answers(store, acks):
    """The store finds each acknowledged message by physical offset, in its queue, and by its keys."""
    for ack in acks:
        stored = store.look_message_by_offset(ack.phy_offset)
        assert stored is not None, ack
        check_answer(ack, only_message(stored, ack))
        got = store.get_message(ack.topic, ack.queue_id, ack.queue_offset, 1)
        assert len(got.messages) > 0, f"not in its queue: {ack}"
        check_answer(ack, only_message(got.messages[0], ack))
        for key in plan(ack.ident).keys if not stored.sys_flag & INNER_BATCH else ():
            result = store.query_message(ack.topic, key, 10_000)
            assert ack.phy_offset in result.messages.phy_offset.tolist(), f"{key} is not found: {ack}"


def only_message(stored, ack):
    """The message of an acknowledgement in the record that has it."""
    messages = stored.decode_batch() if stored.sys_flag & INNER_BATCH else [stored]
    return next(each for each in messages if each.queue_offset == ack.queue_offset)


def check_answer(ack, message):
    assert hashlib.sha256(message.body).hexdigest()[:16] == ack.digest
    assert (message.topic, message.queue_id, message.queue_offset) == (ack.topic, ack.queue_id, ack.queue_offset)
    assert message.phy_offset == ack.phy_offset


def check_readable(root, config, acks):
    """Before a recovery, a reader finds all acknowledged messages in the log, and no query is an error."""
    if not (Path(root) / "commitlog").is_dir():
        assert not acks
        return
    with rocketstore.open(root, config=config) as store:
        offsets = offsets_of(store.scan(containers=True))
        assert {ack.phy_offset for ack in acks} <= set(offsets)
        for options in ({"verify_crc": True}, {"threads": 3}):
            assert offsets_of(store.scan(containers=True, **options)) == offsets, options
        assert offsets_of(store.follow_batches(poll=None)) == offsets
        for topic, queue_id in store.queues():
            queue = store.consume_queue(topic, queue_id)
            store.get_message(topic, queue_id, queue.min_queue_offset, 1_000)
        for ack in acks[:: len(acks) // 20 + 1]:
            check_answer(ack, only_message(store.look_message_by_offset(ack.phy_offset), ack))
            for key in plan(ack.ident).keys:
                store.query_message(ack.topic, key)
        store.summary()


def offsets_of(batches):
    """The physical offsets of all messages in batches."""
    return [offset for batch in batches for offset in batch.phy_offset.tolist()]


def cuts(root):
    """The tails that were cut off and kept, named by the time and where they began."""
    return {path for path in (Path(root) / "rocketstore-cut").rglob("*") if path.is_file()}


def check_cuts(new, file_size):
    """At most one tail was cut: what lies in later files as well is kept from their start on."""
    begins = [int(path.name[-20:]) for path in new]
    assert sum(begin % file_size != 0 for begin in begins) <= 1, f"cut: {begins}"
    assert len(set(begins)) == len(begins)


# ---- opening again -------------------------------------------------------------------------------------------


def check_recovery(root, config, acks, name):
    """Open for writing what a crash left, and check all of it, twice: there must be nothing left to do for the second.

    name: part of the ids of messages that are put then. Gives how many messages there are.
    """
    before = cuts(root)
    with rocketstore.open(root, "a", config=config) as store:
        check_cuts(cuts(root) - before, config.mapped_file_size_commit_log)
        check_answers(store, acks[-12:] + acks[: -12 : len(acks) // 20 + 1])
        recovered = check_files(root, config, acks)
        acks = list(acks) + go_on(store, recovered, f"{name}-on")
        check_answers(store, acks[-9:])
    cuts_then = cuts(root)
    found = check_files(root, config, acks)
    assert set(recovered.messages) <= set(found.messages)
    with rocketstore.open(root, "a", config=config):
        again = check_files(root, config, acks)
        assert set(again.messages) == set(found.messages)
    assert cuts(root) == cuts_then, "a store that was closed has nothing to cut"
    return found


def go_on(store, found, ident):
    """Put one message into each queue. It gets the next queue offset. Return the acknowledged messages."""
    acks = []
    for topic, queue_nums in QUEUES.items():
        for queue_id in range(queue_nums):
            planned = plan(each := f"{ident}/{topic}/{queue_id}")
            result = store.put_message(message(planned))
            assert result.queue_offset == found.next_queue_offset(topic, queue_id), (topic, queue_id)
            assert result.phy_offset >= found.end
            acks.append(Ack.of(each, planned, queue_id, result.queue_offset, result.phy_offset, result.size))
    return acks
