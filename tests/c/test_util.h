/* What the C tests share: CHECK, random bytes from a fixed seed, UTF-8, and memory in which an over-read dies. */
#ifndef TEST_UTIL_H
#define TEST_UTIL_H

#include <stdbool.h>
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

/* The UTF-8 of a code point, surrogates too. */
static inline size_t encode(uint32_t point, uint8_t *out)
{
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (uint8_t)(0xC0 | point >> 6);
        out[1] = (uint8_t)(0x80 | (point & 0x3F));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (uint8_t)(0xE0 | point >> 12);
        out[1] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (point & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | point >> 18);
    out[1] = (uint8_t)(0x80 | (point >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (point & 0x3F));
    return 4;
}

static inline bool is_surrogate(uint32_t point)
{
    return 0xD800 <= point && point <= 0xDFFF;
}

/* The text of a string whose characters are spelled in hexadecimal, for messages. */
static inline const char *hex(const uint8_t *p, size_t n)
{
    static char text[3 * 16 + 1];
    text[0] = 0;
    for (size_t i = 0; i < n && i < 16; i++)
        snprintf(text + 3 * i, 4, "%02X ", p[i]);
    return text;
}

#endif
