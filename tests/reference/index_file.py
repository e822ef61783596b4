"""Index files and directories of them, as bytearrays."""

import struct

from .java import INT_MAX, LONG_MAX, divide, java_hash, to_int, to_long

# beginTimestamp, endTimestamp, beginPhyOffset, endPhyOffset, hashSlotCount, indexCount
HEADER = struct.Struct(">qqqqii")
ITEM = struct.Struct(">iqii")  # keyHash, phyOffset, timeDiff, prevIndex
TRANSACTION_MASK = TRANSACTION_ROLLBACK = 0b1100


class CorruptIndex(Exception):
    """What rocketstore reports as CorruptFileError with the same `field`."""

    def __init__(self, field):
        super().__init__(field)
        self.field = field


def key_hash(key):
    """The hash an item stores: abs, and 0 where abs is still negative."""
    code = java_hash(key)
    return 0 if code == -(2**31) else abs(code)


class IndexFile:
    """One index file as a bytearray."""

    def __init__(
        self,
        hash_slot_num,
        index_num,
        end_phy_offset=0,
        end_timestamp=0,
        *,
        every_put_counts=False,
        data=None,
    ):
        self.hash_slot_num = hash_slot_num
        self.index_num = index_num
        self.every_put_counts = every_put_counts
        self.data = bytearray(40 + 4 * hash_slot_num + 20 * index_num) if data is None else bytearray(data)
        if end_phy_offset > 0:
            struct.pack_into(">qq", self.data, 16, end_phy_offset, end_phy_offset)
        if end_timestamp > 0:
            struct.pack_into(">qq", self.data, 0, end_timestamp, end_timestamp)

    @property
    def header(self):
        *fields, index_count = HEADER.unpack_from(self.data)
        return (*fields, max(index_count, 1))

    begin_timestamp = property(lambda self: self.header[0])
    end_timestamp = property(lambda self: self.header[1])
    end_phy_offset = property(lambda self: self.header[3])
    index_count = property(lambda self: self.header[5])

    @property
    def is_write_full(self):
        return self.index_count >= self.index_num

    def slot(self, number):
        return struct.unpack_from(">i", self.data, 40 + 4 * number)[0]

    def item_position(self, ordinal):
        return 40 + 4 * self.hash_slot_num + 20 * ordinal

    def item(self, ordinal):
        return ITEM.unpack_from(self.data, self.item_position(ordinal))

    def flush(self):
        """Write the header from memory. The count of a new file becomes 1."""
        HEADER.pack_into(self.data, 0, *self.header)

    def undo_torn_put(self):
        """What rocketstore does, and RocketMQ does not, to an item that is in its slot but was never counted."""
        count = self.index_count
        if count >= self.index_num:
            return
        code, _, _, prev = self.item(count)
        if code >= 0 and self.slot(code % self.hash_slot_num) == count:
            prev = prev if 0 < prev < count else 0
            struct.pack_into(">i", self.data, 40 + 4 * (code % self.hash_slot_num), prev)

    def put_key(self, key, phy_offset, store_timestamp):
        return self.put_hash(key_hash(key), phy_offset, store_timestamp)

    def put_hash(self, code, phy_offset, store_timestamp):
        begin_timestamp, _, begin_phy_offset, _, hash_slot_count, index_count = self.header
        if index_count >= self.index_num:
            return False
        slot = code % self.hash_slot_num
        prev = self.slot(slot)
        if prev <= 0 or prev > index_count:
            prev = 0
        diff = self.time_diff(begin_timestamp, store_timestamp)
        ITEM.pack_into(self.data, self.item_position(index_count), code, phy_offset, diff, prev)
        struct.pack_into(">i", self.data, 40 + 4 * slot, index_count)
        if index_count <= 1:
            begin_phy_offset, begin_timestamp = phy_offset, store_timestamp
        if prev == 0 or self.every_put_counts:
            hash_slot_count = to_int(hash_slot_count + 1)
        HEADER.pack_into(
            self.data,
            0,
            begin_timestamp,
            store_timestamp,
            begin_phy_offset,
            phy_offset,
            hash_slot_count,
            index_count + 1,
        )
        return True

    @staticmethod
    def time_diff(begin_timestamp, store_timestamp):
        if begin_timestamp <= 0:
            return 0
        seconds = divide(to_long(store_timestamp - begin_timestamp), 1000)
        return min(max(seconds, 0), INT_MAX)

    def is_time_matched(self, begin, end):
        first, last = self.begin_timestamp, self.end_timestamp
        return (begin < first and end > last) or first <= begin <= last or first <= end <= last

    def select_phy_offset(self, key, max_num, begin=0, end=LONG_MAX):
        return self.select_hash(key_hash(key), max_num, begin, end)

    def select_hash(self, code, max_num, begin=0, end=LONG_MAX):
        """Walk the chain, newest first. A link that no RocketMQ writes raises; Java would follow it."""
        found = []
        index_count = self.index_count
        current = self.slot(code % self.hash_slot_num)
        if current <= 0 or current > index_count or index_count <= 1:
            return found
        while len(found) < max_num:
            if current >= self.index_num:
                raise CorruptIndex("slot")
            item_hash, phy_offset, diff, prev = self.item(current)
            if diff < 0:
                break
            time = to_long(self.begin_timestamp + diff * 1000)
            if item_hash == code and begin <= time <= end:
                found.append(phy_offset)
            if prev > current:
                raise CorruptIndex("prevIndex")
            if prev <= 0 or prev == current or time < begin:
                break
            current = prev
        return found


class IndexService:
    """The files of an index directory, oldest first, as bytearrays; names play no part."""

    def __init__(self, hash_slot_num, index_num, *, every_put_counts=False, index_tags=True, files=()):
        self.geometry = hash_slot_num, index_num
        self.every_put_counts = every_put_counts
        self.index_tags = index_tags
        self.files = list(files)
        self.index_msg_timestamp = 0

    def last_file(self):
        """getAndCreateLastIndexFile: a full file is checkpointed when its successor is made."""
        if self.files and not self.files[-1].is_write_full:
            return self.files[-1]
        seed = 0, 0
        if self.files:
            full = self.files[-1]
            full.flush()
            self.index_msg_timestamp = full.end_timestamp
            seed = full.end_phy_offset, full.end_timestamp
        self.files.append(IndexFile(*self.geometry, *seed, every_put_counts=self.every_put_counts))
        return self.files[-1]

    def build_index(self, request):
        if request.phy_offset < self.last_file().end_phy_offset:
            return
        if request.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            return
        for key in self.keys_of(request):
            while not self.last_file().put_key(key, request.phy_offset, request.store_timestamp):
                pass

    def keys_of(self, request):
        prefix = request.topic + "#"
        if request.uniq_key is not None:
            yield prefix + request.uniq_key
        for key in (request.keys or "").split(" "):
            if key:
                yield prefix + key
        if request.tags and self.index_tags:
            yield prefix + "T#" + request.tags

    def query_offset(self, topic, key, max_num, begin=0, end=LONG_MAX, index_type=None):
        """Return (phy_offsets, index_last_update_timestamp, index_last_update_phy_offset)."""
        index_key = f"{topic}#T#{key}" if index_type == "T" else f"{topic}#{key}"
        max_num = min(max_num, 64)
        found = []
        for file in reversed(self.files):
            if file.is_time_matched(begin, end):
                found += file.select_phy_offset(index_key, max_num - len(found), begin, end)
            if file.begin_timestamp < begin or len(found) >= max_num:
                break
        newest = self.files[-1] if self.files else None
        return found, newest.end_timestamp if newest else 0, newest.end_phy_offset if newest else 0

    def delete_expired_file(self, min_phy_offset):
        while len(self.files) > 1 and self.files[0].end_phy_offset < min_phy_offset:
            del self.files[0]

    def load_after_unclean_exit(self, index_msg_timestamp):
        """Return the numbers of the files that a broker deletes, and drop them."""
        rejected = [n for n, file in enumerate(self.files) if file.end_timestamp > index_msg_timestamp]
        self.files = [file for n, file in enumerate(self.files) if n not in rejected]
        return rejected
