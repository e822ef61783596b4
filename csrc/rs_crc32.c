#include "rs_crc32.h"

#include "rs_bytes.h"
#include "rs_cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <stdlib.h>
#ifndef __APPLE__
#include <sys/auxv.h>
#endif
#endif

/*
 * Bytes are read lowest bit first, so a register holds a polynomial mirrored: its lowest bit is the highest
 * power of x. Below, "x^n" is x^n mod P, mirrored in 32 bits. The functions take and return the checksum's
 * inner state, not yet inverted as zlib does: state = (state * x^(8 len) + data * x^32) mod P.
 */
#define P 0xEDB88320u

static uint32_t times_x(uint32_t v)
{
    return v >> 1 ^ (v & 1 ? P : 0);
}

/* Slicing by 16: slices[k][b] is the state that byte b and k zero bytes after it leave. */
static uint32_t slices[16][256];

static void make_slices(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t v = b;
        for (int bit = 0; bit < 8; bit++)
            v = times_x(v);
        slices[0][b] = v;
    }
    for (int k = 1; k < 16; k++)
        for (int b = 0; b < 256; b++) {
            uint32_t v = slices[k - 1][b];
            slices[k][b] = v >> 8 ^ slices[0][v & 255];
        }
}

/* The state that the eight bytes of v leave; k is `slices` from the row for the last of them. */
static inline uint32_t slice_8(uint64_t v, uint32_t (*k)[256])
{
    return k[7][v & 255] ^ k[6][v >> 8 & 255] ^ k[5][v >> 16 & 255] ^ k[4][v >> 24 & 255] ^
           k[3][v >> 32 & 255] ^ k[2][v >> 40 & 255] ^ k[1][v >> 48 & 255] ^ k[0][v >> 56];
}

static uint32_t crc_portable(uint32_t crc, const uint8_t *p, size_t len)
{
    for (; len >= 16; len -= 16, p += 16)
        crc = slice_8(rs_load_le64(p) ^ crc, slices + 8) ^ slice_8(rs_load_le64(p + 8), slices);
    for (; len > 0; len--, p++)
        crc = crc >> 8 ^ slices[0][(crc ^ *p) & 255];
    return crc;
}

#if defined(__x86_64__)
/*
 * Carry-less multiplication. Two mirrored 64-bit numbers multiplied give their product times x, mirrored in
 * 128 bits, so every factor is one power of x lower than its use suggests.
 *
 * The data is cut so that the odd length comes first: a head of 1 to one vector's bytes, aligned to its end
 * (zeros before the data change nothing), then whole vectors. No length has a tail.
 */
#define SSE4 __attribute__((target("sse4.1,pclmul")))
#define AVX2 __attribute__((target("avx2,pclmul,vpclmulqdq")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,pclmul,vpclmulqdq")))

/* Factors that move 128 bits on by D: x^(D+63) for the low half (the higher powers), x^(D-1) for the high. */
struct fold {
    uint64_t low, high;
};

static struct {
    struct fold lanes[4]; /* D = 384, 256, 128 and none: moves the lanes of 512 bits onto the last of them */
    struct fold by_512, by_1024, by_2048;
    uint64_t reduce, quotient, divisor; /* see reduce() */
    uint64_t head[65];                  /* x^(8r-33): moves a state over a head of r bytes. See start() */
} factors __attribute__((aligned(64)));

/* The same polynomial mirrored in 64 bits; n may be negative. */
static uint64_t x_to_the(int n)
{
    uint32_t v = 1u << 31;
    for (; n > 0; n--)
        v = times_x(v);
    for (; n < 0; n++)
        v = v >> 31 ? (v ^ P) << 1 | 1 : v << 1;
    return (uint64_t)v << 32;
}

static struct fold fold_by(int distance)
{
    return (struct fold){x_to_the(distance + 63), x_to_the(distance - 1)};
}

static void make_factors(void)
{
    for (int lane = 0; lane < 3; lane++)
        factors.lanes[lane] = fold_by(384 - 128 * lane);
    factors.by_512 = fold_by(512);
    factors.by_1024 = fold_by(1024);
    factors.by_2048 = fold_by(2048);
    for (int r = 0; r <= 64; r++)
        factors.head[r] = x_to_the(8 * r - 33);

    factors.reduce = x_to_the(95) >> 32;
    factors.divisor = (uint64_t)P << 1 | 1;
    uint32_t rest = 1; /* x^31; long division of x^95 by P brings 64 powers down */
    for (int bit = 0; bit < 64; bit++, rest = times_x(rest))
        factors.quotient |= (uint64_t)(rest & 1) << bit;
}

SSE4 static inline __m128i factor(const struct fold *f)
{
    return _mm_load_si128((const __m128i *)f);
}

/* The state before a head of r bytes, as 128 bits to be added to the last 16 bytes of the head. */
SSE4 static inline __m128i start(uint32_t crc, size_t r)
{
    __m128i state = _mm_cvtsi64_si128((long long)((uint64_t)crc << 32));
    return _mm_clmulepi64_si128(state, _mm_loadl_epi64((const __m128i *)&factors.head[r]), 0);
}

/* (v * x^32) mod P: down to 96 bits with x^96 for the low half, then less P times the quotient (Barrett). */
SSE4 static inline uint32_t reduce(__m128i v)
{
    __m128i reduce_quotient = _mm_loadu_si128((const __m128i *)&factors.reduce);
    __m128i divisor = _mm_loadl_epi64((const __m128i *)&factors.divisor);
    v = _mm_xor_si128(_mm_clmulepi64_si128(v, reduce_quotient, 0x00), _mm_srli_si128(v, 8));
    __m128i quotient = _mm_clmulepi64_si128(v, reduce_quotient, 0x10);
    v = _mm_xor_si128(v, _mm_clmulepi64_si128(quotient, divisor, 0x00));
    return (uint32_t)_mm_extract_epi32(v, 2);
}

/* `v` moved on by the distance of `f`, plus `next`. */
SSE4 static inline __m128i fold_128(__m128i v, __m128i f, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(v, f, 0x00), high = _mm_clmulepi64_si128(v, f, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

AVX2 static inline __m256i fold_256(__m256i v, __m256i f, __m256i next)
{
    __m256i low = _mm256_clmulepi64_epi128(v, f, 0x00), high = _mm256_clmulepi64_epi128(v, f, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

AVX512 static inline __m512i fold_512(__m512i v, __m512i f, __m512i next)
{
    __m512i low = _mm512_clmulepi64_epi128(v, f, 0x00), high = _mm512_clmulepi64_epi128(v, f, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* the sum of three */
}

#define LOAD_128(p) _mm_loadu_si128((const __m128i *)(p))
#define LOAD_256(p) _mm256_loadu_si256((const __m256i *)(p))
#define LOAD_512(p) _mm512_loadu_si512(p)

/*
 * Folds the n vectors at p into `v`; by_1 and by_4 are the factors for a distance of one and of four vectors.
 * Four chains hide the latency of the multiplication.
 */
#define DEFINE_FOLD_ALL(name, TARGET, vector, fold, LOAD)                                              \
    TARGET static inline vector name(vector v, const uint8_t *p, size_t n, vector by_1, vector by_4)   \
    {                                                                                                  \
        enum { SIZE = sizeof(vector) };                                                                \
        if (n >= 7) {                                                                                  \
            vector v1 = LOAD(p), v2 = LOAD(p + SIZE), v3 = LOAD(p + 2 * SIZE);                         \
            for (n -= 3, p += 3 * SIZE; n >= 4; n -= 4, p += 4 * SIZE) {                               \
                v = fold(v, by_4, LOAD(p));                                                            \
                v1 = fold(v1, by_4, LOAD(p + SIZE));                                                   \
                v2 = fold(v2, by_4, LOAD(p + 2 * SIZE));                                               \
                v3 = fold(v3, by_4, LOAD(p + 3 * SIZE));                                               \
            }                                                                                          \
            v = fold(fold(fold(v, by_1, v1), by_1, v2), by_1, v3);                                     \
        }                                                                                              \
        for (; n > 0; n--, p += SIZE)                                                                  \
            v = fold(v, by_1, LOAD(p));                                                                \
        return v;                                                                                      \
    }

DEFINE_FOLD_ALL(fold_all_128, SSE4, __m128i, fold_128, LOAD_128)
DEFINE_FOLD_ALL(fold_all_256, AVX2, __m256i, fold_256, LOAD_256)
DEFINE_FOLD_ALL(fold_all_512, AVX512, __m512i, fold_512, LOAD_512)

/* The first r bytes (1 to 16) of the 16 at p, moved to the end, plus the state before them. */
SSE4 static inline __m128i head_128(uint32_t crc, const uint8_t *p, size_t r)
{
    static const uint8_t move[32] = {
        128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
        0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,
    };
    return _mm_xor_si128(_mm_shuffle_epi8(LOAD_128(p), LOAD_128(move + r)), start(crc, r));
}

SSE4 static uint32_t crc_sse4(uint32_t crc, const uint8_t *p, size_t len)
{
    if (len < 16)
        return crc_portable(crc, p, len);
    size_t n = (len - 1) / 16, r = len - 16 * n;
    __m128i by_128 = factor(&factors.lanes[2]), by_512 = factor(&factors.by_512);
    return reduce(fold_all_128(head_128(crc, p, r), p + r, n, by_128, by_512));
}

AVX2 static uint32_t crc_avx2(uint32_t crc, const uint8_t *p, size_t len)
{
    if (len < 16)
        return crc_portable(crc, p, len);
    size_t n = (len - 1) / 16, r = len - 16 * n;
    __m128i x = head_128(crc, p, r), by_128 = factor(&factors.lanes[2]);
    p += r;
    if (n % 2 != 0) {
        x = fold_128(x, by_128, LOAD_128(p));
        p += 16;
    }
    __m256i by_256 = _mm256_broadcastsi128_si256(factor(&factors.lanes[1]));
    __m256i by_1024 = _mm256_broadcastsi128_si256(factor(&factors.by_1024));
    __m256i y = _mm256_inserti128_si256(_mm256_setzero_si256(), x, 1);
    y = fold_all_256(y, p, n / 2, by_256, by_1024);
    return reduce(fold_128(_mm256_castsi256_si128(y), by_128, _mm256_extracti128_si256(y, 1)));
}

/* The r bytes (1 to 64) at p, moved to the end, plus the state before them. Masked bytes are not read. */
AVX512 static inline __m512i head_512(uint32_t crc, const uint8_t *p, size_t r)
{
    const void *begin = (const void *)((uintptr_t)p - (64 - r));
    __m512i data = _mm512_maskz_loadu_epi8(~0ULL << (64 - r), begin);
    return _mm512_xor_si512(data, _mm512_maskz_broadcast_i32x4(0xF000, start(crc, r)));
}

AVX512 static uint32_t crc_avx512(uint32_t crc, const uint8_t *p, size_t len)
{
    size_t n = (len - 1) / 64, r = len - 64 * n;
    __m512i by_512 = _mm512_broadcast_i32x4(factor(&factors.by_512));
    __m512i by_2048 = _mm512_broadcast_i32x4(factor(&factors.by_2048));
    __m512i z = fold_all_512(head_512(crc, p, r), p + r, n, by_512, by_2048);

    z = fold_512(z, _mm512_load_si512(factors.lanes), _mm512_maskz_mov_epi64(0xC0, z));
    __m256i y = _mm256_xor_si256(_mm512_castsi512_si256(z), _mm512_extracti64x4_epi64(z, 1));
    return reduce(_mm_xor_si128(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1)));
}
#endif

#if defined(__aarch64__)
/* The instructions by name: compilers disagree on intrinsics that are above their base target. */
static uint32_t crc_armv8(uint32_t crc, const uint8_t *p, size_t len)
{
    for (; len >= 8; len -= 8, p += 8)
        __asm__(".arch_extension crc\n\tcrc32x %w0, %w0, %x1" : "+r"(crc) : "r"(rs_load_le64(p)));
    for (; len > 0; len--, p++)
        __asm__(".arch_extension crc\n\tcrc32b %w0, %w0, %w1" : "+r"(crc) : "r"(*p));
    return crc;
}

static bool has_armv8_crc(void)
{
    const char *wanted = getenv("ROCKETSTORE_CPU");
    if (wanted != NULL && strcmp(wanted, rs_cpu_name(RS_CPU_PORTABLE)) == 0)
        return false;
#ifdef __APPLE__
    return true;
#else
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
}
#endif

static uint32_t (*crc_best)(uint32_t crc, const uint8_t *p, size_t len) = crc_portable;

/* At load, before any thread can ask: a first call needs no lock that a fork could leave behind locked. */
__attribute__((constructor)) static void prepare(void)
{
    make_slices();
#if defined(__x86_64__)
    int level = rs_cpu_level();
    make_factors();
    if (level == RS_CPU_AVX512)
        crc_best = crc_avx512;
    else if (level == RS_CPU_AVX2 && __builtin_cpu_supports("vpclmulqdq"))
        crc_best = crc_avx2;
    else if (level >= RS_CPU_SSE4)
        crc_best = crc_sse4;
#elif defined(__aarch64__)
    if (has_armv8_crc())
        crc_best = crc_armv8;
#endif
}

uint32_t rs_crc32(uint32_t crc, const void *data, size_t len)
{
    return len == 0 ? crc : ~crc_best(~crc, data, len);
}
