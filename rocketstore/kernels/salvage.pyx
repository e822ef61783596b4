"""Records of damaged commit log files, found by their own physical offsets, and copied to other places."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memchr, memcmp, memcpy

from rocketstore.kernels.buffer cimport Buffer
from rocketstore.kernels.csrc cimport (
    rs_load_be32,
    rs_load_be64,
    rs_store_be64,
    rs_utf8_valid,
)
from rocketstore.kernels.record cimport (
    BAD_ENTRY,
    BAD_HALF,
    BAD_PHY_OFFSET,
    BAD_PROPERTY_CRC,
    BAD_SIZE,
    CHECK_BODY_CRC,
    CHECK_PROPERTY_CRC,
    CRC_PROPERTY_SIZE,
    ENTRY_BLANK_MAGIC,
    ENTRY_HEAD,
    ENTRY_SIZE,
    FIND_DISPATCH,
    MAGIC,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD,
    PHY_OFFSET,
    QUEUE_OFFSET,
    RECORD_BLANK,
    RECORD_END,
    RECORD_OK,
    DelayTable,
    PropertyReader,
    Record,
    Slice,
    fill_delays,
    head_size,
    is_entry_head,
    next_magic,
    parse_record,
)
from rocketstore.kernels.record_columns cimport Growing, array_of
from rocketstore.kernels.record_encoder cimport write_crc

import numpy as np

cdef enum:
    STEP = 32 << 20  # bytes between two checks for signals
    LEAST_BLANK = 8
    PREPARED_OFFSET = 4  # of preparedTransactionOffset, behind reconsumeTimes
    MAX_NAME = 255  # bytes of the name of a directory
    NAME_TOO_BAD = 64  # statuses of this module, after those of record.pxd
    RECORD_INSIDE = 65
    RECORD_UNVERIFIED = 66

cdef const char *CRC_PROPERTY = "__CRC32#\1"
cdef int64_t NOWHERE = -INT64_MAX  # no file can begin at this offset

# A part of a file. `status` OK: `count` records, one after the other, whose own offsets are their positions plus
# `base`. UNVERIFIED: the same without a CRC property. BLANK: the blank at the end of a file; `count` is the size in its
# head. Otherwise: why the part is lost. In DLedger's log the head of an entry belongs to its record.
cdef struct Piece:
    int64_t pos
    int64_t size
    int64_t base
    int64_t count
    int64_t status

PIECE = np.dtype([(name, np.int64) for name in ("pos", "size", "base", "count", "status")])
BAD_NAME, BAD_INSIDE, UNVERIFIED = NAME_TOO_BAD, RECORD_INSIDE, RECORD_UNVERIFIED


cdef class PieceFinder:
    """Divides one file into pieces. Call ``scan`` for its parts in order, then ``take``.

    Parameters: base: the offset in the name of the file, None if the name has none. force_verify_prop_crc: a record
    must have a CRC property. appends_prop_crc: the broker writes CRC properties. may_end_in_zeros: accept a
    last record whose properties end without a separator. message_delay_level: of the broker.

    A record is accepted if RocketMQ can parse and dispatch it, it was written to its end, and its CRC and CRC property
    are right. If no CRC property of the whole file is right, these properties came with the messages and are ignored.
    Else a record without a CRC property is unverified: its properties may have been overwritten. It counts as damaged
    if it is alone and ``appends_prop_crc`` is set: a broker that was started without the option writes many in a row.
    If a record is missing at its place, the next one is searched for. A record at its own physical offset is recognized
    even if a CRC is wrong, so that only this record is lost. Its offset must fit the name or the previous record.
    In DLedger's log the head of an entry is part of the piece of its record. Without a sound head, the record is found
    by its own offset, and the bytes of the head are lost.
    """

    cdef Growing pieces
    cdef Piece piece
    cdef PropertyReader reader
    cdef DelayTable delays
    cdef bint force_prop_crc
    cdef bint appends_prop_crc
    cdef bint has_prop_crc  # whether a right CRC property was found
    cdef bint may_end_in_zeros
    cdef int64_t named
    cdef int64_t base  # of the last record
    cdef int64_t expected  # where the next record should be
    cdef int64_t lost  # where bytes that are no record began, or -1
    cdef int64_t extent  # bytes of the record or blank examined last; 0 if unknown
    cdef int64_t after  # where to search next if the extent is unknown
    cdef int64_t work  # bytes for which a CRC was computed in vain
    cdef int lost_status

    def __cinit__(self, base, *, bint force_verify_prop_crc, bint may_end_in_zeros, str message_delay_level,
                  bint appends_prop_crc=False):
        fill_delays(&self.delays, message_delay_level)
        self.force_prop_crc, self.appends_prop_crc = force_verify_prop_crc, appends_prop_crc
        self.may_end_in_zeros = may_end_in_zeros
        self.pieces = Growing()
        self.named = self.base = NOWHERE if base is None else base
        self.lost = -1

    def scan(self, Buffer buffer, int64_t pos, int64_t end):
        """Search for records that begin from ``pos`` up to ``end``. Bytes before ``pos`` that were skipped are lost.

        Returns: where to continue; it may be behind ``end``. Raises: StoreClosedError; CorruptFileError, MemoryError.
        """
        cdef bint room = True
        if pos < self.expected or pos < 0 or end > buffer.size:
            raise ValueError(f"pos={pos}, end={end}: of {buffer.size} bytes, those up to {self.expected} were seen")
        if pos > self.expected and self.lost < 0:
            self.lost, self.lost_status = self.expected, RECORD_END
        while room and pos < end:
            PyErr_CheckSignals()
            buffer.check_file_size()
            buffer.enter()
            try:
                with nogil:
                    room = self.scan_step(buffer.data, buffer.size, &pos, min(pos + STEP, end))
            finally:
                buffer.leave()
        if not room:
            raise MemoryError
        self.expected = pos
        return pos

    def take(self, int64_t end):
        """Return the pieces of the file up to ``end``, an array of PIECE."""
        cdef bint room = True
        if self.lost >= 0 and self.lost < end:
            room = self.add(self.lost, end - self.lost, 0, self.lost_status)
        if not room or not self.add_last():
            raise MemoryError
        pieces, self.pieces = self.pieces, Growing()
        found = array_of(pieces, PIECE)
        is_unverified = found["status"] == RECORD_UNVERIFIED
        if self.has_prop_crc and self.appends_prop_crc:
            found["status"][is_unverified & (found["count"] == 1)] = BAD_PROPERTY_CRC
        if not self.has_prop_crc:
            found["status"][is_unverified] = RECORD_OK
        if not (self.has_prop_crc or self.force_prop_crc):
            found["status"][found["status"] == BAD_PROPERTY_CRC] = RECORD_OK
        return found

    cdef bint scan_step(self, const uint8_t *data, int64_t size, int64_t *pos, int64_t limit) noexcept nogil:
        cdef Record record
        cdef int status
        while pos[0] < limit:
            if self.lost >= 0:
                if not self.find(data, size, pos, limit, &record):
                    continue
                if not self.add(self.lost, pos[0] - self.lost, 0, self.lost_status):
                    return False
                self.lost = -1
            status = self.look(data, size, pos[0], False, &record)
            if self.extent == 0:
                self.lost, self.lost_status = pos[0], status
                pos[0] = self.after
                continue
            if status in (RECORD_OK, BAD_PROPERTY_CRC):
                self.base = record.phy_offset - (record.data - data)
            if status == RECORD_OK:
                if has_crc_property(&record):
                    self.has_prop_crc = True
                else:
                    status = RECORD_UNVERIFIED
            if not self.add(pos[0], self.extent, 1 if status != RECORD_BLANK else record.size, status):
                return False
            pos[0] += self.extent
        return True

    cdef bint find(self, const uint8_t *data, int64_t size, int64_t *pos, int64_t limit,
                   Record *record) noexcept nogil:
        """Go to the first position up to `limit` where a record, entry or blank begins. Return False without one."""
        cdef int64_t stop = min(limit, size - 7), place, blank
        while pos[0] < stop:
            place = next_magic(data, pos[0], stop)
            blank = self.find_blank(data, size, pos[0], place, record)
            if blank >= 0:
                pos[0] = blank
                return True
            pos[0] = place
            if place < stop:
                self.look(data, size, place, True, record)
                if self.extent:
                    if place - ENTRY_HEAD >= self.lost and has_entry_head(data + place - ENTRY_HEAD, record):
                        pos[0] = place - ENTRY_HEAD
                    return True
                pos[0] = self.after
        pos[0] = max(pos[0], limit)
        return False

    cdef int64_t find_blank(self, const uint8_t *data, int64_t size, int64_t pos, int64_t stop,
                            Record *record) noexcept nogil:
        """The first blank in a part of the file whose size is exactly the rest of the file; -1 without one."""
        cdef int64_t plain = self.find_blank_by(0xCB, MAGIC, data, size, pos, stop, record)
        cdef int64_t of_entries = self.find_blank_by(0xFF, 0, data, size, pos, stop if plain < 0 else plain, record)
        return plain if of_entries < 0 else of_entries

    cdef int64_t find_blank_by(self, int first, int64_t magic, const uint8_t *data, int64_t size, int64_t pos,
                               int64_t stop, Record *record) noexcept nogil:
        """As `find_blank`, by the first byte of the blank's magic and the position of the magic in the blank."""
        cdef const uint8_t *at = data + pos + magic
        cdef const uint8_t *end = data + stop + magic
        while at < end:
            at = <const uint8_t *>memchr(at, first, <size_t>(end - at))
            if at == NULL:
                break
            pos = at - data - magic
            if self.look(data, size, pos, True, record) == RECORD_BLANK:
                return pos
            at += 1
        return -1

    cdef int look(self, const uint8_t *data, int64_t size, int64_t pos, bint is_search, Record *record) noexcept nogil:
        """As `look_at`, also for an entry or a blank of DLedger's log that begins at `pos`."""
        cdef int64_t head = head_size(data + pos, size - pos, ENTRY_HEAD)
        cdef int status
        if size - pos >= LEAST_BLANK and rs_load_be32(data + pos) == ENTRY_BLANK_MAGIC:
            record.data, record.size = data + pos, <int32_t>rs_load_be32(data + pos + ENTRY_SIZE)
            self.extent, self.after = (size - pos if record.size == size - pos else 0), pos + 1
            return RECORD_BLANK if self.extent else BAD_SIZE
        status = self.look_at(data, size, pos + head, is_search, record)
        if head and (self.extent == 0 or status == RECORD_BLANK or not has_entry_head(data + pos, record)):
            self.extent, self.after = 0, pos + 1
            return BAD_ENTRY if status in (RECORD_OK, RECORD_BLANK) else status
        self.extent += head if self.extent else 0
        return status

    cdef int look_at(self, const uint8_t *data, int64_t size, int64_t pos, bint is_search,
                     Record *record) noexcept nogil:
        """Examine the bytes at `pos`. Set the extent: of a record, a blank, a bad record at its own offset; else 0."""
        cdef int status = parse_record(data + pos, size - pos, 0, NULL, NULL, record)
        cdef int64_t base, behind_body
        cdef bint has_body
        self.extent, self.after = 0, pos + 1
        if status == RECORD_BLANK:
            self.extent = self.blank_size(data, size, pos, record.size, is_search)
            return RECORD_BLANK if self.extent else BAD_SIZE
        if status != RECORD_OK:
            return status
        if not has_possible_offset(record):
            return BAD_PHY_OFFSET
        base = record.phy_offset - pos
        # Hostile bytes: at each of many positions, a record to the end of the file may seem to begin.
        if base != self.named and self.work > 4 * size:
            return BAD_PHY_OFFSET
        status = self.check(record, data + size)
        if status != RECORD_OK and base != self.named and base != self.base:
            self.work += record.size
            return status
        # A record inside a body was sent there, if the CRC is right or the outer record is at its own offset.
        has_body = status == RECORD_OK or base == self.named
        behind_body = record.body.data + record.body.size - data
        if (not (has_body and is_followed(record, data + size))
                and self.has_another(data, size, behind_body - MAGIC if has_body else pos + 1, record)):
            self.work += record.size
            self.extent, self.after = 0, behind_body if has_body else pos + 1
            return status if status != RECORD_OK else RECORD_INSIDE
        self.extent = record.size
        return status

    cdef bint has_another(self, const uint8_t *data, int64_t size, int64_t pos, const Record *record) noexcept nogil:
        """Whether another record or the blank begins inside this one. This record then lacks bytes.

        Only a record right behind this one proves its topic and properties. But no writer puts a magic into them.
        """
        cdef Record other
        cdef int64_t begin = record.data - data, behind_body = record.body.data + record.body.size - data
        cdef int64_t end = min(begin + record.size, size - 7)
        while pos < end:
            if self.work > 4 * size:
                return record.phy_offset - begin != self.named
            pos = next_magic(data, pos, end)
            if pos == end:
                break
            if behind_body <= pos + MAGIC < begin + record.size:
                return True
            if (parse_record(data + pos, size - pos, 0, NULL, NULL, &other) == RECORD_OK
                    and has_possible_offset(&other) and (pos >= behind_body or other.phy_offset - pos == self.named)):
                self.work += other.size
                if self.check(&other, data + size) == RECORD_OK:
                    return True
            pos += 1
        return self.find_blank(data, size, behind_body, end, &other) >= 0

    cdef int64_t blank_size(self, const uint8_t *data, int64_t size, int64_t pos, int64_t own_size,
                            bint is_search) noexcept nogil:
        """The bytes of a blank: the rest of the file, or up to a record of the same log; 0 without a blank."""
        cdef Record following
        cdef int64_t left = size - pos
        if own_size == left and left >= LEAST_BLANK:
            return left
        if is_search or own_size < LEAST_BLANK:
            return 0
        if own_size > left:
            return left
        if parse_record(data + pos + own_size, left - own_size, 0, NULL, NULL, &following) != RECORD_OK:
            return 0
        return own_size if following.phy_offset - (pos + own_size) == self.base else 0

    cdef int check(self, Record *record, const uint8_t *end) noexcept nogil:
        cdef int status = parse_record(record.data, record.size, FIND_DISPATCH | CHECK_BODY_CRC, &self.reader,
                                       &self.delays, record)
        if status != RECORD_OK:
            return status
        if not is_name(&record.topic):
            return NAME_TOO_BAD
        # Properties end with a separator or with a character of a value, which is rarely a zero.
        if (record.properties.size > 0 and record.data[record.size - 1] == 0
                and not self.may_end_in_zeros and not is_followed(record, end)):
            return BAD_HALF
        if self.force_prop_crc or has_crc_property(record):
            return parse_record(record.data, record.size, CHECK_PROPERTY_CRC, &self.reader, &self.delays, record)
        return RECORD_OK

    cdef bint add(self, int64_t pos, int64_t size, int64_t count, int64_t status) noexcept nogil:
        cdef Piece *piece = &self.piece
        if (status in (RECORD_OK, RECORD_UNVERIFIED, BAD_PROPERTY_CRC) and piece.status == status and piece.base == self.base
                and piece.pos + piece.size == pos):
            piece.size += size
            piece.count += count
            return True
        if not self.add_last():
            return False
        piece.pos, piece.size, piece.base, piece.count, piece.status = pos, size, self.base, count, status
        return True

    cdef bint add_last(self) noexcept nogil:
        cdef bint room = self.piece.size == 0 or self.pieces.add(&self.piece, sizeof(Piece))
        self.piece.size = 0
        return room


cdef inline bint has_possible_offset(const Record *record) noexcept nogil:
    return 0 <= record.phy_offset <= INT64_MAX - record.size


cdef bint is_followed(const Record *record, const uint8_t *end) noexcept nogil:
    """Whether the next record of the log, or the blank of the rest of the file, begins where a record ends.

    In DLedger's log the head of an entry is before the next record.
    """
    cdef const uint8_t *following = record.data + record.size
    cdef int64_t left = end - following, head = head_size(following, left, ENTRY_HEAD)
    if left >= LEAST_BLANK and rs_load_be32(following) == ENTRY_BLANK_MAGIC:
        return rs_load_be32(following + ENTRY_SIZE) == left
    following += head
    left -= head
    if left >= LEAST_BLANK and rs_load_be32(following + MAGIC) == MAGIC_BLANK:
        return rs_load_be32(following) == left
    return (left >= MIN_RECORD and rs_load_be32(following + MAGIC) in (MAGIC_V1, MAGIC_V2)
            and <int64_t>rs_load_be64(following + PHY_OFFSET) == record.phy_offset + record.size + head)


cdef inline bint has_entry_head(const uint8_t *head, const Record *record) noexcept nogil:
    """Whether the 48 bytes at `head` are the head of the entry of this record."""
    return is_entry_head(head, record.phy_offset - ENTRY_HEAD, record.size)


cdef inline bint has_crc_property(const Record *record) noexcept nogil:
    """Whether the record ends with a CRC property that is right for all bytes before it."""
    cdef const uint8_t *at = record.properties.data + record.properties.size - CRC_PROPERTY_SIZE
    return record.properties.size >= CRC_PROPERTY_SIZE and memcmp(at, CRC_PROPERTY, 9) == 0


cdef bint is_name(const Slice *topic) noexcept nogil:
    """Whether a topic can be the name of a directory. Each malformed byte becomes three bytes."""
    cdef size_t size = <size_t>topic.size
    if size == 0 or size > MAX_NAME or memchr(topic.data, 0, size) != NULL or memchr(topic.data, c"/", size) != NULL:
        return False
    if size <= 2 and topic.data[0] == c"." and topic.data[size - 1] == c".":
        return False
    return size <= MAX_NAME // 3 or rs_utf8_valid(topic.data, size)


def copy_records(Buffer source, int64_t pos, int64_t stop, int64_t phy_offset, uint8_t[::1] out, int64_t room,
                 const int64_t[::1] positions, const int64_t[::1] queue_offsets,
                 const int64_t[::1] prepared_offsets, Py_ssize_t row, int64_t[:, ::1] moves):
    """Copy records that follow each other to other offsets, without heads of entries, and correct their CRC properties.

    Parameters: pos, stop: the positions of the records in the source. phy_offset: the new offset of the first record.
    room: bytes left in the target file. positions, queue_offsets, prepared_offsets: int64[n]: the positions in the
    source of records, in order, their new queue offsets, and their new prepared transaction offsets; -1 keeps the old
    offset. row: the first row that is not done. moves: int64[m, 2], filled: the position in the source of each copied
    record, and its new offset minus this position.
    Returns: (count, pos, size, last, row): how many records were copied; the position where the copy stopped, since
    ``out``, ``moves`` or the file is full; the bytes in ``out``, or if the copy stopped where it began, the bytes that
    the next record needs; the position of the last record in ``out``; the next row.
    Raises: ValueError if the source no longer has records there.
    """
    cdef Record record
    cdef int status = RECORD_OK
    cdef int64_t size = 0, last = 0, count = 0, n_rows = positions.shape[0], most = moves.shape[0], begin = pos, head
    cdef int64_t limit = min(<int64_t>out.shape[0], room - LEAST_BLANK)
    check_rows(source, pos, stop, positions, queue_offsets, prepared_offsets, moves)
    source.check_file_size()
    source.enter()
    try:
        with nogil:
            while pos < stop and count < most:
                head = head_size(source.data + pos, stop - pos, ENTRY_HEAD)
                if head == stop - pos:  # the record is copied by another call
                    pos = stop
                    break
                status = parse_record(source.data + pos + head, stop - pos - head, 0, NULL, NULL, &record)
                if status != RECORD_OK or record.size > limit - size:
                    break
                pos += head
                moves[count, 0], moves[count, 1] = pos, <int64_t>phy_offset - pos
                memcpy(&out[size], record.data, record.size)
                rs_store_be64(&out[size + PHY_OFFSET], <int64_t>phy_offset)
                if row < n_rows and positions[row] == pos:
                    if queue_offsets[row] >= 0:
                        rs_store_be64(&out[size + QUEUE_OFFSET], <int64_t>queue_offsets[row])
                    if prepared_offsets[row] >= 0:
                        rs_store_be64(&out[size + record.after_hosts + PREPARED_OFFSET],
                                      <int64_t>prepared_offsets[row])
                    row += 1
                if has_crc_property(&record):
                    write_crc(&out[size], record.size)
                last = size
                count += 1
                size += record.size
                pos += record.size
                phy_offset += record.size
    finally:
        source.leave()
    if status != RECORD_OK:
        raise ValueError(f"{source.path}: the record at {pos} was changed while it was read")
    return count, pos, size if pos > begin or pos == stop else record.size, last, row


cdef int check_rows(Buffer source, int64_t pos, int64_t stop, const int64_t[::1] positions,
                    const int64_t[::1] queue_offsets, const int64_t[::1] prepared_offsets,
                    int64_t[:, ::1] moves) except -1:
    """Check the arguments of ``copy_records`` and ``find_unchanged``. Raises: ValueError."""
    cdef Py_ssize_t n_rows = positions.shape[0]
    if not queue_offsets.shape[0] == prepared_offsets.shape[0] == n_rows or not 0 <= pos <= stop <= source.size:
        raise ValueError("positions and offsets differ in length, or these are not in the source")
    if moves.shape[0] < 1 or moves.shape[1] != 2:
        raise ValueError(f"moves has the shape {moves.shape[0]}, {moves.shape[1]}")
    return 0


def find_unchanged(Buffer source, int64_t pos, int64_t stop, int64_t phy_offset, int64_t room,
                   const int64_t[::1] positions, const int64_t[::1] queue_offsets,
                   const int64_t[::1] prepared_offsets, Py_ssize_t row, int64_t[:, ::1] moves):
    """Find how many records from a position on ``copy_records`` would copy without a change.

    A record with a CRC property counts as changed. Parameters, Returns: as for ``copy_records``.
    """
    cdef Record record
    cdef int64_t last = 0, count = 0, n_rows = positions.shape[0], most = moves.shape[0], begin = pos
    check_rows(source, pos, stop, positions, queue_offsets, prepared_offsets, moves)
    source.check_file_size()
    source.enter()
    try:
        with nogil:
            while pos < stop and count < most:
                if parse_record(source.data + pos, stop - pos, 0, NULL, NULL, &record) != RECORD_OK:
                    break
                if (record.phy_offset != phy_offset + (pos - begin) or record.size > room - LEAST_BLANK - (pos - begin)
                        or has_crc_property(&record)):
                    break
                if row < n_rows and positions[row] == pos:
                    if (queue_offsets[row] >= 0 and queue_offsets[row] != <int64_t>rs_load_be64(record.data + QUEUE_OFFSET)
                            or prepared_offsets[row] >= 0):
                        break
                    row += 1
                moves[count, 0], moves[count, 1] = pos, record.phy_offset - pos
                last = pos - begin
                count += 1
                pos += record.size
    finally:
        source.leave()
    return count, pos, pos - begin, last, row


def count_messages(const int32_t[:] queues, const int64_t[:] phy_offsets, const int64_t[:] queue_offsets,
                   const int32_t[:] batch_sizes, int64_t[::1] counts, int64_t[::1] messages, int64_t[::1] begins,
                   int64_t[::1] ends, int64_t min_inner_message):
    """Count the records and messages of each queue, and widen the range of its queue offsets from begins to ends.

    An offset that is larger than the number of messages that fit before the record is damage. It widens no range.

    Parameters: queues, phy_offsets, queue_offsets, batch_sizes: of the records, n each. counts, messages, begins, ends:
    of the queues, m each; they are changed. min_inner_message: the least bytes of a message in a batch.
    Raises: ValueError for columns of different lengths, or a queue that is not from 0 to before m.
    """
    cdef int64_t size, offset
    cdef int32_t queue = 0
    cdef Py_ssize_t i, n = queues.shape[0], n_queues = counts.shape[0]
    cdef bint good = True
    if not (phy_offsets.shape[0] == queue_offsets.shape[0] == batch_sizes.shape[0] == n
            and messages.shape[0] == begins.shape[0] == ends.shape[0] == n_queues):
        raise ValueError(f"the columns of {n} records or {n_queues} queues have other lengths")
    with nogil:
        for i in range(n):
            queue, offset, size = queues[i], queue_offsets[i], max(batch_sizes[i], 0)
            good = 0 <= queue < n_queues
            if not good:
                break
            counts[queue] += 1
            messages[queue] += size
            if 0 <= offset <= phy_offsets[i] // (MIN_RECORD if batch_sizes[i] == 1 else min_inner_message):
                begins[queue] = min(begins[queue], offset)
                ends[queue] = max(ends[queue], offset + size)
    if not good:
        raise ValueError(f"a record is of queue {queue}, of {n_queues}")


def assign_queue_offsets(const int32_t[:] queues, const int32_t[:] batch_sizes, const uint8_t[::1] is_batch,
                         int64_t[::1] next_offsets):
    """Return the next offset of its queue for each record, int64[n], and advance ``next_offsets`` of the queues.

    Parameters: queues, batch_sizes: of the records, n each. is_batch, next_offsets: of the queues, m each; in a batch
    queue a record takes as many offsets as it has messages, in any other queue one.
    Raises: ValueError for columns of different lengths, or a queue that is not from 0 to before m.
    """
    cdef Py_ssize_t i, n = queues.shape[0], n_queues = next_offsets.shape[0]
    cdef int32_t queue = 0
    cdef bint good = True
    if batch_sizes.shape[0] != n or is_batch.shape[0] != n_queues:
        raise ValueError(f"the columns of {n} records or {n_queues} queues have other lengths")
    assigned = np.empty(n, np.int64)
    cdef int64_t[::1] result = assigned
    with nogil:
        for i in range(n):
            queue = queues[i]
            good = 0 <= queue < n_queues
            if not good:
                break
            result[i] = next_offsets[queue]
            next_offsets[queue] += max(batch_sizes[i], 0) if is_batch[queue] else 1
    if not good:
        raise ValueError(f"a record is of queue {queue}, of {n_queues}")
    return assigned
