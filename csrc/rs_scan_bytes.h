/* Searches of bytes: the separators of a property string, the next magic code, the end of a word. */
#ifndef RS_SCAN_BYTES_H
#define RS_SCAN_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "rs_bytes.h"

/*
 * Writes the positions of all bytes 0x01 and 0x02, in order. Returns how many there are.
 * Reads data[0 .. n) only, and may write beyond what it returns: whole vectors, which can be read again at once.
 * REQUIRES: n <= 32767; positions_ret has room for n + RS_MORE_SEPARATORS.
 */
enum { RS_MORE_SEPARATORS = 32 };
size_t rs_separators(const uint8_t *data, size_t n, uint16_t *positions_ret);

/* The first position at which DA A3 20 A7 or DA A3 20 AB stands complete; n without one. Reads data[0 .. n) only. */
size_t rs_find_magic(const uint8_t *data, size_t n);

/* The high bit of each byte that is zero; exact, since no carry passes from byte to byte. */
static inline uint64_t rs_zero_bytes(uint64_t v)
{
    const uint64_t low = UINT64_C(0x7F7F7F7F7F7F7F7F);
    return ~(((v & low) + low) | v | low);
}

/* The position of the first space; n without one. Reads data[0 .. n) only. */
static inline size_t rs_find_space(const uint8_t *data, size_t n)
{
    const uint64_t spaces = UINT64_C(0x2020202020202020);
    size_t i = 0;
    if (n < 8) {
        while (i < n && data[i] != ' ')
            i++;
        return i;
    }
    for (;; i = i + 16 <= n ? i + 8 : n - 8) { /* the last whole word overlaps the one before */
        uint64_t hits = rs_zero_bytes(rs_load_le64(data + i) ^ spaces);
        if (hits != 0)
            return i + (size_t)__builtin_ctzll(hits) / 8;
        if (i == n - 8)
            return n;
    }
}

#endif
