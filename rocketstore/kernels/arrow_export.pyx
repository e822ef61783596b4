"""The Arrow C data and stream interfaces, out, without pyarrow: NumPy arrays go to a consumer without a copy.

A struct holds one reference to the Python objects that it points to, until its release callback drops it. It is part
of an object that releases it, unless a consumer has moved it elsewhere. Children have objects of their own, since a
consumer may move a child out of its parent and keep it longer.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.pycapsule cimport (
    PyCapsule_GetContext,
    PyCapsule_GetDestructor,
    PyCapsule_GetPointer,
    PyCapsule_New,
    PyCapsule_SetContext,
)
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.errno cimport EIO
from libc.stdint cimport int64_t
from libc.string cimport memset

from rocketstore.kernels.arrow_structs cimport ArrowArray, ArrowArrayStream, ArrowSchema

import numpy as np

from rocketstore.kernels.columns import aligned, is_masked, masked_rows

# Milliseconds of the years 1 to 9999: beyond them neither Python nor Spark has a time.
cdef int64_t FIRST_TIME = -62_135_596_800_000, LAST_TIME = 253_402_300_799_999
cdef dict NUMBERS = {"i": np.int32, "l": np.int64, "tsm:UTC": np.int64, "g": np.float64}


cdef object capsule_of(exported, void *struct, const char *name):
    capsule = PyCapsule_New(struct, name, free_capsule)
    PyCapsule_SetContext(capsule, <void *>exported)
    Py_INCREF(exported)
    return capsule


cdef void free_capsule(capsule) noexcept:
    Py_DECREF(<object>PyCapsule_GetContext(capsule))


cdef void *address_of(array) except? NULL:
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
    PyBuffer_Release(&view)
    return view.buf


# ---- schemas -----------------------------------------------------------------------------------------------


cdef class ExportedSchema:
    cdef ArrowSchema schema

    def __cinit__(self, str form, str name, children=(), bint nullable=True):
        cdef bytes format_bytes = form.encode(), name_bytes = name.encode()
        cdef Py_ssize_t i
        pointers = np.empty(len(children), np.uintp)
        held = pointers, format_bytes, name_bytes, children
        self.schema.format = format_bytes
        self.schema.name = name_bytes
        self.schema.flags = 2 if nullable else 0  # ARROW_FLAG_NULLABLE
        self.schema.n_children = len(children)
        self.schema.children = <ArrowSchema **>address_of(pointers)
        for i in range(len(children)):
            self.schema.children[i] = &(<ExportedSchema?>children[i]).schema
        self.schema.private_data = <void *>held
        self.schema.release = release_schema
        Py_INCREF(held)

    def __dealloc__(self):
        if self.schema.release != NULL:
            self.schema.release(&self.schema)


cdef void release_schema(ArrowSchema *schema) noexcept with gil:
    schema.release = NULL
    Py_DECREF(<object>schema.private_data)


cdef ExportedSchema column_schema(name, form):
    children = ()
    if form == "+l":
        children = [ExportedSchema("u", "item")]
    elif form == "+m":
        pair = [ExportedSchema("u", "key", nullable=False), ExportedSchema("u", "value")]
        children = [ExportedSchema("+s", "entries", pair, nullable=False)]
    return ExportedSchema(form, name, children)


cdef ExportedSchema table_schema(fields):
    # Not a comprehension: where there is no memory, Cython 3.3 frees the item twice.
    columns = []
    for field in fields:
        columns.append(column_schema(field.name, field.format))
    return ExportedSchema("+s", "", columns)


# ---- arrays ------------------------------------------------------------------------------------------------


cdef class ExportedArray:
    cdef ArrowArray array

    def __cinit__(self, Py_ssize_t length, list buffers, children=(), valid=None):
        cdef Py_ssize_t i
        null_count = 0 if valid is None else length - np.count_nonzero(valid)
        buffers = [np.packbits(valid, bitorder="little") if null_count else None, *buffers]
        pointers = np.zeros(len(buffers) + len(children), np.uintp)
        held = pointers, buffers, children
        self.array.length = length
        self.array.null_count = null_count
        self.array.n_buffers = len(buffers)
        self.array.n_children = len(children)
        self.array.buffers = <const void **>address_of(pointers)
        self.array.children = <ArrowArray **>(self.array.buffers + len(buffers))
        for i in range(len(buffers)):
            if buffers[i] is not None:
                self.array.buffers[i] = address_of(buffers[i])
        for i in range(len(children)):
            self.array.children[i] = &(<ExportedArray?>children[i]).array
        self.array.private_data = <void *>held
        self.array.release = release_array
        Py_INCREF(held)

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)


cdef void release_array(ArrowArray *array) noexcept with gil:
    array.release = NULL
    Py_DECREF(<object>array.private_data)


cdef checked(name, array, dtype, Py_ssize_t n):
    if array.dtype != dtype or array.shape != (n,):
        raise ValueError(f"{name}: {np.dtype(dtype)}[{n}] was expected, not {array.dtype}{list(array.shape)}")
    return aligned(array, dtype)


cdef checked_offsets(name, offsets, Py_ssize_t n, Py_ssize_t size, dtype=np.int32):
    offsets = checked(name, offsets, dtype, n + 1)
    if not 0 <= offsets[0] <= offsets[n] <= size or np.count_nonzero(offsets[1:] < offsets[:n]):
        raise ValueError(f"{name}: offsets that do not fall were expected, from 0 to {size} at most")
    return offsets


cdef ExportedArray var_array(name, column, Py_ssize_t n):
    valid = None if column.valid is None else checked(name, column.valid, np.bool_, n)
    data = checked(name, column.data, np.uint8, len(column.data))
    return ExportedArray(n, [checked_offsets(name, column.offsets, n, len(data)), data], (), valid)


cdef ExportedArray list_array(name, column, Py_ssize_t n):
    cdef Py_ssize_t m = len(column.values.offsets) - 1
    return ExportedArray(n, [checked_offsets(name, column.offsets, n, m)], [var_array(name, column.values, m)])


cdef ExportedArray map_array(name, column, Py_ssize_t n):
    cdef Py_ssize_t m = len(column.keys.offsets) - 1
    pairs = ExportedArray(m, [], [var_array(name, column.keys, m), var_array(name, column.values, m)])
    return ExportedArray(n, [checked_offsets(name, column.offsets, n, m)], [pairs])


cdef ExportedArray column_array(name, form, column, Py_ssize_t n):
    if form in ("u", "z"):
        return var_array(name, column, n)
    if form == "+l":
        return list_array(name, column, n)
    if form == "+m":
        return map_array(name, column, n)
    if form == "b":
        return ExportedArray(n, [np.packbits(checked(name, column, np.bool_, n), bitorder="little")])
    values = checked(name, column, NUMBERS[form], n)
    valid = (values >= FIRST_TIME) & (values <= LAST_TIME) if form == "tsm:UTC" else None
    if is_masked(column):
        valid = ~masked_rows(column) & (True if valid is None else valid)
    return ExportedArray(n, [values], (), valid)


cdef ExportedArray table_array(fields, columns, Py_ssize_t n):
    arrays = []
    for field, column in zip(fields, columns, strict=True):
        arrays.append(column_array(field.name, field.format, column, n))
    return ExportedArray(n, [], arrays)


# ---- streams -----------------------------------------------------------------------------------------------


cdef class Batches:
    """The batches that a stream is made from, and the error that ended it."""

    cdef object fields
    cdef object iterator
    cdef object error
    cdef bytes reason
    cdef bint failed

    def __cinit__(self, fields, batches):
        self.fields, self.iterator = fields, iter(batches)

    cdef ExportedArray next(self):
        batch = next(self.iterator, None)
        return None if batch is None else table_array(self.fields, batch[0], batch[1])

    cdef int fail(self, error) noexcept:
        self.failed, self.error = True, error
        return EIO

    cdef void close(self) noexcept:
        iterator, self.iterator = self.iterator, None
        if hasattr(iterator, "close"):
            iterator.close()


cdef class ExportedStream:
    cdef ArrowArrayStream stream
    cdef Batches batches

    def __cinit__(self, Batches batches):
        self.batches = batches
        self.stream.get_schema = get_schema
        self.stream.get_next = get_next
        self.stream.get_last_error = get_last_error
        self.stream.private_data = <void *>batches
        self.stream.release = release_stream
        Py_INCREF(batches)

    def __dealloc__(self):
        if self.stream.release != NULL:
            self.stream.release(&self.stream)


cdef int get_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept with gil:
    batches = <Batches>stream.private_data
    cdef ExportedSchema schema
    try:
        schema = table_schema(batches.fields)
    except BaseException as error:
        return batches.fail(error)
    out[0] = schema.schema
    schema.schema.release = NULL
    return 0


cdef int get_next(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    batches = <Batches>stream.private_data
    cdef ExportedArray batch
    memset(out, 0, sizeof(out[0]))
    if batches.failed:
        return EIO
    try:
        batch = batches.next()
    except BaseException as error:
        return batches.fail(error)
    if batch is not None:
        out[0] = batch.array
        batch.array.release = NULL
    return 0


cdef const char *get_last_error(ArrowArrayStream *stream) noexcept with gil:
    batches = <Batches>stream.private_data
    if batches.error is None:
        return NULL
    batches.reason = f"{type(batches.error).__name__}: {batches.error}".encode(errors="replace")
    return batches.reason


cdef void release_stream(ArrowArrayStream *stream) noexcept with gil:
    cdef PyObject *kind
    cdef PyObject *value
    cdef PyObject *traceback
    batches = <Batches>stream.private_data
    stream.release = NULL
    # A consumer may go because of an exception, and closing runs Python code.
    PyErr_Fetch(&kind, &value, &traceback)
    batches.close()
    Py_DECREF(batches)
    PyErr_Restore(kind, value, traceback)


# ---- for others --------------------------------------------------------------------------------------------


cdef object schema_capsule(fields):
    """Return an "arrow_schema" capsule of a struct."""
    cdef ExportedSchema schema = table_schema(fields)
    return capsule_of(schema, &schema.schema, "arrow_schema")


def export_batch(fields, columns, Py_ssize_t length):
    """Export the columns of a batch without a copy; they must not change any more.

    Parameters: fields: sequence of ``Field``. columns: for each field int32[n], int64[n], either perhaps masked,
    or a ValueColumn, as its format asks. length: n.
    Returns: an "arrow_schema" and an "arrow_array" capsule of a struct. A time outside the years 1 to 9999 is null.
    Raises: ValueError for a column of another type or length, and for one too few or too many.
    """
    cdef ExportedArray array = table_array(fields, columns, length)
    return schema_capsule(fields), capsule_of(array, &array.array, "arrow_array")


def export_column(form, column, Py_ssize_t length):
    """Export one column without a copy; it must not change any more.

    Parameters: form: of the Arrow C data interface. column: as ``export_batch`` takes it. length: n.
    Returns: an "arrow_schema" and an "arrow_array" capsule. Raises: ValueError for a column of another type or length.
    """
    cdef ExportedSchema schema = column_schema("", form)
    cdef ExportedArray array = column_array("column", form, column, length)
    return capsule_of(schema, &schema.schema, "arrow_schema"), capsule_of(array, &array.array, "arrow_array")


def export_stream(fields, batches):
    """Export batches as they come.

    Parameters: fields: sequence of ``Field``. batches: iterable of (columns, length), as ``export_batch`` takes them;
    if it is a generator it is closed when the consumer stops, or never starts.
    Returns: an "arrow_array_stream" capsule. If ``batches`` raises an error, a consumer sees EIO with its text, and
    ``consume`` raises the error itself.
    """
    cdef ExportedStream exported = ExportedStream(Batches(list(fields), batches))
    return capsule_of(exported, &exported.stream, "arrow_array_stream")


class OneStream:
    """An object with ``__arrow_c_stream__`` for a consumer of one exported stream."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __arrow_c_stream__(self, requested_schema=None):
        return self.capsule


def consume(stream_object, consumer):
    """Return the result of ``consumer`` for an object with ``__arrow_c_stream__``.

    Raises: the error that ended the stream, if ``export_stream`` made it; otherwise the error of the consumer.
    """
    capsule = stream_object.__arrow_c_stream__()
    try:
        return consumer(OneStream(capsule))
    finally:
        error = taken_error(capsule)
        if error is not None:
            raise error from None


cdef object taken_error(capsule):
    """The error that ended a stream. The stream forgets it, since its traceback leads back to the stream."""
    if PyCapsule_GetDestructor(capsule) != free_capsule:
        return None
    batches = (<ExportedStream?><object>PyCapsule_GetContext(capsule)).batches
    error, batches.error = batches.error, None
    return error


cdef object export_list(offsets, values, bint large):
    """Return the capsules of a list<int64> or large_list<int64> over two NumPy arrays."""
    cdef ExportedSchema schema = ExportedSchema("+L" if large else "+l", "", [ExportedSchema("l", "item")])
    cdef Py_ssize_t n = max(len(offsets) - 1, 0), size = len(values)
    offsets = checked_offsets("offsets", offsets, n, size, np.int64 if large else np.int32)
    items = ExportedArray(size, [checked("values", values, np.int64, size)])
    cdef ExportedArray array = ExportedArray(n, [offsets], [items])
    return capsule_of(schema, &schema.schema, "arrow_schema"), capsule_of(array, &array.array, "arrow_array")


cdef bint wants_small_list(requested_schema) except -1:
    cdef const ArrowSchema *schema
    if requested_schema is None:
        return False
    schema = <const ArrowSchema *>PyCapsule_GetPointer(requested_schema, "arrow_schema")
    return (<bytes>schema.format) == b"+l"
