/* Byte order, bounds and prefetch: the only place that knows the host's endianness. */
#ifndef RS_BYTES_H
#define RS_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define RS_BE32(v) __builtin_bswap32(v)
#define RS_BE64(v) __builtin_bswap64(v)
#define RS_LE32(v) (v)
#define RS_LE64(v) (v)
#elif __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define RS_BE32(v) (v)
#define RS_BE64(v) (v)
#define RS_LE32(v) __builtin_bswap32(v)
#define RS_LE64(v) __builtin_bswap64(v)
#else
#error "neither a little-endian nor a big-endian host"
#endif

/* A prefetch never faults, so the address may lie outside the buffer. R_L2 saves the few L1 miss buffers. */
#define RS_PREFETCH_R(p) __builtin_prefetch((p), 0, 3)
#define RS_PREFETCH_W(p) __builtin_prefetch((p), 1, 3)
#define RS_PREFETCH_R_L2(p) __builtin_prefetch((p), 0, 2)

/* Read a byte: a load, unlike a hint, starts the hardware prefetcher. */
static inline void rs_touch(const uint8_t *p)
{
    (void)*(const volatile uint8_t *)p;
}

/* Whether `need` bytes at `pos` lie inside a buffer of `len` bytes. No sum, so nothing wraps. */
static inline bool rs_fits(uint64_t len, uint64_t pos, uint64_t need)
{
    return pos <= len && need <= len - pos;
}

/* Plain loads and stores: any alignment, exactly sizeof(value) bytes touched. */
static inline uint32_t rs_load_be32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return RS_BE32(v);
}

static inline uint64_t rs_load_be64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return RS_BE64(v);
}

static inline uint64_t rs_load_le64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return RS_LE64(v);
}

static inline void rs_store_be32(void *p, uint32_t value)
{
    uint32_t v = RS_BE32(value);
    memcpy(p, &v, sizeof v);
}

static inline void rs_store_be64(void *p, uint64_t value)
{
    uint64_t v = RS_BE64(value);
    memcpy(p, &v, sizeof v);
}

/* Copies `n` bytes that do not overlap, exactly these; nonzero if one of them has its high bit set. For short text. */
static inline uint64_t rs_copy_short(uint8_t *restrict ret, const uint8_t *restrict data, size_t n)
{
    uint64_t seen = 0, word;
    if (n >= 8) {
        size_t i = 0;
        for (; i + 8 <= n; i += 8) {
            memcpy(&word, data + i, 8);
            memcpy(ret + i, &word, 8);
            seen |= word;
        }
        /* The last whole word, which overlaps the one before. */
        memcpy(&word, data + n - 8, 8);
        memcpy(ret + n - 8, &word, 8);
        seen |= word;
    } else if (n >= 4) {
        uint32_t first, last;
        memcpy(&first, data, 4);
        memcpy(&last, data + n - 4, 4);
        memcpy(ret, &first, 4);
        memcpy(ret + n - 4, &last, 4);
        seen = first | last;
    } else {
        for (size_t i = 0; i < n; i++) {
            ret[i] = data[i];
            seen |= data[i];
        }
    }
    return seen & 0x8080808080808080u;
}

/* A read fence: no later read moves before it, and no earlier read behind it. */
static inline void rs_acquire_fence(void)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/* A write fence: a thread that sees a later write sees all earlier writes too. */
static inline void rs_release_fence(void)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* Ordered forms, for memory that other threads use meanwhile. `p` is aligned to the size of the value. */
static inline uint32_t rs_load_be32_acquire(const void *p)
{
    return RS_BE32(__atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE));
}

static inline uint64_t rs_load_be64_acquire(const void *p)
{
    return RS_BE64(__atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE));
}

static inline void rs_store_be32_release(void *p, uint32_t value)
{
    __atomic_store_n((uint32_t *)p, RS_BE32(value), __ATOMIC_RELEASE);
}

static inline void rs_store_be64_release(void *p, uint64_t value)
{
    __atomic_store_n((uint64_t *)p, RS_BE64(value), __ATOMIC_RELEASE);
}

#endif
