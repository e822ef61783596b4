"""The metadata of a schema in the Arrow C data interface, with names that occur more than once, in order.

    int32 number of pairs, then for each pair: int32 length of the name, name, int32 length of the value, value

The numbers have the byte order of the host.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from rocketstore.kernels.arrow_structs cimport ArrowSchema

__all__ = ["read_metadata"]


cdef bytes read_text(const char **place):
    cdef int32_t size = read_number(place)
    text = place[0][:max(size, 0)]
    place[0] += max(size, 0)
    return text


cdef int32_t read_number(const char **place) noexcept:
    cdef int32_t number
    memcpy(&number, place[0], sizeof(number))
    place[0] += sizeof(number)
    return number


def read_metadata(source):
    """Return the metadata of an object with ``__arrow_c_schema__`` as a list of pairs, bytes.

    pyarrow returns a dict, which has one value for each name.
    """
    capsule = source.__arrow_c_schema__()
    cdef const ArrowSchema *schema = <const ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    cdef const char *place = schema.metadata
    if place == NULL:
        return []
    return [(read_text(&place), read_text(&place)) for _ in range(read_number(&place))]
