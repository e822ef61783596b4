"""The functions of csrc/ for callers that work on plain bytes. ``tests/c`` tests those that only kernels call."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t

from rocketstore.kernels.csrc cimport (
    RS_MORE_SEPARATORS,
    rs_crc32,
    rs_cpu_level,
    rs_cpu_name,
    rs_java_number,
    rs_separators,
    rs_utf8_repair,
)


def cpu_level():
    """Return the name of the SIMD path in use: portable, sse4, avx2 or avx512."""
    return rs_cpu_name(rs_cpu_level()).decode()



def crc32(data, uint32_t value=0):
    """Return the CRC-32 (IEEE) of bytes, continuing from ``value``, as ``zlib.crc32`` does.

    Parameters: data: any contiguous buffer. value: the CRC of the bytes before, 0 at the start.
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



def parse_java_number(str text, int64_t least, int64_t most):
    """Return the number that Java reads from a text; None if Java refuses the text.

    The text is a sign or none, then digits of any script up to U+FFFF that JDK 17 knows.
    Parameters: least, most: the range of the Java type, inclusive; 0 must be in it.
    Source: Short.parseShort, Integer.parseInt, Long.parseLong, Character.digit.
    """
    cdef int64_t number
    cdef bytes data = text.encode("utf-8", "surrogatepass")  # surrogates become malformed UTF-8, which is no digit
    if not rs_java_number(<const uint8_t *>data, <size_t>len(data), least, most, &number):
        return None
    return number


def separators(bytes data):
    """Return the positions of all bytes 0x01 and 0x02 in order.

    Raises: ValueError if there are more than 32767 bytes, the longest property string.
    """
    cdef uint16_t[32767 + RS_MORE_SEPARATORS] positions
    cdef size_t count, i
    if len(data) > 32767:
        raise ValueError(f"data: {len(data)} bytes, must be 32767 at most")
    count = rs_separators(<const uint8_t *>data, <size_t>len(data), positions)
    return [positions[i] for i in range(count)]




def utf8_repair(bytes data):
    """Return the text that Java's ``new String(data, UTF_8)`` is, in UTF-8."""
    cdef bytes text = PyBytes_FromStringAndSize(NULL, 3 * len(data))
    cdef size_t n = rs_utf8_repair(<const uint8_t *>data, <size_t>len(data), <uint8_t *>text)
    return text[:n]
