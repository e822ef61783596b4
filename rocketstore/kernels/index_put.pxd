from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rocketstore.kernels.index_item cimport IndexView


# A file that the stream form fills: its slots, in the byte order of the host.
cdef struct Stream:
    uint32_t *table
    uint32_t hash_slot_num
    uint32_t hash_slot_count
    int64_t begin_timestamp


cdef Py_ssize_t put_items(const IndexView *view, const int32_t *key_hashes, const int64_t *phy_offsets,
                          const int64_t *store_timestamps, Py_ssize_t n, bint counts_every_put) noexcept nogil
cdef void stage_items(Stream *stream, uint8_t *staged, Py_ssize_t done, const int32_t *key_hashes,
                      const int64_t *phy_offsets, const int64_t *store_timestamps, Py_ssize_t n) noexcept nogil
