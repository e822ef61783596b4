"""Buffer: the memory that kernels work on, and how many calls are using it."""

import time

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)

from libc.stdint cimport INT64_MAX, int64_t

from rocketstore.kernels.csrc cimport RS_NO_FAULT
from rocketstore.kernels.mapping cimport Mapping

from rocketstore.errors import CorruptFileError, StoreClosedError

cdef int64_t NO_FAULT = RS_NO_FAULT


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

    If the memory is a mapped file, and some of it could not be read, both raise. The call must discard what it read.

    Parameters: exporter: Mapping, bytes, bytearray or memoryview. path: what errors name. writable: ask for write
    access. Raises: BufferError if the exporter is not contiguous, or read-only and ``writable``.
    """

    def __cinit__(self, exporter, path=None, bint writable=False):
        PyObject_GetBuffer(exporter, &self.view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        self.data = <uint8_t *>self.view.buf
        self.size = self.view.len
        self.path = path
        self.writable = writable
        self.first_fault = &NO_FAULT
        owner = exporter.obj if isinstance(exporter, memoryview) else exporter
        if isinstance(owner, Mapping):
            self.mapping = owner
            if self.mapping.lost_pages == NULL:
                self.first_fault = &self.mapping.guard.first_fault

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    @property
    def closed(self):
        """Whether ``close`` was called."""
        return rs_counter_load(&self.closing) != 0

    def close(self):
        """Refuse later calls, wait for calls in flight, and release the export. Return False if closed before."""
        if rs_counter_exchange(&self.closing, 1):
            return False
        interrupt = None
        while rs_counter_load(&self.in_flight) != 0:
            try:
                time.sleep(0.0005)
            except BaseException as error:  # Ctrl-C: the pieces in flight are short, and end first
                interrupt = error
        self.first_fault = &NO_FAULT  # from here on the mapping may be unmapped
        PyBuffer_Release(&self.view)
        if interrupt is not None:
            raise interrupt
        return True

    @property
    def faulty(self):
        """Whether some of the memory could not be read. This never becomes False again: map the file again to retry."""
        return self.is_faulty()

    def lost_ranges(self, int64_t begin=0, int64_t end=INT64_MAX):
        """Return the ranges between begin and end of a tolerant mapping that could not be read so far: (begin, end)."""
        return [] if self.mapping is None else self.mapping.lost_ranges(begin, end)

    def check_faults(self):
        """Raise if some of the memory could not be read. Then bytes that were read through a view may be wrong zeros.

        Raises: DiskReadError; CorruptFileError if the file was cut; StoreClosedError.
        """
        self.enter()
        self.leave()

    def __enter__(self):
        """Count a call in: the memory stays mapped until the call leaves. Raises: StoreClosedError after ``close``."""
        self.enter()
        return self

    def __exit__(self, *exc):
        self.leave()

    def use(self, function, *arguments):
        """Call a C function while the memory stays mapped. Raises: StoreClosedError after ``close``.

        A ``with`` block runs Python code, and so signal handlers. A handler that closes the buffer would then wait for
        its own thread.
        """
        with self:
            return function(*arguments)

    cdef int enter(self) except -1:
        rs_counter_add(&self.in_flight, 1)
        if rs_counter_load(&self.closing):
            rs_counter_add(&self.in_flight, -1)
            raise StoreClosedError(f"{self.path} is closed")
        if self.is_faulty():
            self.leave()
        return 0

    cdef int leave(self) except -1:
        cdef bint is_faulty = self.is_faulty()
        try:
            if is_faulty:
                self.mapping.raise_fault()
        finally:
            rs_counter_add(&self.in_flight, -1)
        return 0

    cdef int raise_fault(self) except -1:
        """Raise the error of the first fault, unless the buffer is closed."""
        self.enter()
        return self.leave()

    cdef int check_file_size(self) except -1:
        """Raise if the file is shorter than its mapping. Bytes that are cut off the last page cause no fault."""
        cdef int64_t size
        if self.mapping is None:
            return 0
        self.enter()
        size = self.mapping.file_size()
        self.leave()
        if size < self.mapping.size_in_file:
            reason = f"the file was cut from {self.mapping.size_in_file} bytes while open"
            raise CorruptFileError(self.path, size, "file size", reason)
        return 0
