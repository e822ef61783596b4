"""Buffer: the memory that kernels work on, and who is using it."""

import mmap
import time

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)

from rocketstore.errors import CorruptFileError, StoreClosedError


cdef extern from *:
    """
    /* Sequentially consistent: a call that counted itself in and close() must not both miss the other. */
    #define rs_counter_add(counter, n) __atomic_add_fetch((counter), (n), __ATOMIC_SEQ_CST)
    #define rs_counter_load(counter) __atomic_load_n((counter), __ATOMIC_SEQ_CST)
    #define rs_counter_exchange(counter, n) __atomic_exchange_n((counter), (n), __ATOMIC_SEQ_CST)
    """
    int rs_counter_add(int *counter, int n) noexcept nogil
    int rs_counter_load(int *counter) noexcept nogil
    int rs_counter_exchange(int *counter, int n) noexcept nogil


cdef class Buffer:
    """Holds the export of a mapping, or of any other contiguous buffer, until it is closed.

    A kernel counts itself in with ``enter`` for each piece of work and out with ``leave``; ``close`` waits for the
    pieces in flight, and later calls raise StoreClosedError. So no pointer outlives the memory.

    Parameters: exporter: mmap, bytes, bytearray or memoryview. path: what errors name. writable: ask for write
    access. Raises: BufferError if the exporter is not contiguous, or read-only and ``writable``.
    """

    def __cinit__(self, exporter, path=None, bint writable=False):
        PyObject_GetBuffer(exporter, &self.view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        self.data = <uint8_t *>self.view.buf
        self.size = self.view.len
        self.path = path
        self.writable = writable
        self.file_size = file_size_of(exporter)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    @property
    def closed(self):
        """Whether ``close`` was called."""
        return rs_counter_load(&self.closing) != 0

    def close(self):
        """Refuse later calls, wait for those in flight, and give the export back. False if that was done before."""
        if rs_counter_exchange(&self.closing, 1):
            return False
        interrupt = None
        while rs_counter_load(&self.in_flight) != 0:
            try:
                time.sleep(0.0005)
            except BaseException as error:  # Ctrl-C: the pieces in flight are short, and end first
                interrupt = error
        PyBuffer_Release(&self.view)
        if interrupt is not None:
            raise interrupt
        return True

    def __enter__(self):
        """Count a call in: the memory stays until it leaves. Raises: StoreClosedError after ``close``."""
        self.enter()
        return self

    def __exit__(self, *exc):
        self.leave()

    def use(self, function, *arguments):
        """Call a function of C's while the memory, and its file, stay. Raises: StoreClosedError after ``close``.

        In ``with`` Python runs, and so do handlers of signals: one that closes would wait for its own thread.
        """
        with self:
            return function(*arguments)

    cdef int enter(self) except -1:
        rs_counter_add(&self.in_flight, 1)
        if rs_counter_load(&self.closing):
            rs_counter_add(&self.in_flight, -1)
            raise StoreClosedError(f"{self.path} is closed")
        return 0

    cdef void leave(self) noexcept:
        rs_counter_add(&self.in_flight, -1)

    cdef int check_file_size(self) except -1:
        """Raise if the file is shorter than its mapping: touching the lost pages would kill the process."""
        self.enter()
        try:
            size = self.size if self.file_size is None else self.file_size()
        finally:
            self.leave()
        if size < self.size:
            raise CorruptFileError(self.path, size, "file size", f"the file was cut from {self.size} bytes while open")
        return 0


def file_size_of(exporter):
    """Return what tells the size of the file behind an mmap as it is now, None where there is no file."""
    if not isinstance(exporter, mmap.mmap):
        return None
    try:
        exporter.size()
    except OSError:  # anonymous memory
        return None
    return exporter.size
