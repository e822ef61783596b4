"""What a broker's next start and clean stop make of a store: DefaultMessageStore.load, its recovery, and shutdown.

`Broker(root, config, release).restart()` does it to a directory. config: properties of MessageStoreConfig by name.
Of 5.3.3, 5.5.0 and 5.5.1, without a controller, RocksDB and compaction.
"""

import struct
from pathlib import Path

from support.releases import numbers_of

from . import consume_queue as cq
from .commit_log import read_files, write_file
from .index_file import TRANSACTION_MASK, TRANSACTION_ROLLBACK, IndexFile, IndexService
from .java import java_split, parse_number
from .record import COMMIT, ROLLBACK, SCHEDULE_TOPIC, parse_record

CHECKPOINT = struct.Struct(">6q")
PHYSIC, LOGICS, INDEX, MASTER, CONFIRM, LOGICS_OFFSET = range(6)
MARGIN = 3000
DEFAULTS = {
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "mapperFileSizeBatchConsumeQueue": 13_800_000,
    "mappedFileSizeConsumeQueueExt": 48 << 20,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
    "enableConsumeQueueExt": False,
    "enableMultiDispatch": False,
    "enableLmq": False,
    "forceVerifyPropCRC": False,
    "checkCRCOnRecover": True,
    "messageIndexEnable": True,
    "messageIndexSafe": False,
    "commitLogRecoverMaxNum": 10,
    "flushDiskType": "ASYNC_FLUSH",
}


class Ext:
    """The extension files of a queue, ConsumeQueueExt."""

    def __init__(self, directory, file_size):
        self.file_size = file_size
        self.files = {start: bytearray(data) for start, data in read_files(directory).items()}
        self.end = 0
        if self.files:
            self.recover()

    def recover(self):
        """Where the units of the last file end; a file ends at a size that is not positive."""
        start = max(self.files)
        data, position = self.files[start], 0
        while position + 2 <= len(data) and (size := struct.unpack_from(">h", data, position)[0]) > 0:
            position += size
        self.cut(start + position)

    def cut(self, end):
        self.end = end
        self.files = {start: data for start, data in self.files.items() if start <= end}

    def truncate_by_max_address(self, address):
        unit = cq.read_ext(self.files, address) if cq.is_ext_addr(address) else None
        if unit is not None:
            self.cut(address - cq.LONG_MIN + unit.size)

    def put(self, tags_code, store_timestamp):
        data = cq.pack_ext(tags_code, store_timestamp)
        start = self.end // self.file_size * self.file_size
        if len(data) > start + self.file_size - self.end - 4:
            struct.pack_into(">h", self.files[start], self.end - start, cq.EXT_END)
            start = self.end = start + self.file_size
        file = self.files.setdefault(start, bytearray(self.file_size))
        file[self.end - start : self.end - start + len(data)] = data
        self.end += len(data)
        return cq.ext_addr(self.end - len(data))


class Broker:
    def __init__(self, root, config, release, batch_topics=()):
        self.root = Path(root)
        self.config = DEFAULTS | config
        self.release = numbers_of(release)
        self.batch_topics = batch_topics
        self.queues = {}  # (is_batch, topic, queue id) -> Queue
        self.exts = {}

    def restart(self):
        """Recover the store. Return whether it was loaded. A store that is not loaded does not change."""
        self.last_exit_ok = not (self.root / "abort").exists()
        if not (self.load_files("commitlog", "mappedFileSizeCommitLog") and self.load_queues()):
            return False
        self.log = read_files(self.root / "commitlog")
        checkpoint = self.root / "checkpoint"
        self.checkpoint = list(CHECKPOINT.unpack_from(checkpoint.read_bytes())) if checkpoint.exists() else [0] * 6
        self.dispatched = None
        self.load_index()
        try:
            self.recover()
        except ValueError:  # whatever a dispatcher throws ends the load
            return False
        if self.fails_at_the_end():
            return False
        self.save()
        return True

    def fails_at_the_end(self):
        """ConsumeQueue.correctMinOffset of 5.3.3 reads a unit before the beginning of a last file that has none."""
        queues = [queue for queue in self.queues.values() if queue.files and not queue.is_batch]
        return self.release < (5, 4, 0) and any(
            queue.end == queue.starts[-1] and queue.min_logic_offset < queue.end for queue in queues
        )

    # ---- load ----------------------------------------------------------------------------------------------

    def load_files(self, name, size_name):
        """Whether the files of a directory have the right length; an empty last one is deleted."""
        paths = sorted((self.root / name).iterdir()) if (self.root / name).is_dir() else []
        for path in paths:
            if path.is_file() and path == paths[-1] and path.stat().st_size == 0:
                path.unlink()
            elif path.is_file() and path.stat().st_size != self.config[size_name]:
                return False
        return True

    def load_queues(self):
        for is_batch, name, size, unit in (
            (False, "consumequeue", "mappedFileSizeConsumeQueue", cq.UNIT_SIZE),
            (True, "batchconsumequeue", "mapperFileSizeBatchConsumeQueue", cq.BATCH_UNIT_SIZE),
        ):
            for directory in sorted((self.root / name).glob("*/*")):
                topic, queue_id = directory.parent.name, int(directory.name)
                if not self.load_files(directory.relative_to(self.root), size):
                    return False
                queue = cq.Queue(self.config[size], unit, read_files(directory))
                queue.files = {start: bytearray(data) for start, data in queue.files.items()}
                if queue.files:
                    cq.recover(queue)
                self.queues[is_batch, topic, queue_id] = queue
                if not is_batch and self.config["enableConsumeQueueExt"]:
                    self.load_ext(topic, queue_id, queue)
        return True

    def load_ext(self, topic, queue_id, queue):
        ext = Ext(self.root / "consumequeue_ext" / topic / str(queue_id), self.config["mappedFileSizeConsumeQueueExt"])
        addresses = [unit.tags_code for start in queue.starts[-3:] for unit in queue.units(start)]
        addresses = [address for address in addresses if cq.is_ext_addr(address)]
        if addresses:
            ext.truncate_by_max_address(addresses[-1])
        self.exts[topic, queue_id] = ext

    def load_index(self):
        geometry = self.config["maxHashSlotNum"], self.config["maxIndexNum"]
        self.index = IndexService(*geometry, index_tags=self.release >= (5, 4, 0))
        self.index.index_msg_timestamp = self.checkpoint[INDEX]
        self.index_names = []
        for path in sorted(path for path in self.root.glob("index/*") if path.name.isdecimal()):
            file = IndexFile(*geometry, data=path.read_bytes())
            if self.last_exit_ok or file.end_timestamp <= self.checkpoint[INDEX]:
                self.index.files.append(file)
                self.index_names.append(path.name)

    # ---- recover -------------------------------------------------------------------------------------------

    def recover(self):
        if not self.log:
            self.queues = {}
            for ext in self.exts.values():
                ext.files = {}
            return
        self.max_phy_offset = max([queue.max_physic_offset for queue in self.queues.values()], default=-1)
        end = self.scan(self.first_file())
        limit = self.max_phy_offset
        if self.release >= (5, 4, 0):  # which looks again, after dispatching
            limit = max([queue.max_physic_offset for queue in self.queues.values()], default=-1)
        if limit >= end:
            for queue in self.queues.values():
                truncate(queue, end)
        self.log = {start: data for start, data in self.log.items() if start <= end}

    def parse(self, data, position=0):
        return parse_record(
            data,
            position,
            check_crc=self.config["checkCRCOnRecover"],
            force_verify_prop_crc=self.config["forceVerifyPropCRC"],
            negative_blank=self.release < (5, 5, 1),
        )

    def first_file(self):
        """The number of the file that recovery begins with."""
        starts, last = sorted(self.log), len(self.log) - 1
        if self.release < (5, 4, 0):
            if self.last_exit_ok:
                return next((i for i in range(last, 0, -1) if starts[i] <= self.max_phy_offset), 0)
            return next((i for i in range(last, -1, -1) if self.is_before_checkpoint(self.log[starts[i]])), 0)
        tries = self.config["commitLogRecoverMaxNum"]
        tries = tries if tries > 0 else 10
        for i in range(last, -1, -1):
            if (self.last_exit_ok and i == 0) or self.is_matched(self.log[starts[i]]) or last - i + 1 == tries:
                return i
        return 0

    def is_before_checkpoint(self, data):
        """CommitLog.isMappedFileMatchedRecover of 5.3.3, which looks at the magic only."""
        magic, sys_flag = struct.unpack_from(">I", data, 4)[0], struct.unpack_from(">i", data, 36)[0]
        store_timestamp = struct.unpack_from(">q", data, 68 if sys_flag & 0x10 else 56)[0]
        times = [self.checkpoint[PHYSIC], self.checkpoint[LOGICS]]
        minimum = max(min(times) - MARGIN, 0)
        if self.config["messageIndexEnable"] and self.config["messageIndexSafe"]:
            minimum = min(minimum, self.checkpoint[INDEX])
        return magic in (0xDAA320A7, 0xDAA320AB) and store_timestamp != 0 and store_timestamp <= minimum

    def is_matched(self, data):
        """The same of 5.5.0, which asks queues and index."""
        first = self.parse(data)
        if first.record is None or first.record.store_timestamp == 0:
            return False
        index_safe = self.config["messageIndexEnable"] and self.config["messageIndexSafe"]
        if index_safe and first.record.store_timestamp > self.checkpoint[INDEX]:
            return False
        if not self.last_exit_ok and self.checkpoint[LOGICS_OFFSET] <= 0:
            return first.record.store_timestamp <= self.checkpoint[LOGICS]
        dispatch_from = self.max_phy_offset if self.last_exit_ok else self.checkpoint[LOGICS_OFFSET]
        return first.record.phy_offset <= dispatch_from

    def scan(self, number):
        """Walk to the end of the log, dispatch the records that need it, and return the end."""
        starts = sorted(self.log)
        position, end = 0, starts[number]
        last_valid = starts[number] if not self.last_exit_ok else self.confirm_offset()
        while True:
            parsed = self.parse(self.log[starts[number]], position)
            end = starts[number] + position
            if not parsed.success:
                break
            if parsed.size == 0:
                if number + 1 == len(starts):
                    break
                number, position = number + 1, 0
                continue
            last_valid = end
            if not self.last_exit_ok or parsed.record.phy_offset > self.max_phy_offset:
                self.dispatch(parsed.record)
            position += parsed.size
        self.checkpoint[CONFIRM] = last_valid
        return end

    def confirm_offset(self):
        """CommitLog.getConfirmOffset before recovery: files count as written to their end."""
        if self.config["flushDiskType"] == "SYNC_FLUSH":
            return 0
        return max(self.log) + self.config["mappedFileSizeCommitLog"]

    # ---- dispatch ------------------------------------------------------------------------------------------

    def dispatch(self, record):
        if record.sys_flag & ROLLBACK in (0, COMMIT):
            self.put_unit(record)
            self.dispatched = record
        if self.config["messageIndexEnable"] and record.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
            self.index.build_index(record)
        elif self.config["messageIndexEnable"]:
            self.index.last_file()

    def queue(self, topic, queue_id):
        is_batch = topic in self.batch_topics
        name = "mapperFileSizeBatchConsumeQueue" if is_batch else "mappedFileSizeConsumeQueue"
        unit = cq.BATCH_UNIT_SIZE if is_batch else cq.UNIT_SIZE
        return self.queues.setdefault((is_batch, topic, queue_id), cq.Queue(self.config[name], unit))

    def put_unit(self, record):
        queue = self.queue(record.topic, record.queue_id)
        if queue.is_batch:
            put_batch(queue, record)
            return
        code = record.tags_code
        if self.config["enableConsumeQueueExt"]:
            ext = self.exts.get((record.topic, record.queue_id)) or self.new_ext(record.topic, record.queue_id)
            code = ext.put(record.tags_code, record.store_timestamp)
        if queue.files and record.phy_offset + record.total_size > queue.max_physic_offset:
            start = queue.end // queue.file_size * queue.file_size  # made for a unit that is then dropped, too
            queue.files.setdefault(start, bytearray(queue.file_size))
        cq.put(queue, record.phy_offset, record.total_size, code, record.queue_offset)
        if self.config["enableMultiDispatch"]:
            self.put_light_units(record)

    def new_ext(self, topic, queue_id):
        """Of a queue that was not there: files of before are not loaded, but written over."""
        directory = self.root / "consumequeue_ext" / topic / str(queue_id)
        ext = self.exts[topic, queue_id] = Ext(directory, self.config["mappedFileSizeConsumeQueueExt"])
        ext.end = 0
        return ext

    def put_light_units(self, record):
        """ConsumeQueue.multiDispatchLmqQueue."""
        names = record.properties.get("INNER_MULTI_DISPATCH", "")
        offsets = record.properties.get("INNER_MULTI_QUEUE_OFFSET", "")
        is_system = record.topic.startswith(("%RETRY%", "rmq_sys_")) or record.topic == SCHEDULE_TOPIC
        if is_system or not names.strip() or not offsets.strip():
            return
        names, offsets = java_split(names, ","), java_split(offsets, ",")
        if len(names) != len(offsets):
            return
        for name, offset in zip(names, offsets, strict=True):
            if "/" not in name:
                queue_id = 0 if self.config["enableLmq"] and name.startswith("%LMQ%") else record.queue_id
                place = record.phy_offset, record.total_size, record.tags_code
                cq.put(self.queue(name, queue_id), *place, parse_number(offset, 64))

    # ---- shutdown ------------------------------------------------------------------------------------------

    def save(self):
        """Write the files of a clean stop. Queue files that were removed are deleted."""
        self.save_files(self.root / "commitlog", self.log)
        for name, is_batch in (("consumequeue", False), ("batchconsumequeue", True)):
            found = {(path.parent.name, int(path.name)) for path in (self.root / name).glob("*/*")}
            kept = {(topic, queue_id) for batch, topic, queue_id in self.queues if batch == is_batch}
            for topic, queue_id in found | kept:
                queue = self.queues.get((is_batch, topic, queue_id))
                self.save_files(self.root / name / topic / str(queue_id), queue.files if queue else {})
        for (topic, queue_id), ext in self.exts.items():
            self.save_files(self.root / "consumequeue_ext" / topic / str(queue_id), ext.files)
        self.save_index()
        if self.dispatched is not None:  # the flush service's first round, a second after the start
            self.checkpoint[LOGICS] = self.dispatched.store_timestamp
            if self.release >= (5, 5, 0):
                self.checkpoint[LOGICS_OFFSET] = self.dispatched.phy_offset
        self.checkpoint[INDEX] = self.index.index_msg_timestamp
        (self.root / "checkpoint").write_bytes(CHECKPOINT.pack(*self.checkpoint).ljust(4096, b"\0"))
        (self.root / "lock").write_bytes(b"lock")
        (self.root / "abort").unlink(missing_ok=True)

    @staticmethod
    def save_files(directory, files):
        for start in read_files(directory).keys() - files.keys():
            (directory / f"{start:020d}").unlink()
        for start, data in files.items():
            write_file(directory, start, data)

    def save_index(self):
        """Files that were made have no name that could be foretold: they get the last one's and more."""
        directory = self.root / "index"
        directory.mkdir(exist_ok=True)
        for path in directory.iterdir():
            if path.name.isdecimal() and path.name not in self.index_names:
                path.unlink()
        last = int(self.index_names[-1]) if self.index_names else 20_240_101_000_000_000
        names = self.index_names + [str(last + i + 1) for i in range(len(self.index.files) - len(self.index_names))]
        for name, file in zip(names, self.index.files, strict=True):
            file.flush()
            (directory / name).write_bytes(file.data)


def truncate(queue, phy_offset):
    """ConsumeQueue.truncateDirtyLogicFiles, BatchConsumeQueue's: unit 0 of a file counts, whatever it is."""
    queue.max_physic_offset = phy_offset - queue.is_batch
    while queue.files:
        start = queue.starts[-1]
        queue.end = start
        for position in range(0, queue.file_size - queue.unit_size + 1, queue.unit_size):
            unit = queue.unit(start + position)
            if position == 0 and unit.offset >= phy_offset:
                del queue.files[start]
                break
            if position > 0 and (not unit.is_valid or unit.offset >= phy_offset):
                return
            queue.end = start + position + queue.unit_size
            queue.max_physic_offset = unit.offset if queue.is_batch else unit.offset + unit.size
        else:
            return
    queue.end = 0


def put_batch(queue, record):
    """BatchConsumeQueue.putBatchMessagePositionInfo."""
    if record.msg_base_offset < 0 or record.batch_size < 0 or record.phy_offset <= queue.max_physic_offset:
        return
    place = record.phy_offset, record.total_size, record.tags_code, record.store_timestamp
    cq.append(queue, cq.pack_batch_unit(*place, record.msg_base_offset, record.batch_size))
    queue.max_physic_offset = record.phy_offset
