/* Which SIMD paths the kernels take. */
#ifndef RS_CPU_H
#define RS_CPU_H

#include <stdbool.h>

enum rs_cpu {
    RS_CPU_PORTABLE = 0,
    RS_CPU_SSE4 = 1,   /* SSE4.1 and PCLMULQDQ */
    RS_CPU_AVX2 = 2,   /* without VPCLMULQDQ, which must be queried separately */
    RS_CPU_AVX512 = 3, /* F, BW, VL and VPCLMULQDQ */
};

/* The best level that this machine and its operating system offer. PORTABLE on anything but x86-64. */
int rs_cpu_supported(void);

/*
 * The level in use: the supported one, or a lower one that the environment variable ROCKETSTORE_CPU names
 * (portable, sse4, avx2 or avx512; anything else is ignored). Read once, by the first call. Thread-safe.
 */
int rs_cpu_level(void);

/* The name of a level as ROCKETSTORE_CPU spells it; NULL for an unknown number. */
const char *rs_cpu_name(int level);

/* Whether this is an AMD processor: few L1 miss buffers, and a prefetcher that needs no hints for sequential reads. */
static inline bool rs_cpu_is_amd(void)
{
#ifdef __x86_64__
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

#endif
