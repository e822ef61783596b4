"""Files together: a whole store made from messages, and queries over index and log."""

from types import SimpleNamespace

from . import consume_queue
from .checkpoint import checkpoint_bytes
from .commit_log import CommitLog, make_commit_log, read_files, write_file
from .index_file import IndexFile, IndexService
from .java import LONG_MAX
from .record import COMMIT, ROLLBACK

FIRST_INDEX_NAME = 20_240_101_000_000_000


def make_store(
    root,
    records,
    *,
    file_size=65536,
    cq_file_size=2000,
    hash_slot_num=97,
    index_num=400,
    first_offset=0,
    index_tags=True,
):
    """Write a store after a clean stop: commit log, consume queues, index and checkpoint. Return the commit log.

    records: as make_commit_log takes them.
    """
    make_commit_log(root / "commitlog", file_size, records, first_offset=first_offset)
    log = CommitLog(read_files(root / "commitlog"))
    for (topic, queue_id), queue in build_queues(log, cq_file_size).items():
        for start, data in queue.files.items():
            write_file(root / "consumequeue" / topic / str(queue_id), start, data)
    index = build_index(log, hash_slot_num, index_num, index_tags=index_tags)
    (root / "index").mkdir()
    for number, file in enumerate(index.files):
        (root / "index" / str(FIRST_INDEX_NAME + number)).write_bytes(file.data)
    last_offset, last = log.records[-1] if log.records else (0, SimpleNamespace(store_timestamp=0))
    checkpoint = checkpoint_bytes(
        last.store_timestamp,
        last.store_timestamp,
        index.index_msg_timestamp,
        logics_physical_offset=last_offset,
    )
    (root / "checkpoint").write_bytes(checkpoint)
    (root / "lock").write_bytes(b"lock")
    return log


def build_queues(log, file_size):
    """The consume queues of a log by (topic, queue id). Inner batches, light queues and extensions are not built."""
    queues = {}
    for offset, record in log.records:
        if record.sys_flag & ROLLBACK in (0, COMMIT):
            queue = queues.setdefault((record.topic, record.queue_id), consume_queue.Queue(file_size))
            consume_queue.put(queue, offset, record.total_size, record.tags_code, record.queue_offset)
    return queues


def build_index(log, hash_slot_num, index_num, *, index_tags=True):
    """The index of a log that never was restarted."""
    service = IndexService(hash_slot_num, index_num, index_tags=index_tags)
    for _, record in log.records:
        service.build_index(record)
    return service


def read_index(directory, hash_slot_num, index_num):
    """The index files of a directory as they are."""
    service = IndexService(hash_slot_num, index_num)
    for path in sorted(directory.iterdir()):
        service.files.append(IndexFile(hash_slot_num, index_num, data=path.read_bytes()))
    return service


def query_message(index, log, topic, key, max_num, begin=0, end=LONG_MAX, index_type=None):
    """DefaultMessageStore.queryMessage: (physical offset, size) of the records, oldest first; keys are not compared."""
    found, last = [], end
    for _ in range(3):
        offsets = sorted(index.query_offset(topic, key, max_num, begin, last, index_type)[0])
        if not offsets:
            break
        if offsets[0] in log.record_at:
            last = log.record_at[offsets[0]].store_timestamp
        found = [(offset, log.record_at[offset].total_size) for offset in offsets if offset in log.record_at]
        if found or last < begin:
            break
    return found
