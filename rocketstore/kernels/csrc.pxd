# All declarations of csrc/, so that no other module declares foreign functions.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "rs_bytes.h" nogil:
    bint rs_fits(uint64_t length, uint64_t pos, uint64_t need) noexcept
    uint32_t rs_load_be32(const void *p) noexcept
    uint64_t rs_load_be64(const void *p) noexcept
    void rs_store_be32(void *p, uint32_t value) noexcept
    void rs_store_be64(void *p, uint64_t value) noexcept
    uint64_t rs_copy_short(uint8_t *ret, const uint8_t *data, size_t n) noexcept
    void rs_acquire_fence() noexcept
    void rs_release_fence() noexcept
    uint32_t rs_load_be32_acquire(const void *p) noexcept
    uint64_t rs_load_be64_acquire(const void *p) noexcept
    void rs_store_be32_release(void *p, uint32_t value) noexcept
    void rs_store_be64_release(void *p, uint64_t value) noexcept
    void RS_PREFETCH_R(const void *p) noexcept
    void RS_PREFETCH_W(const void *p) noexcept
    void RS_PREFETCH_R_L2(const void *p) noexcept
    void rs_touch(const uint8_t *p) noexcept


cdef extern from "rs_keyed_hash.h" nogil:
    uint64_t rs_keyed_hash(const uint64_t *key, uint32_t number, const uint8_t *data, size_t n) noexcept


cdef extern from "rs_cpu.h" nogil:
    int rs_cpu_level() noexcept
    const char *rs_cpu_name(int level) noexcept
    bint rs_cpu_is_amd() noexcept


cdef extern from "rs_columns.h" nogil:
    void rs_columns_8_4_8(const uint8_t *rows, size_t n, int64_t *first_ret, int32_t *second_ret,
                          int64_t *third_ret) noexcept


cdef extern from "rs_crc32.h" nogil:
    uint32_t rs_crc32(uint32_t crc, const void *data, size_t n) noexcept


cdef extern from "rs_java_hash.h" nogil:
    uint32_t rs_java_hash_latin1(uint32_t seed, const uint8_t *units, size_t n) noexcept
    uint32_t rs_java_hash_ucs2(uint32_t seed, const uint16_t *units, size_t n) noexcept
    bint rs_java_hash_ucs4(uint32_t seed, const uint32_t *points, size_t n, uint32_t *hash_ret) noexcept
    bint rs_java_hash_utf8(uint32_t seed, const uint8_t *data, size_t n, uint32_t *hash_ret) noexcept
    uint32_t rs_java_hash_utf8_lossy(uint32_t seed, const uint8_t *data, size_t n) noexcept
    size_t rs_java_hash_column32(const uint8_t *data, const int32_t *offsets, size_t n, const uint32_t *seeds,
                                 size_t seed_step, uint32_t *hashes_ret) noexcept
    size_t rs_java_hash_column64(const uint8_t *data, const int64_t *offsets, size_t n, const uint32_t *seeds,
                                 size_t seed_step, uint32_t *hashes_ret) noexcept


cdef extern from "rs_java_number.h" nogil:
    bint rs_java_number(const uint8_t *data, size_t n, int64_t least, int64_t most, int64_t *ret) noexcept


cdef extern from "rs_scan_bytes.h" nogil:
    enum:
        RS_MORE_SEPARATORS
    size_t rs_separators(const uint8_t *data, size_t n, uint16_t *positions_ret) noexcept
    size_t rs_find_space(const uint8_t *data, size_t n) noexcept
    size_t rs_find_magic(const uint8_t *data, size_t n) noexcept


cdef extern from "rs_text.h" nogil:
    enum rs_text_end:
        RS_JSON_ASCII
        RS_JSON_UNICODE
        RS_CSV_PLAIN
        RS_CSV_QUOTED
    size_t rs_copy_text(uint8_t *ret, const uint8_t *data, size_t n, rs_text_end end) noexcept
    size_t rs_decimal(uint8_t *ret, int64_t value) noexcept
    size_t rs_base64(uint8_t *ret, const uint8_t *data, size_t n) noexcept


cdef extern from "rs_utf8.h" nogil:
    enum:
        RS_UTF8_MALFORMED
    size_t rs_utf8_decode(const uint8_t *data, size_t n, uint32_t *point_ret) noexcept
    bint rs_utf8_valid(const uint8_t *data, size_t n) noexcept
    size_t rs_utf8_repair(const uint8_t *data, size_t n, uint8_t *ret) noexcept


cdef extern from "rs_fault_guard.h" nogil:
    enum:
        RS_NO_FAULT
    ctypedef struct rs_guard:
        int64_t first_fault
    rs_guard *rs_guard_add(void *address, size_t size, bint is_writable, uint64_t *lost_pages) noexcept
    void rs_guard_remove(rs_guard *guard) noexcept
    size_t rs_page_size() noexcept
