"""csrc/ as seen from Python: for the tests, and for what has only bytes in hand."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint8_t, uint32_t

from rocketstore.kernels.csrc cimport (
    rs_cpu_level,
    rs_cpu_name,
    rs_cpu_supported,
    rs_java_hash_utf8_lossy,
)


cdef extern from "rs_crc32.h" nogil:
    uint32_t rs_crc32(uint32_t crc, const void *data, size_t n) noexcept


def cpu_level():
    """Return the name of the SIMD path in use: portable, sse4, avx2 or avx512."""
    return rs_cpu_name(rs_cpu_level()).decode()


def cpu_supported():
    """Return the name of the best SIMD path that this machine has."""
    return rs_cpu_name(rs_cpu_supported()).decode()


def crc32(data, uint32_t value=0):
    """Return the CRC-32 (IEEE) of bytes, going on from ``value``, as ``zlib.crc32`` does.

    Parameters: data: any contiguous buffer. value: the CRC of what stands before, 0 at the start.
    Raises: TypeError or BufferError if ``data`` is no contiguous buffer.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            value = rs_crc32(value, view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)
    return value


def java_hash_utf8(data):
    """Return Java's ``new String(data, UTF_8).hashCode()``: malformed sequences count as U+FFFD.

    Parameters: data: any contiguous buffer.
    """
    cdef Py_buffer view
    cdef uint32_t code
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        code = rs_java_hash_utf8_lossy(0, <const uint8_t *>view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)
    return <int32_t>code
