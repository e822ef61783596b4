#include "rs_java_hash.h"

#include "rs_bytes.h"
#include "rs_cpu.h"
#include "rs_utf8.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { P1 = 31, P2 = 31 * 31, P3 = 31 * 31 * 31, P4 = 31 * 31 * 31 * 31 };

#define REPLACEMENT 0xFFFDu

/* ---- portable ---------------------------------------------------------------------------------------------- */

/* Four units a step: the chain of dependent multiplications is then a quarter as long. */
#define DEFINE_HASH_UNITS(name, type)                                                         \
    static uint32_t name(uint32_t h, const type *units, size_t n)                             \
    {                                                                                         \
        size_t i = 0;                                                                         \
        for (; n - i >= 4; i += 4)                                                            \
            h = h * P4 + (uint32_t)units[i] * P3 + (uint32_t)units[i + 1] * P2 +              \
                (uint32_t)units[i + 2] * P1 + units[i + 3];                                   \
        for (; i < n; i++)                                                                    \
            h = h * P1 + units[i];                                                            \
        return h;                                                                             \
    }

DEFINE_HASH_UNITS(hash_bytes, uint8_t)
DEFINE_HASH_UNITS(hash_shorts, uint16_t)

static inline uint32_t add_point(uint32_t h, uint32_t point)
{
    if (point < 0x10000)
        return h * P1 + point;
    uint32_t high = 0xD800 + ((point - 0x10000) >> 10);
    uint32_t low = 0xDC00 + ((point - 0x10000) & 0x3FF);
    return (h * P1 + high) * P1 + low;
}

bool rs_java_hash_utf8(uint32_t seed, const uint8_t *bytes, size_t n, uint32_t *hash_ret)
{
    uint32_t h = seed, point;
    for (size_t i = 0; i < n;) {
        i += rs_utf8_decode(bytes + i, n - i, &point);
        if (point == RS_UTF8_MALFORMED)
            return false;
        h = add_point(h, point);
    }
    *hash_ret = h;
    return true;
}

/* Keys are nearly always ASCII; other characters need the full decoder. */
static bool is_ascii(const uint8_t *bytes, size_t n)
{
    uint64_t seen = 0, word;
    size_t i = 0;
    for (; n - i >= sizeof word; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        seen |= word;
    }
    for (; i < n; i++)
        seen |= bytes[i];
    return (seen & UINT64_C(0x8080808080808080)) == 0;
}

uint32_t rs_java_hash_utf8_lossy(uint32_t seed, const uint8_t *bytes, size_t n)
{
    if (is_ascii(bytes, n))
        return rs_java_hash_latin1(seed, bytes, n);
    uint32_t h = seed, point;
    for (size_t i = 0; i < n;) {
        i += rs_utf8_decode(bytes + i, n - i, &point);
        h = add_point(h, point == RS_UTF8_MALFORMED ? REPLACEMENT : point);
    }
    return h;
}

uint32_t rs_java_hash_ucs2(uint32_t seed, const uint16_t *units, size_t n)
{
    return hash_shorts(seed, units, n);
}

bool rs_java_hash_ucs4(uint32_t seed, const uint32_t *points, size_t n, uint32_t *hash_ret)
{
    uint32_t h = seed;
    for (size_t i = 0; i < n; i++) {
        if (points[i] > 0x10FFFF)
            return false;
        h = add_point(h, points[i]);
    }
    *hash_ret = h;
    return true;
}

static bool hash_row(uint32_t seed, const uint8_t *bytes, size_t n, uint32_t *hash_ret)
{
    if (!is_ascii(bytes, n))
        return rs_java_hash_utf8(seed, bytes, n, hash_ret);
    *hash_ret = rs_java_hash_latin1(seed, bytes, n);
    return true;
}

/*
 * A column, four rows at a time by `quad`, which may decline them: then, and at the end, one by one.
 * quad(data, ends, seeds, seed_step, hashes) is for rows of at most QUAD_MAX bytes.
 */
enum { QUAD_MAX = 64 };

#define DEFINE_COLUMN(name, type, isa, quad)                                                                \
    isa static size_t name(const uint8_t *data, const type *offsets, size_t n, const uint32_t *seeds,       \
                           size_t seed_step, uint32_t *hashes)                                              \
    {                                                                                                       \
        int64_t total = offsets[n];                                                                         \
        for (size_t i = 0, next = 0; i < n; i = next) {                                                     \
            next = n - i < 4 ? n : i + 4;                                                                   \
            if (n - i >= 4 && 0 <= offsets[i] && offsets[i + 4] <= total && ARE_SHORT(offsets + i)) {       \
                int64_t ends[5] = {offsets[i], offsets[i + 1], offsets[i + 2], offsets[i + 3], offsets[i + 4]}; \
                if (quad(data, ends, seeds + i * seed_step, seed_step, hashes + i))                         \
                    continue;                                                                               \
            }                                                                                               \
            for (; i < next; i++) {                                                                         \
                int64_t start = offsets[i], end = offsets[i + 1];                                           \
                if (start < 0 || end < start || end > total ||                                              \
                    !hash_row(seeds[i * seed_step], data + start, (size_t)(end - start), hashes + i))       \
                    return i;                                                                               \
            }                                                                                               \
        }                                                                                                   \
        return n;                                                                                           \
    }

#define IS_SHORT(o) ((uint64_t)(o)[1] - (uint64_t)(o)[0] <= QUAD_MAX)
#define ARE_SHORT(o) (IS_SHORT(o) & IS_SHORT((o) + 1) & IS_SHORT((o) + 2) & IS_SHORT((o) + 3))

#define DECLINE(data, ends, seeds, seed_step, hashes) ((void)ends, false)
DEFINE_COLUMN(column32_portable, int32_t, , DECLINE)
DEFINE_COLUMN(column64_portable, int64_t, , DECLINE)

/* ---- x86-64 ------------------------------------------------------------------------------------------------ */

#if defined(__x86_64__)

/* POWERS[i] = 31^i modulo 2^32. */
#define POW8 (P4 * (uint32_t)P4)
#define POW16 (POW8 * POW8)
#define POW32 (POW16 * POW16)
#define POW64 (POW32 * POW32)
#define FROM1(p) (p), (p) * P1, (p) * P2, (p) * P3
#define FROM4(p) FROM1(p), FROM1((p) * P4)
#define FROM8(p) FROM4(p), FROM4((p) * POW8)
#define FROM16(p) FROM8(p), FROM8((p) * POW16)
static const uint32_t POWERS[65] = {FROM16(1u), FROM16(POW32), POW64};

/* Of the sixteen groups of four units in 64 bytes. */
static const uint32_t WEIGHTS[16] = {
    POW32 * POW16 * POW8 * P4, POW32 * POW16 * POW8, POW32 * POW16 * P4, POW32 * POW16,
    POW32 * POW8 * P4,         POW32 * POW8,         POW32 * P4,         POW32,
    POW16 * POW8 * P4,         POW16 * POW8,         POW16 * P4,         POW16,
    POW8 * P4,                 POW8,                 P4,                 1,
};

/* TAIL_MASK + n, read as 64 bytes, keeps the last n of 64 bytes. */
static const uint8_t TAIL_MASK[128] __attribute__((aligned(64))) = {
    [64 ... 127] = 0xFF,
};

#define SSE4 __attribute__((target("sse4.1")))
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

enum { FETCH_AHEAD = 4096 };

/*
 * One number for each four units: u0 * 31^3 + u1 * 31^2 + u2 * 31 + u3. The first step leaves at most
 * 255 * 32 = 8160 a pair, far from where 16 bits saturate.
 */
AVX2 static inline __m256i quads_avx2(__m256i units)
{
    __m256i pairs = _mm256_maddubs_epi16(units, _mm256_set1_epi16(0x011F));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x000103C1));
}

SSE4 static inline __m128i quads_sse4(__m128i units)
{
    __m128i pairs = _mm_maddubs_epi16(units, _mm_set1_epi16(0x011F));
    return _mm_madd_epi16(pairs, _mm_set1_epi32(0x000103C1));
}

SSE4 static inline uint32_t sum_sse4(__m128i quads)
{
    quads = _mm_add_epi32(quads, _mm_shuffle_epi32(quads, _MM_SHUFFLE(1, 0, 3, 2)));
    quads = _mm_add_epi32(quads, _mm_shuffle_epi32(quads, _MM_SHUFFLE(2, 3, 0, 1)));
    return (uint32_t)_mm_cvtsi128_si32(quads);
}

AVX2 static inline uint32_t sum_avx2(__m256i quads)
{
    return sum_sse4(_mm_add_epi32(_mm256_castsi256_si128(quads), _mm256_extracti128_si256(quads, 1)));
}

AVX2 static inline __m256i weights_avx2(void)
{
    return _mm256_setr_epi32((int)POWERS[28], (int)POWERS[24], (int)POWERS[20], (int)POWERS[16], (int)POWERS[12],
                             (int)POWERS[8], (int)POWERS[4], 1);
}

SSE4 static inline __m128i weights_sse4(void)
{
    return _mm_setr_epi32((int)POWERS[12], (int)POWERS[8], (int)POWERS[4], 1);
}

/* Whole blocks from the front, then the last block of the string once more, without the units that are done. */
#define DEFINE_LATIN1(level, TARGET, vector, mm, si, few)                                       \
    TARGET static uint32_t latin1_##level(uint32_t seed, const uint8_t *units, size_t n)        \
    {                                                                                           \
        enum { SIZE = sizeof(vector) };                                                         \
        if (n < SIZE)                                                                           \
            return few(seed, units, n);                                                         \
        const uint8_t *end = units + n;                                                         \
        size_t tail = n % SIZE;                                                                 \
        vector sum = mm##_setzero_##si();                                                       \
        for (; end - units >= SIZE; units += SIZE) {                                            \
            sum = mm##_mullo_epi32(sum, mm##_set1_epi32((int)POWERS[SIZE]));                    \
            sum = mm##_add_epi32(sum, quads_##level(mm##_loadu_##si((const vector *)units)));   \
            seed *= POWERS[SIZE];                                                               \
        }                                                                                       \
        if (tail) {                                                                             \
            vector mask = mm##_loadu_##si((const vector *)(TAIL_MASK + 64 - SIZE + tail));      \
            vector last = mm##_and_##si(mm##_loadu_##si((const vector *)(end - SIZE)), mask);   \
            sum = mm##_mullo_epi32(sum, mm##_set1_epi32((int)POWERS[tail]));                    \
            sum = mm##_add_epi32(sum, quads_##level(last));                                     \
            seed *= POWERS[tail];                                                               \
        }                                                                                       \
        return seed + sum_##level(mm##_mullo_epi32(sum, weights_##level()));                    \
    }

DEFINE_LATIN1(sse4, SSE4, __m128i, _mm, si128, hash_bytes)
DEFINE_LATIN1(avx2, AVX2, __m256i, _mm256, si256, latin1_sse4)

/*
 * Four strings of at most 64 bytes, each as 64 bytes that end where it ends, the front masked off: no branch depends
 * on a length, which a column of mixed lengths would mispredict. They decline rows that are not ASCII.
 */
static inline void finish_quad(__m128i sums, const int64_t *ends, const uint32_t *seeds, size_t seed_step,
                               uint32_t *hashes)
{
    uint32_t sum[4];
    _mm_storeu_si128((__m128i *)sum, sums);
    for (size_t k = 0; k < 4; k++)
        hashes[k] = seeds[k * seed_step] * POWERS[ends[k + 1] - ends[k]] + sum[k];
}

/* The hardware prefetcher is slower than the memory, so the next pages are prefetched here. */
static inline void fetch_ahead(const uint8_t *data, const int64_t *ends)
{
    uintptr_t p = (uintptr_t)data + (uintptr_t)ends[0] + FETCH_AHEAD;
    RS_PREFETCH_R_L2((const void *)p);
    RS_PREFETCH_R_L2((const void *)(p + 64));
}

SSE4 static inline bool quad_sse4(const uint8_t *data, const int64_t *ends, const uint32_t *seeds, size_t seed_step,
                                  uint32_t *hashes)
{
    __m128i sums[4], seen = _mm_setzero_si128();
    if (ends[1] < QUAD_MAX)
        return false;
    fetch_ahead(data, ends);
    for (int k = 0; k < 4; k++) {
        const uint8_t *end = data + ends[k + 1];
        const uint8_t *mask = TAIL_MASK + (ends[k + 1] - ends[k]);
        __m128i sum = _mm_setzero_si128();
        for (int block = 0; block < 4; block++) {
            __m128i units = _mm_and_si128(_mm_loadu_si128((const __m128i *)(end - 64 + 16 * block)),
                                          _mm_loadu_si128((const __m128i *)(mask + 16 * block)));
            sum = _mm_mullo_epi32(sum, _mm_set1_epi32((int)POWERS[16]));
            sum = _mm_add_epi32(sum, quads_sse4(units));
            seen = _mm_or_si128(seen, units);
        }
        sums[k] = _mm_mullo_epi32(sum, weights_sse4());
    }
    finish_quad(_mm_hadd_epi32(_mm_hadd_epi32(sums[0], sums[1]), _mm_hadd_epi32(sums[2], sums[3])), ends, seeds,
                seed_step, hashes);
    return _mm_movemask_epi8(seen) == 0;
}

AVX2 static inline bool quad_avx2(const uint8_t *data, const int64_t *ends, const uint32_t *seeds, size_t seed_step,
                                  uint32_t *hashes)
{
    __m256i sums[4], seen = _mm256_setzero_si256();
    if (ends[1] < QUAD_MAX)
        return false;
    fetch_ahead(data, ends);
    for (int k = 0; k < 4; k++) {
        const uint8_t *end = data + ends[k + 1];
        const uint8_t *mask = TAIL_MASK + (ends[k + 1] - ends[k]);
        __m256i front = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(end - 64)),
                                         _mm256_loadu_si256((const __m256i *)mask));
        __m256i back = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(end - 32)),
                                        _mm256_loadu_si256((const __m256i *)(mask + 32)));
        __m256i sum = _mm256_mullo_epi32(quads_avx2(front), _mm256_set1_epi32((int)POWERS[32]));
        sums[k] = _mm256_mullo_epi32(_mm256_add_epi32(sum, quads_avx2(back)), weights_avx2());
        seen = _mm256_or_si256(seen, _mm256_or_si256(front, back));
    }
    __m256i sum = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
    finish_quad(_mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)), ends, seeds, seed_step,
                hashes);
    return _mm256_movemask_epi8(seen) == 0;
}

/* A masked load touches no byte that is masked off, so here a string may also stand at the start of the data. */
AVX512 static inline bool quad_avx512(const uint8_t *data, const int64_t *ends, const uint32_t *seeds,
                                      size_t seed_step, uint32_t *hashes)
{
    const __m512i weights = _mm512_loadu_si512(WEIGHTS);
    __m512i sums[4], seen = _mm512_setzero_si512();
    fetch_ahead(data, ends);
    for (int k = 0; k < 4; k++) {
        uint64_t length = (uint64_t)(ends[k + 1] - ends[k]);
        __mmask64 mask = length ? ~UINT64_C(0) << (64 - length) : 0;
        __m512i units = _mm512_maskz_loadu_epi8(mask, (const void *)((uintptr_t)data + (uintptr_t)ends[k + 1] - 64));
        __m512i pairs = _mm512_maddubs_epi16(units, _mm512_set1_epi16(0x011F));
        sums[k] = _mm512_mullo_epi32(_mm512_madd_epi16(pairs, _mm512_set1_epi32(0x000103C1)), weights);
        seen = _mm512_or_si512(seen, units);
    }
    __m512i low = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0], sums[1]), _mm512_unpackhi_epi32(sums[0], sums[1]));
    __m512i high = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[2], sums[3]), _mm512_unpackhi_epi32(sums[2], sums[3]));
    __m512i sum = _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
    finish_quad(_mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)), ends, seeds,
                seed_step, hashes);
    return _mm512_movepi8_mask(seen) == 0;
}

DEFINE_COLUMN(column32_sse4, int32_t, SSE4, quad_sse4)
DEFINE_COLUMN(column64_sse4, int64_t, SSE4, quad_sse4)
DEFINE_COLUMN(column32_avx2, int32_t, AVX2, quad_avx2)
DEFINE_COLUMN(column64_avx2, int64_t, AVX2, quad_avx2)
DEFINE_COLUMN(column32_avx512, int32_t, AVX512, quad_avx512)
DEFINE_COLUMN(column64_avx512, int64_t, AVX512, quad_avx512)

#endif

/* ---- dispatch ---------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define DISPATCH(portable, sse4, avx2, avx512, ...) \
    do {                                            \
        int level = rs_cpu_level();                 \
        if (level >= RS_CPU_AVX512)                 \
            return avx512(__VA_ARGS__);             \
        if (level >= RS_CPU_AVX2)                   \
            return avx2(__VA_ARGS__);               \
        if (level >= RS_CPU_SSE4)                   \
            return sse4(__VA_ARGS__);               \
        return portable(__VA_ARGS__);               \
    } while (0)
#else
#define DISPATCH(portable, sse4, avx2, avx512, ...) return portable(__VA_ARGS__)
#endif

uint32_t rs_java_hash_latin1(uint32_t seed, const uint8_t *units, size_t n)
{
    DISPATCH(hash_bytes, latin1_sse4, latin1_avx2, latin1_avx2, seed, units, n);
}

size_t rs_java_hash_column32(const uint8_t *data, const int32_t *offsets, size_t n, const uint32_t *seeds,
                             size_t seed_step, uint32_t *hashes_ret)
{
    DISPATCH(column32_portable, column32_sse4, column32_avx2, column32_avx512, data, offsets, n, seeds, seed_step,
             hashes_ret);
}

size_t rs_java_hash_column64(const uint8_t *data, const int64_t *offsets, size_t n, const uint32_t *seeds,
                             size_t seed_step, uint32_t *hashes_ret)
{
    DISPATCH(column64_portable, column64_sse4, column64_avx2, column64_avx512, data, offsets, n, seeds, seed_step,
             hashes_ret);
}
