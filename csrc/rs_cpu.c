#include "rs_cpu.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"portable", "sse4", "avx2", "avx512"};

enum { LEVELS = sizeof names / sizeof names[0] };

const char *rs_cpu_name(int level)
{
    return level >= 0 && level < LEVELS ? names[level] : NULL;
}

int rs_cpu_supported(void)
{
#ifdef __x86_64__
    __builtin_cpu_init(); /* on macOS constructors of ours come before that of the compiler's library */
    if (!__builtin_cpu_supports("sse4.1") || !__builtin_cpu_supports("pclmul"))
        return RS_CPU_PORTABLE;
    if (!__builtin_cpu_supports("avx2"))
        return RS_CPU_SSE4;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq"))
        return RS_CPU_AVX512;
    return RS_CPU_AVX2;
#else
    return RS_CPU_PORTABLE;
#endif
}

static int resolve(void)
{
    int supported = rs_cpu_supported();
    const char *wanted = getenv("ROCKETSTORE_CPU");
    if (wanted != NULL)
        for (int level = 0; level < supported; level++)
            if (strcmp(wanted, names[level]) == 0)
                return level;
    return supported;
}

int rs_cpu_level(void)
{
    static int resolved = -1;
    int level = __atomic_load_n(&resolved, __ATOMIC_RELAXED);
    if (level < 0) {
        level = resolve(); /* threads that race here store the same value */
        __atomic_store_n(&resolved, level, __ATOMIC_RELAXED);
    }
    return level;
}
