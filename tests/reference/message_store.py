"""Files together: a whole store made from messages, or put by put, and queries over index and log."""

from types import SimpleNamespace
from typing import NamedTuple

from . import consume_queue
from .checkpoint import checkpoint_bytes
from .commit_log import END_FILE_MIN_BLANK_LENGTH, CommitLog, make_commit_log, read_files, write_file
from .index_file import IndexFile, IndexService
from .java import LONG_MAX, java_split
from .record import (
    COMMIT,
    CRC_PROPERTY,
    CRC_RESERVED,
    INNER_BATCH,
    ROLLBACK,
    SCHEDULE_TOPIC,
    blank,
    build_record,
    encode_properties,
    parse_record,
)

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


# ---- writing -----------------------------------------------------------------------------------------------


class Refused(Exception):
    """A message that is not stored, by its PutMessageStatus."""


class Placed(NamedTuple):
    """What a put answers."""

    phy_offset: int
    size: int
    queue_id: int
    queue_offset: int


class StoreModel:
    """A store that is written: its files, as a broker of a release that never restarts has them.

    Messages are dicts of what build_record takes, but for the offsets.
    """

    def __init__(
        self,
        *,
        file_size=65536,
        cq_file_size=2000,
        batch_cq_file_size=460,
        ext_file_size=1024,
        hash_slot_num=97,
        index_num=400,
        release=(5, 5, 0),
        max_message_size=4 << 20,
        append_prop_crc=False,
        enable_lmq=False,
        enable_multi_dispatch=False,
        enable_ext=False,
        batch_topics=(),
        first_offset=0,
    ):
        self.file_size, self.cq_file_size, self.batch_cq_file_size = file_size, cq_file_size, batch_cq_file_size
        self.ext_file_size, self.max_message_size = ext_file_size, max_message_size
        self.release, self.append_prop_crc = release, append_prop_crc
        self.enable_lmq, self.enable_multi_dispatch, self.enable_ext = enable_lmq, enable_multi_dispatch, enable_ext
        self.batch_topics = batch_topics
        self.files = {first_offset: bytearray()}
        self.next_queue_offset = {}
        self.queues, self.exts = {}, {}
        self.index = IndexService(
            hash_slot_num,
            index_num,
            every_put_counts=release < (4, 7, 1),
            index_tags=release >= (5, 4, 0),
        )
        self.last = None
        self.left_out = set()  # topic, queue id, physical offset: records without a unit

    @property
    def phy_offset(self):
        """Where the next record would go."""
        start = max(self.files)
        return start + len(self.files[start])

    # ---- put ---------------------------------------------------------------------------------------------------

    def put(self, message, store_timestamp):
        """CommitLog.asyncPutMessage."""
        properties, number = without_none(message.get("properties", {})), 1
        message = {**message, "properties": properties, "store_timestamp": store_timestamp}
        queue = message["topic"], message["queue_id"]
        inner = message.get("sys_flag", 0) & INNER_BATCH
        if ("INNER_NUM" in properties and not inner) or (inner and queue[0] not in self.batch_topics):
            raise Refused("MESSAGE_ILLEGAL")
        if inner:
            number = int(properties["INNER_NUM"])
            properties["INNER_BASE"] = str(self.next_queue_offset.get(queue, 0))
        lights = self.light_queues(message)
        if lights is not None:
            offsets = [str(self.next_queue_offset.get((name, 0), 0)) if is_lmq(name) else "" for name in lights]
            properties["INNER_MULTI_QUEUE_OFFSET"] = ",".join(offsets)
            if self.release < (5, 2, 0):
                properties.pop("WAIT", None)
        record = self.encode(message, is_lmq=lights is not None)
        placed = self.append([record], queue, number)[0]
        for name in filter(is_lmq, lights or ()):
            self.next_queue_offset[name, 0] = self.next_queue_offset.get((name, 0), 0) + 1
        return placed

    def put_batch(self, batch, messages, store_timestamp):
        """CommitLog.asyncPutMessages: a client's batch."""
        if batch.get("sys_flag", 0) & ROLLBACK or int(batch.get("properties", {}).get("DELAY", 0)) > 0:
            raise Refused("MESSAGE_ILLEGAL")
        head = {name: value for name, value in batch.items() if name not in ("body", "flag", "properties")}
        head |= {"prepared_transaction_offset": 0, "store_timestamp": store_timestamp}
        records = []
        for message in messages:
            properties = self.serialised(message.get("properties", {}))
            more = self.serialised(batch.get("properties", {}))
            if more and (4, 8, 0) <= self.release < (5, 4, 0):
                is_parted = self.release < (4, 9, 3) or not properties or properties.endswith(b"\x02")
                properties += more if is_parted else b"\x02" + more
            fields = {"flag": message.get("flag", 0), "body": message.get("body", b""), "properties": properties}
            records.append(self.encode({**head, **fields}))
        return self.append(records, (batch["topic"], batch["queue_id"]), 1)

    def light_queues(self, message):
        """The names of INNER_MULTI_DISPATCH, if the store gives them offsets."""
        names, topic = message["properties"].get("INNER_MULTI_DISPATCH", ""), message["topic"]
        if not self.enable_lmq or not names.strip() or topic == SCHEDULE_TOPIC or self.release < (4, 9, 3):
            return None
        if topic.startswith("%DLQ%") and self.release >= (5, 5, 0):
            return None
        return None if topic.startswith(("%RETRY%", "rmq_sys_")) else java_split(names, ",")

    def serialised(self, properties):
        """MessageDecoder.messageProperties2String of the release."""
        data = encode_properties(without_none(properties))
        return data[:-1] if data and (4, 9, 1) <= self.release < (5, 2, 0) else data

    def encode(self, message, *, is_lmq=False):
        """MessageExtEncoder: the arguments of a record that is accepted."""
        properties = message["properties"]
        if not isinstance(properties, bytes):
            kept = {name: value for name, value in properties.items() if name != CRC_PROPERTY}
            properties = self.serialised(kept if self.append_prop_crc else properties)
        record = {**message, "properties": properties, "append_prop_crc": self.append_prop_crc}
        data = build_record(**{**record, "properties": b"", "append_prop_crc": False})
        reserved = 0
        if self.append_prop_crc:
            reserved = CRC_RESERVED + (properties != b"" and not properties.endswith(b"\x02"))
        if len(properties) + reserved > 32767:
            raise Refused("MESSAGE_ILLEGAL" if is_lmq else "PROPERTIES_SIZE_EXCEEDED")
        total = len(data) + len(properties) + reserved
        if len(message["body"]) > self.max_message_size:
            raise Refused("MESSAGE_ILLEGAL")
        if total > self.max_message_size + (0 if is_lmq else 65536):
            raise Refused("MESSAGE_ILLEGAL")
        return record

    # ---- append ------------------------------------------------------------------------------------------------

    def append(self, records, queue, number):
        """DefaultAppendMessageCallback.doAppend: all in one file."""
        sizes = [len(build_record(**record)) for record in records]
        if sum(sizes) + END_FILE_MIN_BLANK_LENGTH > self.file_size:
            raise Refused("MESSAGE_ILLEGAL")  # here RocketMQ says PUT_OK and stores nothing
        start = max(self.files)
        left = self.file_size - len(self.files[start])
        if sum(sizes) + END_FILE_MIN_BLANK_LENGTH > left:
            self.files[start] += blank(left)
            start += self.file_size
            self.files[start] = bytearray()
        return [self.append_one(record, start, queue, number) for record in records]

    def append_one(self, record, start, queue, number):
        phy_offset, queue_offset = start + len(self.files[start]), 0
        if record.get("sys_flag", 0) & ROLLBACK in (0, COMMIT):
            queue_offset = self.next_queue_offset.get(queue, 0)
            self.next_queue_offset[queue] = queue_offset + number
        data = build_record(**{**record, "phy_offset": phy_offset, "queue_offset": queue_offset})
        self.files[start] += data
        self.dispatch(parse_record(data, check_crc=False).record)
        return Placed(phy_offset, len(data), queue[1], queue_offset)

    # ---- dispatch ----------------------------------------------------------------------------------------------

    def dispatch(self, record):
        """DefaultMessageStore.doDispatch."""
        self.last = record
        if record.sys_flag & ROLLBACK in (0, COMMIT):
            self.put_unit(record)
            if self.enable_multi_dispatch and record.topic not in self.batch_topics:
                self.multi_dispatch(record)
        self.index.build_index(record)

    def queue_offsets(self, record):
        """The queues that a record is in, with its offset in each."""
        if record.sys_flag & ROLLBACK in (0, COMMIT):
            offset = record.msg_base_offset if record.topic in self.batch_topics else record.queue_offset
            yield (record.topic, record.queue_id), offset
            if self.enable_multi_dispatch and record.topic not in self.batch_topics:
                yield from self.other_queues(record)

    def put_unit(self, record):
        if (record.topic, record.queue_id, record.phy_offset) in self.left_out:
            return
        place, code = (record.phy_offset, record.total_size), record.tags_code
        queue = self.queue(record.topic, record.queue_id)
        if queue.is_batch:
            batch = record.store_timestamp, record.msg_base_offset, record.batch_size
            consume_queue.put_batch(queue, *place, code, *batch)
            return
        if self.enable_ext:
            ext = self.exts.setdefault((record.topic, record.queue_id), consume_queue.Ext(self.ext_file_size))
            code = consume_queue.put_ext(ext, code, record.store_timestamp)
        consume_queue.put(queue, *place, code, record.queue_offset)

    def multi_dispatch(self, record):
        """ConsumeQueue.multiDispatchLmqQueue, where it does not throw."""
        for (name, queue_id), offset in self.other_queues(record):
            if (name, queue_id, record.phy_offset) not in self.left_out:
                queue = self.queue(name, queue_id)
                consume_queue.put(queue, record.phy_offset, record.total_size, record.tags_code, offset)

    def other_queues(self, record):
        names = record.properties.get("INNER_MULTI_DISPATCH", "")
        offsets = record.properties.get("INNER_MULTI_QUEUE_OFFSET", "")
        if not names.strip() or not offsets.strip() or not self.is_multi_dispatched(record.topic):
            return
        names, offsets = java_split(names, ","), java_split(offsets, ",")
        if len(names) != len(offsets):
            return
        for name, offset in zip(names, offsets, strict=True):
            if "/" not in name:
                yield (name, 0 if self.enable_lmq and is_lmq(name) else record.queue_id), int(offset)

    def is_multi_dispatched(self, topic):
        """MultiDispatchUtils.isNeedHandleMultiDispatch, and the rules before it."""
        if self.release < (5, 1, 1):
            return self.release >= (4, 9, 3)
        if topic.startswith("%RETRY%"):
            return False
        if self.release < (5, 1, 2):
            return True
        is_system = topic.startswith("rmq_sys_") if self.release >= (5, 2, 0) else topic == "rmq_sys_wheel_timer"
        return not is_system and topic != SCHEDULE_TOPIC

    def queue(self, topic, queue_id):
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            sizes = (self.cq_file_size,)
            if topic in self.batch_topics:
                sizes = self.batch_cq_file_size, consume_queue.BATCH_UNIT_SIZE
            queue = self.queues[topic, queue_id] = consume_queue.Queue(*sizes)
        return queue

    # ---- what is on the disk -----------------------------------------------------------------------------------

    def data_files(self):
        """The bytes of all files but those of the index, by their paths under the root, after a clean stop."""
        found = {f"commitlog/{start:020d}": data.ljust(self.file_size, b"\0") for start, data in self.log_files()}
        for (topic, queue_id), queue in self.queues.items():
            directory = f"{'batch' * queue.is_batch}consumequeue/{topic}/{queue_id}"
            found |= {f"{directory}/{start:020d}": data for start, data in queue.files.items()}
        for (topic, queue_id), ext in self.exts.items():
            directory = f"consumequeue_ext/{topic}/{queue_id}"
            found |= {f"{directory}/{start:020d}": data for start, data in ext.files.items()}
        return {path: bytes(data) for path, data in found.items()}

    def log_files(self):
        return self.files.items() if self.last is not None else ()

    def index_files(self):
        """The bytes of the index files in their order, after a clean stop."""
        for file in self.index.files[-1:]:
            file.flush()
        return [bytes(file.data) for file in self.index.files]


def without_none(properties):
    return {name: value for name, value in properties.items() if value is not None}


def is_lmq(name):
    return name.startswith("%LMQ%")
