#include "rs_scan_bytes.h"

#include "rs_bytes.h"
#include "rs_cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- separators -------------------------------------------------------------------------------------------- */

/*
 * Bit i of a mask: byte i is a separator. The odd length comes first, so that only strings of less than 64 bytes are
 * a special case. Eight positions are written for a mask, whether it has them or not, so that no branch depends on
 * where the separators are: the bytes behind each mask, eight at least, have room for one each.
 *
 * mask_of(p) is for the SIZE bytes at p, `few` for strings of less; first_bit(0) is any number.
 */
#define DEFINE_SEPARATORS(name, TARGET, SIZE, mask_of, first_bit, few)                                        \
    TARGET static inline uint64_t name##_mask(const uint8_t *p, size_t n)                                     \
    {                                                                                                         \
        uint64_t mask = mask_of(p + n - SIZE) << (n - SIZE);                                                  \
        for (size_t i = 0; n - i > SIZE; i += SIZE)                                                           \
            mask |= mask_of(p + i) << i;                                                                      \
        return mask;                                                                                          \
    }                                                                                                         \
                                                                                                              \
    TARGET static inline size_t name##_write(uint64_t mask, size_t base, uint16_t *ret)                       \
    {                                                                                                         \
        size_t count = (size_t)__builtin_popcountll(mask);                                                    \
        for (size_t k = 0; k < 8; k++, mask &= mask - 1)                                                      \
            ret[k] = (uint16_t)(base + first_bit(mask));                                                      \
        for (size_t k = 8; k < count; k++, mask &= mask - 1)                                                  \
            ret[k] = (uint16_t)(base + first_bit(mask));                                                      \
        return count;                                                                                         \
    }                                                                                                         \
                                                                                                              \
    TARGET static size_t name(const uint8_t *data, size_t n, uint16_t *ret)                                   \
    {                                                                                                         \
        if (n < SIZE)                                                                                         \
            return few(data, n, ret);                                                                         \
        size_t i = (n - 1) % 64 + 1;                                                                          \
        uint64_t mask = n < 64 ? name##_mask(data, n) : name##_mask(data, 64) & ~UINT64_C(0) >> (64 - i);     \
        size_t count = name##_write(mask, 0, ret);                                                            \
        for (; i < n; i += 64)                                                                                \
            count += name##_write(name##_mask(data + i, 64), i, ret + count);                                 \
        return count;                                                                                         \
    }

static inline size_t first_bit(uint64_t mask)
{
    return (size_t)__builtin_ctzll(mask | UINT64_C(1) << 63);
}

static size_t separators_few(const uint8_t *data, size_t n, uint16_t *ret)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (data[i] == 1 || data[i] == 2)
            ret[count++] = (uint16_t)i;
    return count;
}

static inline uint64_t mask_8(const uint8_t *p)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), v = rs_load_le64(p);
    uint64_t hits = rs_zero_bytes(v ^ ones) | rs_zero_bytes(v ^ 2 * ones);
    return (hits >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

DEFINE_SEPARATORS(separators_portable, , 8, mask_8, first_bit, separators_few)

#if defined(__x86_64__)
#define SSE4 __attribute__((target("sse4.1,popcnt")))
#define AVX2 __attribute__((target("avx2,bmi,popcnt")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")))

SSE4 static inline uint64_t mask_16(const uint8_t *p)
{
    __m128i v = _mm_loadu_si128((const __m128i *)p);
    v = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8(1)), _mm_cmpeq_epi8(v, _mm_set1_epi8(2)));
    return (uint32_t)_mm_movemask_epi8(v);
}

AVX2 static inline uint64_t mask_32(const uint8_t *p)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)p);
    v = _mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8(1)), _mm256_cmpeq_epi8(v, _mm256_set1_epi8(2)));
    return (uint32_t)_mm256_movemask_epi8(v);
}

DEFINE_SEPARATORS(separators_sse4, SSE4, 16, mask_16, first_bit, separators_portable)
DEFINE_SEPARATORS(separators_avx2, AVX2, 32, mask_32, _tzcnt_u64, separators_sse4)

/* Masked bytes are not read. */
AVX512 static size_t separators_avx512(const uint8_t *data, size_t n, uint16_t *ret)
{
    uint8_t numbers[64];
    for (int i = 0; i < 64; i++)
        numbers[i] = (uint8_t)i;
    const __m512i places = _mm512_loadu_si512(numbers), ones = _mm512_set1_epi8(1);
    size_t count = 0;
    for (size_t i = 0; i < n; i += 64) {
        __mmask64 inside = n - i < 64 ? (UINT64_C(1) << (n - i)) - 1 : ~UINT64_C(0);
        __m512i v = _mm512_maskz_loadu_epi8(inside, data + i);
        __mmask64 hits = _mm512_cmple_epu8_mask(_mm512_sub_epi8(v, ones), ones);
        __m512i found = _mm512_maskz_compress_epi8(hits, places), base = _mm512_set1_epi16((short)i);
        size_t n_found = (size_t)__builtin_popcountll(hits);
        __m512i low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(found));
        _mm512_storeu_si512(ret + count, _mm512_add_epi16(low, base));
        if (n_found > 32) {
            __m512i high = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(found, 1));
            _mm512_storeu_si512(ret + count + 32, _mm512_add_epi16(high, base));
        }
        count += n_found;
    }
    return count;
}
#endif

static size_t (*separators_best)(const uint8_t *data, size_t n, uint16_t *ret) = separators_portable;

/* At load, before any thread can call. */
__attribute__((constructor)) static void prepare(void)
{
#if defined(__x86_64__)
    int level = rs_cpu_level();
    if (level == RS_CPU_AVX512 && __builtin_cpu_supports("avx512vbmi2"))
        separators_best = separators_avx512;
    else if (level >= RS_CPU_AVX2 && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt"))
        separators_best = separators_avx2;
    else if (level >= RS_CPU_SSE4 && __builtin_cpu_supports("popcnt"))
        separators_best = separators_sse4;
#endif
}

size_t rs_separators(const uint8_t *data, size_t n, uint16_t *positions_ret)
{
    return separators_best(data, n, positions_ret);
}

/* ---- magic codes ------------------------------------------------------------------------------------------- */

enum { BLOCK = 256, FETCH_AHEAD = 4096 };

/* Compilers use the vector instructions of the machine; 16 bytes at a time are faster than memory everywhere. */
typedef uint16_t lanes __attribute__((vector_size(16)));

/*
 * Whether a magic code may begin in the block or one byte before it. One of any two bytes that follow each other has an
 * even place, so it is enough to look there for the first two bytes and for the middle two.
 */
static inline bool may_hold_magic(const uint8_t *block)
{
    uint16_t front, middle;
    memcpy(&front, "\xDA\xA3", 2);
    memcpy(&middle, "\xA3\x20", 2);
    lanes hits = {0};
    for (size_t i = 0; i < BLOCK; i += sizeof(lanes)) {
        lanes v;
        memcpy(&v, block + i, sizeof v);
        hits |= (lanes)(v == front) | (lanes)(v == middle);
    }
    uint64_t halves[2];
    memcpy(halves, &hits, sizeof halves);
    return (halves[0] | halves[1]) != 0;
}

size_t rs_find_magic(const uint8_t *data, size_t n)
{
    size_t p = 0;
    for (size_t block = 0; n >= 4 && p <= n - 4; block += BLOCK) {
        for (size_t line = 0; line < BLOCK; line += 64)
            RS_PREFETCH_R((const void *)((uintptr_t)data + block + FETCH_AHEAD + line));
        if (n - block >= BLOCK && !may_hold_magic(data + block)) {
            p = block + BLOCK - 1;
            continue;
        }
        for (; p < block + BLOCK && p <= n - 4; p++) {
            uint32_t code = rs_load_be32(data + p);
            if (code == 0xDAA320A7 || code == 0xDAA320AB)
                return p;
        }
    }
    return n;
}
