#include "rs_columns.h"

#include "rs_bytes.h"
#include "rs_cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    ROW = 20,
    BLOCK = 16,           /* rows that fill whole cache lines: 5 of input, 2, 1 and 2 of output */
    READ_AHEAD = 8192,    /* bytes: the processor's own prefetching ends with each page of 4096 */
    WRITE_AHEAD = 256,    /* rows */
    STREAM_ROWS = 65536,  /* from here on the columns, 1.25 MiB, would fill the whole L2 cache */
};

static inline void prefetch_rows(const uint8_t *rows)
{
    for (size_t at = 0; at < BLOCK * ROW; at += 64)
        RS_PREFETCH_R_L2(rows + READ_AHEAD + at);
}

static void columns(const uint8_t *rows, size_t n, int64_t *first, int32_t *second, int64_t *third)
{
    for (size_t i = 0, end; i < n; i = end) {
        end = n - i < BLOCK ? n : i + BLOCK;
        prefetch_rows(rows);
        RS_PREFETCH_W(first + i + WRITE_AHEAD);
        RS_PREFETCH_W(first + i + WRITE_AHEAD + 8);
        RS_PREFETCH_W(second + i + WRITE_AHEAD);
        RS_PREFETCH_W(third + i + WRITE_AHEAD);
        RS_PREFETCH_W(third + i + WRITE_AHEAD + 8);
        for (size_t k = i; k < end; k++, rows += ROW) {
            first[k] = (int64_t)rs_load_be64(rows);
            second[k] = (int32_t)rs_load_be32(rows + 8);
            third[k] = (int64_t)rs_load_be64(rows + 12);
        }
    }
}

#if defined(__x86_64__)

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

/* Eight rows, 40 words of 4 bytes. */
struct rows8 {
    __m512i words_0, words_16, words_32;
};

AVX512 static inline struct rows8 load(const uint8_t *rows)
{
    __m256i last = _mm256_loadu_si256((const void *)(rows + 128));
    return (struct rows8){_mm512_loadu_si512(rows), _mm512_loadu_si512(rows + 64), _mm512_castsi256_si512(last)};
}

/* The words of these numbers. A permutation looks at no more bits of a number than it has words to choose from. */
AVX512 static inline __m512i pick(struct rows8 rows, __m512i numbers)
{
    __m512i words = _mm512_permutex2var_epi32(rows.words_0, numbers, rows.words_16);
    __mmask16 is_last = _mm512_cmpge_epi32_mask(numbers, _mm512_set1_epi32(32));
    return _mm512_mask_permutexvar_epi32(words, is_last, numbers, rows.words_32);
}

/* Whole blocks, to columns that begin at multiples of 64 bytes. Returns how many rows these are. */
AVX512 static size_t stream(const uint8_t *rows, size_t n, int64_t *first, int32_t *second, int64_t *third)
{
    const __m512i firsts = _mm512_setr_epi32(0, 1, 5, 6, 10, 11, 15, 16, 20, 21, 25, 26, 30, 31, 35, 36);
    const __m512i seconds = _mm512_setr_epi32(2, 7, 12, 17, 22, 27, 32, 37, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i thirds = _mm512_setr_epi32(3, 4, 8, 9, 13, 14, 18, 19, 23, 24, 28, 29, 33, 34, 38, 39);
    const __m512i turn_8 = _mm512_set4_epi32(0x08090A0B, 0x0C0D0E0F, 0x00010203, 0x04050607);
    const __m512i turn_4 = _mm512_set4_epi32(0x0C0D0E0F, 0x08090A0B, 0x04050607, 0x00010203);
    const bool prefetches = !rs_cpu_is_amd(); /* an AMD prefetches at full speed; hints slow it down */
    size_t i = 0;
    for (; n - i >= BLOCK; i += BLOCK, rows += BLOCK * ROW) {
        if (prefetches)
            prefetch_rows(rows);
        struct rows8 low = load(rows), high = load(rows + 8 * ROW);
        __m512i both = _mm512_inserti64x4(pick(low, seconds), _mm512_castsi512_si256(pick(high, seconds)), 1);
        _mm512_stream_si512((void *)(first + i), _mm512_shuffle_epi8(pick(low, firsts), turn_8));
        _mm512_stream_si512((void *)(first + i + 8), _mm512_shuffle_epi8(pick(high, firsts), turn_8));
        _mm512_stream_si512((void *)(third + i), _mm512_shuffle_epi8(pick(low, thirds), turn_8));
        _mm512_stream_si512((void *)(third + i + 8), _mm512_shuffle_epi8(pick(high, thirds), turn_8));
        _mm512_stream_si512((void *)(second + i), _mm512_shuffle_epi8(both, turn_4));
    }
    _mm_sfence(); /* other threads see these stores before what follows */
    return i;
}

#endif

void rs_columns_8_4_8(const uint8_t *rows, size_t n, int64_t *first_ret, int32_t *second_ret, int64_t *third_ret)
{
    size_t done = 0;
#if defined(__x86_64__)
    size_t head = -(uintptr_t)second_ret % 64 / sizeof *second_ret;
    if (n >= STREAM_ROWS && rs_cpu_level() >= RS_CPU_AVX512 &&
        ((uintptr_t)(first_ret + head) | (uintptr_t)(third_ret + head)) % 64 == 0) {
        columns(rows, head, first_ret, second_ret, third_ret);
        done = head + stream(rows + head * ROW, n - head, first_ret + head, second_ret + head, third_ret + head);
    }
#endif
    columns(rows + done * ROW, n - done, first_ret + done, second_ret + done, third_ret + done);
}
