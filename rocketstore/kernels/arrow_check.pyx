"""Check the lengths and counts of the Arrow C data interface before any buffer is read.

A consumer like pyarrow reads the last offset of an array while it imports the array, at the place that length and
offset say. The interface does not tell the sizes of buffers, so a length that is possible, but larger than the memory
behind it, cannot be told from an honest one.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.errno cimport EINVAL
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from rocketstore.kernels.arrow_structs cimport ArrowArray, ArrowArrayStream, ArrowSchema

cdef enum:
    MOST_DEPTH = 64  # of nested types, as in pyarrow

cdef int64_t MOST_ROWS = <int64_t>1 << 47  # as many as a process has addresses: no position in a buffer overflows


cdef const char *find_contradiction(const ArrowSchema *schema, const ArrowArray *array, int depth) noexcept nogil:
    """Return a text on a contradiction in an array, its children or its dictionary; NULL without one."""
    cdef const char *found
    cdef int64_t i
    if depth > MOST_DEPTH:
        return "types are nested too deeply"
    if array == NULL or schema == NULL:
        return "a child or a dictionary is missing"
    if not 0 <= array.length <= MOST_ROWS or not 0 <= array.offset <= MOST_ROWS - array.length:
        return "the length or the offset of an array is impossible"
    if array.null_count < -1 or array.null_count > array.length:
        return "an array has more nulls than rows"
    if array.n_buffers < 0 or (array.n_buffers and array.buffers == NULL):
        return "an array has no buffers"
    if array.n_children != schema.n_children or schema.n_children < 0:
        return "an array has more or fewer children than its type"
    if array.n_children and (array.children == NULL or schema.children == NULL):
        return "a child or a dictionary is missing"
    for i in range(array.n_children):
        found = find_contradiction(schema.children[i], array.children[i], depth + 1)
        if found != NULL:
            return found
    if schema.dictionary != NULL:
        return find_contradiction(schema.dictionary, array.dictionary, depth + 1)
    return NULL


class CheckedArray:
    """An object with ``__arrow_c_array__`` whose array has been checked. Raises: ValueError for a contradiction."""

    def __init__(self, source):
        self.capsules = source.__arrow_c_array__()
        schema_capsule, array_capsule = self.capsules
        schema = <const ArrowSchema *>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
        array = <const ArrowArray *>PyCapsule_GetPointer(array_capsule, "arrow_array")
        if schema.release != NULL and array.release != NULL:  # otherwise it was consumed before, and pyarrow raises
            found = find_contradiction(schema, array, 0)
            if found != NULL:
                raise ValueError(f"the Arrow data contradicts itself: {found.decode()}")

    def __arrow_c_array__(self, requested_schema=None):
        return self.capsules


class CheckedStream:
    """An object with ``__arrow_c_stream__`` whose arrays are checked as they come; a contradiction is EINVAL."""

    def __init__(self, source):
        self.capsule = checked_stream(source.__arrow_c_stream__())

    def __arrow_c_stream__(self, requested_schema=None):
        return self.capsule


cdef struct Checked:
    ArrowArrayStream given
    ArrowSchema schema
    const char *error  # of the last call; NULL if the given stream has the error


cdef object checked_stream(capsule):
    cdef ArrowArrayStream *given = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    cdef ArrowArrayStream *stream
    cdef Checked *checked
    if given.release == NULL:
        raise ValueError("the Arrow data was consumed before: its capsule can be used once")
    stream, checked = <ArrowArrayStream *>malloc(sizeof(ArrowArrayStream)), <Checked *>malloc(sizeof(Checked))
    if stream == NULL or checked == NULL:
        free(stream)
        free(checked)
        raise MemoryError
    memset(checked, 0, sizeof(Checked))
    checked.given = given[0]
    given.release = NULL
    stream.get_schema, stream.get_next, stream.get_last_error = get_schema, get_next, get_last_error
    stream.release, stream.private_data = release, checked
    return PyCapsule_New(stream, "arrow_array_stream", free_stream)


cdef void free_stream(capsule) noexcept:
    stream = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


cdef int get_schema(ArrowArrayStream *stream, ArrowSchema *ret) noexcept nogil:
    checked = <Checked *>stream.private_data
    checked.error = NULL
    return checked.given.get_schema(&checked.given, ret)


cdef int get_next(ArrowArrayStream *stream, ArrowArray *ret) noexcept nogil:
    cdef int code
    checked = <Checked *>stream.private_data
    checked.error = NULL
    if checked.schema.release == NULL:
        code = checked.given.get_schema(&checked.given, &checked.schema)
        if code != 0:
            return code
    code = checked.given.get_next(&checked.given, ret)
    if code != 0 or ret.release == NULL:
        return code
    checked.error = find_contradiction(&checked.schema, ret, 0)
    if checked.error == NULL:
        return 0
    ret.release(ret)
    return EINVAL


cdef const char *get_last_error(ArrowArrayStream *stream) noexcept nogil:
    checked = <Checked *>stream.private_data
    return checked.error if checked.error != NULL else checked.given.get_last_error(&checked.given)


cdef void release(ArrowArrayStream *stream) noexcept nogil:
    checked = <Checked *>stream.private_data
    if checked.schema.release != NULL:
        checked.schema.release(&checked.schema)
    checked.given.release(&checked.given)
    free(checked)
    stream.release = NULL
