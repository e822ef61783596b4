/* What the C tests share: CHECK, random bytes from a fixed seed, and memory in which an over-read dies. */
#ifndef TEST_UTIL_H
#define TEST_UTIL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Ends the program with the place and a printf-like message that names the failing input. */
#define CHECK(condition, ...)                                              \
    do {                                                                   \
        if (!(condition)) {                                                \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                  \
            fputc('\n', stderr);                                           \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

/* `size` bytes that begin and end at a page's border, between two pages that no one may touch. */
struct guarded {
    uint8_t *begin, *end;
};

static inline struct guarded guarded_alloc(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page - 1) / page * page;
    uint8_t *map = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED, "%zu bytes", room + 2 * page);
    CHECK(mprotect(map + page, room, PROT_READ | PROT_WRITE) == 0, "%zu bytes", room);
    return (struct guarded){map + page, map + page + room};
}

/* xorshift64: the same bytes on every machine. */
static inline void fill_random(uint8_t *p, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        p[i] = (uint8_t)(seed >> 32);
    }
}

#endif
