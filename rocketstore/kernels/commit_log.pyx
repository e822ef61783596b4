"""Many records of the commit log at once: scanned or gathered into columns, or found again after damage."""

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t

from rocketstore.kernels.buffer cimport Buffer
from rocketstore.kernels.csrc cimport (
    rs_java_hash_utf8_lossy,
    rs_load_be32,
    rs_load_be64,
)
from rocketstore.kernels.inner_batch cimport COPIED_HEAD, OPENED, count_inner_messages, read_inner_message
from rocketstore.kernels.record cimport (
    BAD_BATCH_BODY,
    BAD_BODY_CRC,
    BAD_CUT,
    BAD_HALF,
    BAD_MAGIC,
    BAD_PROPERTY_CRC,
    BATCH_CRC_AGREES,
    BATCH_CRC_DIFFERS,
    BODY_CRC,
    BORN_HOST,
    BORN_HOST_V6,
    BORN_TIMESTAMP,
    CHECK_BODY_CRC,
    CHECK_PROPERTY_CRC,
    COMPRESSED,
    ENTRY_HEAD,
    FIND_DISPATCH,
    FIND_PROPERTIES,
    FLAG,
    MIN_RECORD,
    PHY_OFFSET,
    QUEUE_OFFSET,
    RECORD_BLANK,
    RECORD_END,
    RECORD_OK,
    STORE_HOST_V6,
    DelayTable,
    PropertyReader,
    Record,
    fetch_following,
    body_crc_agrees,
    fill_delays,
    find_properties,
    is_entry_head,
    java_text,
    next_magic,
    parse_at,
    parse_record,
    property_crc_agrees,
    property_dict,
)
from rocketstore.kernels.record_columns cimport MOST_RECORDS, RecordColumns, host_text
from rocketstore.kernels.record_filter cimport BodyLiterals, RecordFilter
from rocketstore.kernels.record_windows cimport Windows

from rocketstore.errors import CorruptFileError
from rocketstore.kernels.record import BAD_REASONS

cdef enum:
    BLOCK = MOST_RECORDS  # records found before their fields are collected: they stay in the L1 cache
    PIECE = 32 << 20  # bytes between two checks for signals: some 10 ms with CRC, 50 from a slow disk
    GATHERED = 4096  # records between two checks for signals
    FOUND_BATCH = 1 << 16  # a status: the scanner stands at an inner batch, which is to be opened

__all__ = ["BAD_BATCH", "BLANK", "CUT", "DEFAULT_DELAYS", "END", "HALF", "OK",
           "WRONG_CRC", "RecordScanner", "bad_reason", "checked_framing", "find_record", "read_message"]

DEFAULT_DELAYS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

TOO_LARGE = "a column of the batch is larger than 2 GiB, or there is no memory: ask for fewer at once"
OK, BLANK, END, CUT, HALF = RECORD_OK, RECORD_BLANK, RECORD_END, BAD_CUT, BAD_HALF
BAD_BATCH = BAD_BATCH_BODY
WRONG_CRC = BAD_BODY_CRC, BAD_PROPERTY_CRC  # the statuses of a record that is sound except for its CRC


def bad_reason(status):
    """Return (field, reason) for a status that is not OK or BLANK."""
    return BAD_REASONS[status - BAD_MAGIC] if status >= BAD_MAGIC else ("magic", "there are zeros, and no message")


cdef class RecordScanner:
    """Collects fields of records, in several calls.

    Parameters: columns: names of fields, as in RecordColumns. record_filter: the wanted records, None for all.
    verify_crc: compare the body with its CRC. force_verify_prop_crc: compare the record with the CRC in its
    properties instead. marks_crc: also collect the column "body_crc_agrees", or with force_verify_prop_crc
    "record_crc_agrees". message_delay_level: as in the broker's configuration, for ``tags_code``. framing: bytes
    before each record: 0, or 48 in DLedger's log. There a scan may begin at an entry or at the record in it.
    literals: bytes that the wanted bodies have, if they are not compressed and no inner batches. decompress: a function
    of a stored body, the system flags and the physical offset, which returns the body. With it the scanner opens inner
    batches: it collects their messages in place of their records, and the filter chooses among these messages.
    Only one thread at a time may use a scanner.

    Attributes: n_bytes: of the topics, bodies and properties collected since the last ``take``. last_phy_offset: of the
    last record that was found, wanted or not; -1 before the first.
    """

    cdef RecordColumns columns
    cdef RecordFilter record_filter
    cdef BodyLiterals literals
    cdef int todo
    cdef int framing
    cdef bint takes_topics
    cdef bint takes_bodies
    cdef bint takes_properties
    cdef bint of_record  # the CRC that marks show is that of the record
    cdef bint marks_crc
    cdef object decompress
    cdef int32_t opened_flags  # of records that are opened; -1 if none is
    cdef const uint8_t *batch  # the record of the inner batch at which the scanner stands, NULL without one
    cdef int32_t batch_size
    cdef readonly Py_ssize_t n_bytes
    cdef readonly int64_t last_phy_offset
    cdef PropertyReader reader
    cdef DelayTable delays
    cdef Record block[BLOCK]
    cdef bytearray heads_memory
    cdef uint8_t *heads  # of the records in the block that are messages of an inner batch, COPIED_HEAD bytes each

    def __cinit__(self, columns, RecordFilter record_filter=None, *, bint verify_crc=False, bint marks_crc=False,
                  bint force_verify_prop_crc=False, str message_delay_level=DEFAULT_DELAYS, int framing=0,
                  BodyLiterals literals=None, decompress=None):
        self.decompress, self.opened_flags = decompress, -1 if decompress is None else OPENED
        if decompress is not None:
            self.heads_memory = bytearray(BLOCK * COPIED_HEAD)
            self.heads = self.heads_memory
        self.marks_crc, self.of_record = marks_crc, force_verify_prop_crc
        self.framing = checked_framing(framing)
        mark = "record_crc_agrees" if force_verify_prop_crc else "body_crc_agrees"
        self.columns = RecordColumns([mark, *columns] if marks_crc else columns)
        self.record_filter = record_filter
        self.literals = literals
        self.last_phy_offset = -1
        self.takes_topics = "topic" in self.columns.names
        self.takes_bodies = "raw_body" in self.columns.names
        self.takes_properties = self.columns.needs_properties or "properties" in self.columns.names
        fill_delays(&self.delays, message_delay_level)
        if verify_crc:
            self.todo |= CHECK_BODY_CRC
        if verify_crc and force_verify_prop_crc:
            self.todo |= CHECK_PROPERTY_CRC
        if self.columns.needs_properties or (record_filter is not None and record_filter.needs_properties):
            self.todo |= FIND_PROPERTIES
        if "tags_code" in self.columns.names:
            self.todo |= FIND_DISPATCH

    @property
    def rows(self):
        """The number of records collected since the last ``take``."""
        return self.columns.rows

    def take(self):
        """Return the collected columns as a dict, and begin with empty ones."""
        self.n_bytes = 0
        return self.columns.take()

    def scan(self, Buffer buffer, int64_t from_offset, int64_t offset, int64_t end,
             Py_ssize_t max_rows=PY_SSIZE_T_MAX, Py_ssize_t max_bytes=PY_SSIZE_T_MAX, *, bint at_rest=False):
        """Collect the records that begin from ``offset`` up to ``end``. One call does a bounded amount of work.

        Parameters: buffer: bytes of one file, the first at ``from_offset`` of the log. max_rows, max_bytes: stop when
        this many records, or ``n_bytes``, are collected, earlier calls included. at_rest: no process writes the log
        now. Otherwise a record before zeros that itself ends with a zero may be half written: HALF.
        Returns: (next_offset, status). OK: continue at next_offset if it is before ``end`` and there is room.
        Otherwise BLANK, END, or the reason why the bytes at next_offset are no record.
        Raises: StoreClosedError; CorruptFileError if the file was cut.
        """
        cdef int status = FOUND_BATCH
        cdef int64_t next_offset = offset, behind
        cdef int64_t stop = offset + min(end - offset, PIECE)
        cdef bytes batch
        buffer.check_file_size()
        if not from_offset <= offset <= from_offset + buffer.size:
            raise ValueError(f"offset {offset} is not in the buffer from {from_offset} of {buffer.size} bytes")
        while status == FOUND_BATCH:
            buffer.enter()
            try:
                with nogil:
                    status = self.scan_piece(buffer, from_offset, &next_offset, stop, max_rows - self.columns.rows,
                                             max_bytes, at_rest)
                if status == FOUND_BATCH:
                    batch = self.batch[:self.batch_size]
                    behind = from_offset + (self.batch - buffer.data) + self.batch_size
            finally:
                buffer.leave()
            if status == FOUND_BATCH:
                # Decompressing runs Python code, for which the buffer must not count a call in.
                status = self.open_batch(batch)
                if status != RECORD_OK:
                    break
                next_offset, status = behind, FOUND_BATCH
        if status < 0:
            raise MemoryError(TOO_LARGE)
        return next_offset, status

    cdef int scan_piece(self, Buffer buffer, int64_t from_offset, int64_t *offset, int64_t end, Py_ssize_t room,
                        Py_ssize_t max_bytes, bint at_rest) noexcept nogil:
        cdef const uint8_t *data = buffer.data
        cdef int64_t pos = offset[0] - from_offset, size = buffer.size
        cdef int64_t stop = min(end - from_offset, size)
        cdef Py_ssize_t n = 0
        cdef int status = RECORD_OK
        cdef Record *record
        while pos < stop and room > 0 and self.n_bytes < max_bytes:
            record = &self.block[n]
            status = parse_at(data, pos, size, from_offset, self.framing, self.todo, at_rest, &self.reader,
                              &self.delays, record)
            if status != RECORD_OK:
                break
            fetch_following(data + pos, record.size + self.framing, data + size)
            self.last_phy_offset = record.phy_offset
            if record.sys_flag & OPENED == self.opened_flags and self.may_want_messages(record):
                self.batch, self.batch_size = record.data, record.size
                status = FOUND_BATCH
                break
            pos = record.data - data + record.size
            if not self.wants(record):
                continue
            room -= 1
            n += 1
            self.count_bytes(record)
            if n == BLOCK:
                if not self.columns.append(self.block, n):
                    return -1
                n = 0
        offset[0] = from_offset + pos
        return status if self.columns.append(self.block, n) else -1

    cdef inline void count_bytes(self, const Record *record) noexcept nogil:
        if self.takes_topics:
            self.n_bytes += record.topic.size
        if self.takes_bodies:
            self.n_bytes += record.body.size
        if self.takes_properties:
            self.n_bytes += record.properties.size

    cdef int open_batch(self, bytes copied) except -2:
        """Collect the messages of an inner batch. Return RECORD_OK, or why it cannot be opened; -1 without room.

        Parameters: copied: the record of the batch.
        """
        cdef Record batch
        cdef bytes body
        cdef bint agrees = True
        cdef int status = parse_record(copied, len(copied), FIND_DISPATCH, &self.reader, &self.delays, &batch)
        if status != RECORD_OK:
            return status
        if self.marks_crc:
            agrees = (property_crc_agrees(&batch, batch.size, &self.reader) if self.of_record
                      else body_crc_agrees(&batch))
        batch.batch_crc = BATCH_CRC_AGREES if agrees else BATCH_CRC_DIFFERS
        if batch.sys_flag & COMPRESSED:
            try:
                body = self.decompress(batch.body.data[:batch.body.size], batch.sys_flag, batch.phy_offset)
            except (CorruptFileError, ImportError):
                return BAD_BATCH_BODY
            batch.body.data, batch.body.size = body, <int32_t>len(body)
        with nogil:
            if count_inner_messages(batch.body.data, batch.body.size) <= 0:
                return BAD_BATCH_BODY
            return RECORD_OK if self.append_messages(&batch) else -1

    cdef bint append_messages(self, const Record *batch) noexcept nogil:
        """Collect the wanted messages of an inner batch, whose body is decompressed and has been checked."""
        cdef int64_t pos = 0, queue_offset = batch.msg_base_offset
        cdef Py_ssize_t n = 0
        cdef Record *message
        while pos < batch.body.size:
            message = &self.block[n]
            pos = read_inner_message(batch, pos, queue_offset, self.heads + n * COPIED_HEAD, message)
            queue_offset += 1
            if self.todo & (FIND_PROPERTIES | FIND_DISPATCH):
                find_properties(message, &self.reader)
                message.tags_code = 0
                if message.tags.size > 0:
                    message.tags_code = <int32_t>rs_java_hash_utf8_lossy(
                        0, message.tags.data, <size_t>message.tags.size)
            if not self.wants(message):
                continue
            n += 1
            self.count_bytes(message)
            if n == BLOCK:
                if not self.columns.append(self.block, n):
                    return False
                n = 0
        return self.columns.append(self.block, n)

    cdef inline bint may_want_messages(self, const Record *batch) noexcept nogil:
        return self.record_filter is None or self.record_filter.matches_fixed(batch)

    cdef inline bint wants(self, const Record *record) noexcept nogil:
        if self.record_filter is not None and not (
            self.record_filter.matches_fixed(record) and self.record_filter.matches_properties(record)
        ):
            return False
        return self.literals is None or self.literals.may_have(record)

    def gather(self, windows, const int32_t[::1] window_of,
               const int64_t[::1] offsets, uint8_t[::1] statuses, *, bint at_rest=False,
               RecordFilter expected=None, const int32_t[::1] sizes=None, const int64_t[::1] queue_offsets=None):
        """Collect the wanted records at ``offsets``, in this order. Leave out an offset without a record.

        Parameters: windows: (buffer, from_offset) each. window_of: int32[n], the window that has the offset, -1
        without one. offsets: int64[n], physical offsets. statuses: uint8[n], filled: OK, or the reason why the offset
        has no record. at_rest: as for ``scan``. expected, sizes, int32[n], bytes, and queue_offsets, int64[n]: a record
        that does not meet these conditions, wanted or not, counts as END. Give all three, or none.
        Raises: as ``scan``.
        """
        cdef Py_ssize_t first = 0, n = offsets.shape[0], begin, stop
        cdef bint room = True
        cdef bytes batch
        cdef int status
        cdef Windows held = Windows(windows, window_of)
        if statuses.shape[0] != n or window_of.shape[0] != n:
            raise ValueError("window_of, offsets and statuses differ in length")
        if expected is not None and not sizes.shape[0] == queue_offsets.shape[0] == n:
            raise ValueError("sizes, queue_offsets and offsets differ in length")
        while first < n and room:
            PyErr_CheckSignals()
            begin, stop = first, min(first + GATHERED, n)
            batch = None
            held.enter()
            try:
                with nogil:
                    room = self.gather_piece(held, offsets, &first, stop, statuses, at_rest, expected, sizes,
                                             queue_offsets)
                    if begin == 0 and first == stop < n:
                        room = room and self.columns.expect(1.1 * n / stop)
                if room and first < stop:
                    batch = self.batch[:self.batch_size]
            finally:
                held.leave()
            if batch is not None:
                status = self.open_batch(batch)
                room = status >= 0
                statuses[first] = <uint8_t>status
                first += 1
        if not room:
            raise MemoryError(TOO_LARGE)

    cdef bint gather_piece(self, Windows windows, const int64_t[::1] offsets, Py_ssize_t *first, Py_ssize_t stop,
                           uint8_t[::1] statuses, bint at_rest, RecordFilter expected, const int32_t[::1] sizes,
                           const int64_t[::1] queue_offsets) noexcept nogil:
        """Collect the records from `first` to before `stop`, and move `first` to the next row: `stop`, or a batch."""
        cdef Py_ssize_t i, n = 0
        cdef int64_t remaining
        cdef const uint8_t *data
        for i in range(first[0], stop):
            first[0] = i
            windows.prefetch(offsets, i, self.takes_bodies)
            data = windows.place_of(offsets, i, &remaining)
            if data == NULL:
                statuses[i] = RECORD_END
                continue
            statuses[i] = parse_at(data, 0, remaining, offsets[i], 0, self.todo, at_rest, &self.reader,
                                   &self.delays, &self.block[n])
            if statuses[i] == RECORD_OK and expected is not None and not (
                    self.block[n].size == sizes[i]
                    and <int64_t>rs_load_be64(self.block[n].data + QUEUE_OFFSET) == queue_offsets[i]
                    and expected.matches_fixed(&self.block[n])):
                statuses[i] = RECORD_END
            if statuses[i] == RECORD_OK and self.block[n].sys_flag & OPENED == self.opened_flags:
                if self.may_want_messages(&self.block[n]):
                    self.batch, self.batch_size = self.block[n].data, self.block[n].size
                    return self.columns.append(self.block, n)
            elif statuses[i] == RECORD_OK and self.wants(&self.block[n]):
                n += 1
            if n == BLOCK:
                if not self.columns.append(self.block, n):
                    return False
                n = 0
        first[0] = stop
        return self.columns.append(self.block, n)


def checked_framing(int framing):
    """Return a framing, bytes before each record. Raises: ValueError for another number than 0 and 48."""
    if framing not in (0, ENTRY_HEAD):
        raise ValueError(f"framing={framing}: must be 0 or {ENTRY_HEAD}")
    return framing


def find_record(Buffer buffer, int64_t from_offset, int64_t offset, int64_t end, *, bint or_cut=False, int framing=0):
    """Find the first record from ``offset`` on that begins before ``end`` and knows its own physical offset.

    In DLedger's log a record begins where its entry does, or at the record itself if the head before it is damaged.

    Parameters: buffer: bytes of one file, the first at ``from_offset`` of the log. or_cut: also accept a record that
    may continue beyond the buffer. framing: as for ``RecordScanner``.
    Returns: where it begins, None without a record. Raises: StoreClosedError; CorruptFileError if the file was cut.
    """
    cdef int64_t stop, found = -1, begin, last
    offset, end = max(offset, from_offset), min(end, from_offset + buffer.size)
    begin, last = offset - from_offset, end - from_offset
    if offset < end:
        end += min(<int64_t>checked_framing(framing), from_offset + buffer.size - end)
    while offset < end and found < 0:
        PyErr_CheckSignals()
        stop = offset + min(end - offset, PIECE)
        buffer.check_file_size()
        buffer.enter()
        try:
            with nogil:
                found = find_in_piece(buffer.data, buffer.size, from_offset, offset - from_offset, stop - from_offset,
                                      begin, last, framing, or_cut)
        finally:
            buffer.leave()
        offset = stop
    return None if found < 0 else found


cdef int64_t find_in_piece(const uint8_t *data, int64_t size, int64_t from_offset, int64_t pos, int64_t stop,
                           int64_t first, int64_t last, int framing, bint or_cut) noexcept nogil:
    """Search the records at positions from `pos` to before `stop` for one that begins from `first` to before `last`."""
    cdef Record record
    cdef int64_t begin
    cdef int status
    stop = min(stop, size - 7)
    while pos < stop:
        pos = next_magic(data, pos, stop)
        if pos == stop:
            break
        status = parse_at(data, pos, size, from_offset, 0, 0, True, NULL, NULL, &record)
        if status == RECORD_OK or (or_cut and status == BAD_CUT and may_be_at(data, pos, size, from_offset)):
            begin = pos - framing
            if begin < 0 or (framing and not is_entry_head(data + begin, from_offset + begin, record.size)):
                begin = pos
            if first <= begin < last:
                return from_offset + begin
        pos += 1
    return -1


cdef inline bint may_be_at(const uint8_t *data, int64_t pos, int64_t size, int64_t from_offset) noexcept nogil:
    """Whether the bytes of a record that exist have its own physical offset."""
    return size - pos < PHY_OFFSET + 8 or <int64_t>rs_load_be64(data + pos + PHY_OFFSET) == from_offset + pos


def read_message(Buffer buffer, int64_t from_offset, int64_t offset, *, bint at_rest=False, bint verify_crc=False,
                 bint force_verify_prop_crc=False):
    """Read all fields of one record. Parameters: as for ``RecordScanner`` and its ``scan``.

    Returns: (status, fields): a dict, None if the status is not OK.
    Raises: StoreClosedError; CorruptFileError if the file was cut.
    """
    cdef Record record
    cdef PropertyReader reader
    cdef int64_t pos = offset - from_offset
    cdef int status = RECORD_END
    cdef int todo = (CHECK_BODY_CRC | (CHECK_PROPERTY_CRC if force_verify_prop_crc else 0)) if verify_crc else 0
    buffer.check_file_size()
    buffer.enter()
    try:
        if 0 <= pos < buffer.size:
            status = parse_at(buffer.data, pos, buffer.size, from_offset, 0, todo, at_rest, &reader, NULL, &record)
        return status, (record_fields(&record, &reader) if status == RECORD_OK else None)
    finally:
        buffer.leave()


cdef object record_fields(const Record *record, PropertyReader *reader):
    cdef const uint8_t *data = record.data
    return {
        "topic": java_text(&record.topic),
        "queue_id": record.queue_id,
        "queue_offset": <int64_t>rs_load_be64(data + QUEUE_OFFSET),
        "phy_offset": record.phy_offset,
        "size": record.size,
        "flag": <int32_t>rs_load_be32(data + FLAG),
        "sys_flag": record.sys_flag,
        "born_timestamp": <int64_t>rs_load_be64(data + BORN_TIMESTAMP),
        "born_host": host_str(data + BORN_HOST, record.sys_flag & BORN_HOST_V6),
        "store_timestamp": record.store_timestamp,
        "store_host": host_str(data + record.store_host, record.sys_flag & STORE_HOST_V6),
        "reconsume_times": <int32_t>rs_load_be32(data + record.after_hosts),
        "prepared_transaction_offset": <int64_t>rs_load_be64(data + record.after_hosts + 4),
        "body_crc": <int32_t>rs_load_be32(data + BODY_CRC),
        "raw_body": <bytes>record.body.data[:record.body.size],
        "properties": property_dict(&record.properties, reader),
    }


cdef str host_str(const uint8_t *host, bint is_v6):
    cdef char text[64]
    cdef Py_ssize_t n = host_text(host, is_v6, text)
    return text[:n].decode()
