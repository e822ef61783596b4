"""Mapping: a file in memory, where a page that the disk cannot read is an error and does not end the process."""

import errno
import os
import sys

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_SetFromErrno
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from posix.mman cimport (
    MAP_ANONYMOUS,
    MAP_FAILED,
    MAP_FIXED,
    MAP_PRIVATE,
    MAP_SHARED,
    MADV_WILLNEED,
    MS_SYNC,
    PROT_READ,
    PROT_WRITE,
    madvise,
    mmap,
    msync,
    munmap,
)
from posix.stat cimport fstat, stat, struct_stat

from rocketstore.kernels.csrc cimport RS_NO_FAULT, rs_guard_add, rs_guard_remove, rs_page_size

from rocketstore.errors import CorruptFileError, DiskReadError


cdef extern from *:
    """
    #define rs_exports_add(counter, n) __atomic_add_fetch((counter), (n), __ATOMIC_SEQ_CST)
    """
    int rs_exports_add(int *counter, int n) noexcept nogil


cdef class Mapping:
    """The first ``size`` bytes of a file, shared with all processes that have it open. Any number of buffer exports.

    With ``size_in_file`` the file has only so many of the bytes, and the rest of the memory is zeros.

    Where the disk cannot read a page, or the file was cut, the memory has zeros from the first access on, and the
    mapping is faulty for good: calls on a Buffer of it raise. Map the file again to try again.

    The mapping keeps no descriptor.

    Parameters: fd: of the file. size: bytes, at least 1. size_in_file: bytes, for reading only; None for ``size``.
    path: for errors. writable: changes go to the file.
    place: a local path by which the file's length is looked up later; None if the file has no such path. tolerant:
    calls on a Buffer do not raise for a page that cannot be read: ``lost_ranges`` lists the page.
    Raises: OSError, MemoryError.
    """

    def __cinit__(self, int fd, Py_ssize_t size, path, *, size_in_file=None, bint writable=False, place=None,
                  bint tolerant=False):
        cdef struct_stat status
        cdef void *data
        cdef int access = PROT_READ | (PROT_WRITE if writable else 0)
        self.path, self.writable = path, writable
        self._place = None if place is None else os.fsencode(place)
        sys.audit("mmap.__new__", fd, size, 2 if writable else 1, 0)  # ACCESS_WRITE, ACCESS_READ of mmap
        if size < 1:
            raise ValueError(f"size={size}: must be at least 1")
        self.size_in_file = size if size_in_file is None else size_in_file
        if not (0 <= self.size_in_file <= size and (self.size_in_file == size or not writable)):
            raise ValueError(f"size_in_file={size_in_file}: must be 0 to {size}, and {size} for writing")
        if fstat(fd, &status) != 0:
            PyErr_SetFromErrno(OSError)
        self._device, self._inode = status.st_dev, status.st_ino
        if tolerant:
            self.lost_pages = <uint64_t *>calloc(2 + size // (64 * rs_page_size()), sizeof(uint64_t))
            if self.lost_pages == NULL:
                raise MemoryError
        if self.size_in_file == size:
            data = mmap(NULL, size, access, MAP_SHARED, fd, 0)
        else:
            data = mmap(NULL, size, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        if data == MAP_FAILED:
            PyErr_SetFromErrno(OSError)
        self.data, self.size = <uint8_t *>data, size
        if 0 < self.size_in_file < size:
            data = mmap(data, self.size_in_file, access, MAP_SHARED | MAP_FIXED, fd, 0)
            if data == MAP_FAILED:
                PyErr_SetFromErrno(OSError)
        self.guard = rs_guard_add(data, size, writable, self.lost_pages)
        if self.guard == NULL:
            raise MemoryError("no room to guard a mapping against faults")

    def __dealloc__(self):
        self._unmap()
        free(self.lost_pages)

    cdef void _unmap(self) noexcept:
        if self.guard != NULL:
            rs_guard_remove(self.guard)
            self.guard = NULL
        if self.data != NULL:
            munmap(self.data, self.size)
            self.data = NULL

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self.data == NULL:
            raise ValueError(f"{self.path} is closed")
        PyBuffer_FillInfo(view, self, self.data, self.size, not self.writable, flags)
        rs_exports_add(&self._exports, 1)

    def __releasebuffer__(self, Py_buffer *view):
        rs_exports_add(&self._exports, -1)

    def __len__(self):
        return self.size

    @property
    def closed(self):
        """Whether the memory was unmapped."""
        return self.data == NULL

    def lost_ranges(self, int64_t first=0, int64_t last=INT64_MAX):
        """Return the ranges that could not be read so far, from ``first`` to before ``last``: (begin, end), in order.

        Only a tolerant mapping has ranges. They consist of whole pages.
        """
        cdef int64_t page = rs_page_size(), begin = -1, i
        cdef int64_t first_page = max(first, <int64_t>0) // page, stop = -(-min(last, <int64_t>self.size) // page)
        cdef list found = []
        if self.lost_pages == NULL or self.guard == NULL or self.guard.first_fault == RS_NO_FAULT:
            return found
        for i in range(first_page, stop + 1):
            if i < stop and self.lost_pages[i // 64] >> (i % 64) & 1:
                begin = i * page if begin < 0 else begin
            elif begin >= 0:
                found.append((begin, min(i * page, self.size)))
                begin = -1
        return found

    def madvise(self, int option, Py_ssize_t start=0, length=None):
        """Tell the system how bytes will be used, all from ``start`` on if ``length`` is not given.

        Raises: OSError; ValueError outside the mapping.
        """
        cdef Py_ssize_t n = self.size - start if length is None else length
        if self.data == NULL or not 0 <= start <= self.size or not 0 <= n <= self.size - start:
            raise ValueError(f"{self.path}: bytes {start} to {start + n} are not mapped")
        if madvise(self.data + start, n, option) != 0:
            PyErr_SetFromErrno(OSError)

    def read_ahead(self, const int64_t[::1] begins, const int64_t[::1] ends):
        """Let the system begin to read many ranges, int64[n], bytes; each begin is a multiple of the page size.

        Raises: ValueError for a range that is not mapped.
        """
        cdef Py_ssize_t i, n = begins.shape[0]
        if ends.shape[0] != n:
            raise ValueError("begins and ends differ in length")
        for i in range(n):
            if self.data == NULL or not 0 <= begins[i] <= ends[i] <= self.size:
                raise ValueError(f"{self.path}: bytes {begins[i]} to {ends[i]} are not mapped")
        with nogil:
            for i in range(n):
                madvise(self.data + begins[i], <size_t>(ends[i] - begins[i]), MADV_WILLNEED)  # the system may refuse

    def flush(self):
        """Write the changes of the mapping to the disk. Raises: OSError."""
        cdef int result
        if self.data == NULL:
            raise ValueError(f"{self.path} is closed")
        with nogil:
            result = msync(self.data, self.size, MS_SYNC)
        if result != 0:
            PyErr_SetFromErrno(OSError)

    def close(self):
        """Unmap the memory. Raises: BufferError while a buffer export uses it."""
        if rs_exports_add(&self._exports, 0):
            raise BufferError(f"{self.path}: the memory is in use")
        self._unmap()

    cdef int64_t file_size(self) noexcept:
        """Return the present length of the file, bytes; the length that was mapped if the file cannot be queried."""
        cdef struct_stat status
        if self._place is None or stat(self._place, &status) != 0:
            return self.size_in_file
        return status.st_size if (status.st_dev, status.st_ino) == (self._device, self._inode) else self.size_in_file

    cdef int raise_fault(self) except -1:
        """Raise the error of the first fault."""
        cdef int64_t offset = self.guard.first_fault, size = self.file_size()
        if size < self.size_in_file:
            reason = f"the file was cut from {self.size_in_file} bytes while open"
            raise CorruptFileError(self.path, size, "file size", reason)
        raise DiskReadError(self.path, offset, errno.EIO)
