from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t

from rocketstore.kernels.message_slots cimport Fields
from rocketstore.kernels.record cimport Slice
from rocketstore.kernels.record_columns cimport Growing

cdef enum:
    END_FILE_MIN_BLANK_LENGTH = 8  # bytes; every file has room for a blank behind its last record
    MAX_RECENT = 64

# The place of an encoded record, and the values that an append needs to set its last fields.
cdef struct Encoded:
    int64_t start
    int32_t size
    int32_t store_timestamp  # position in the record
    int32_t queue_id
    int32_t queue  # number among the encoder's queues
    int32_t message_num  # how many queue offsets it occupies; 0 for an uncommitted transaction


# The parts of a record. ``lay_out`` sets the last four, and the bits of hosts in sys_flag, from the others.
cdef struct Parts:
    Slice topic
    Slice body
    int32_t queue_id
    int32_t flag
    int32_t sys_flag
    int32_t reconsume_times
    int64_t born_timestamp
    int64_t store_timestamp
    int64_t prepared_transaction_offset
    Slice born_host  # in stored form: address and port
    Slice store_host
    # set by ``lay_out``:
    Slice properties
    bint is_v2
    int32_t properties_size  # in the record: also room for the CRC property, but perhaps no last separator
    int32_t size  # of the record


cdef void encode(uint8_t *into, const Parts *parts) noexcept nogil
cdef void encode_head(uint8_t *into, const Parts *parts) noexcept nogil
cdef void write_crc(uint8_t *record, int32_t size) noexcept nogil


cdef class RecordEncoder:
    cdef readonly bint append_prop_crc
    cdef readonly list queues  # (topic, queueId), each once
    cdef dict numbers  # of the queues, by topic and queue id
    cdef str topic  # of the last record
    cdef dict numbers_of_topic
    cdef Growing data
    cdef Growing encoded
    cdef Growing properties
    cdef bint trailing_separator
    cdef bint has_v2
    cdef bint has_ipv6
    cdef bint has_compression_types
    cdef bint has_inner_batches
    cdef readonly bint is_special  # a record has properties that must be completed when it is put
    cdef readonly object last_store_host
    cdef bint has_separator  # a name or value has a separator, which would end the property for a reader
    cdef bint needs_check  # whether the properties of the message being encoded may be unreadable
    cdef str batch_properties
    cdef int64_t max_message_size
    cdef int64_t mapped_file_size
    cdef object store_host
    cdef dict hosts
    cdef str plain_born_host  # of the last plain message
    cdef bytes plain_born_bytes  # ``plain_born_host`` in stored form
    cdef bytes plain_store_bytes  # ``store_host`` in stored form; None before it was encoded
    cdef list kept
    cdef object find_queue_id

    cdef int32_t[MAX_RECENT] recent  # numbers of the queues of ``topic`` by queue id, -1 for an unknown queue

    cdef bint find_plain_parts(self, const Fields *own, Parts *parts) except -1
    cdef bint find_plain_hosts(self, PyObject *born_host) except -1
    cdef bint add_plain_properties(self, dict properties) except -1
    cdef object lay_out(self, Parts *parts)
    cdef Slice utf8_of(self, text) except *
    cdef bytes host_bytes(self, host)
    cdef int add_properties(self, dict properties) except -1
    cdef int require_readable(self, int64_t start, int32_t size, str topic) except -1
    cdef int require_known(self, int32_t sys_flag, str topic) except -1
    cdef int32_t number_of(self, str topic, int32_t queue_id) except -1
    cdef int clear_all(self) except -1
    cdef int add_message(self, message, int32_t message_num, batch, bint keeps_store) except -1
    cdef int add_fields(self, message, const Fields *own, const Fields *head, int32_t message_num, bint is_in_batch,
                        bint keeps_store) except -1
    cdef const Encoded *at(self, Py_ssize_t i) noexcept nogil
    cdef int add_property(self, const Slice *name, const Slice *value) except -1
    cdef int add_record(self, Parts *parts, str topic, int32_t message_num) except -1
