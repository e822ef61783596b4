from cpython.ref cimport PyObject


# References to the values of FIELDS; NULL for a field that the message lacks.
cdef struct Fields:
    PyObject *topic
    PyObject *raw_body
    PyObject *properties
    PyObject *queue_id
    PyObject *flag
    PyObject *sys_flag
    PyObject *born_timestamp
    PyObject *born_host
    PyObject *body
    PyObject *stored
    PyObject *store_host
    PyObject *store_timestamp
    PyObject *reconsume_times
    PyObject *prepared_transaction_offset


cdef bint has_slots(message) noexcept
cdef void fill_slots(message, PyObject **values) noexcept
cdef int hold_fields(message, Fields *fields) except -1
cdef void release_fields(Fields *fields) noexcept
