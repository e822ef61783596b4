/* Text formats: bytes that JSON or CSV write unchanged, decimal numbers, base64. */
#ifndef RS_TEXT_H
#define RS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "rs_bytes.h"

/* Which bytes end a copy of `rs_copy_text`. Bytes below 0x20, quotation marks and backslashes end both JSON forms. */
enum rs_text_end {
    RS_JSON_ASCII,   /* also bytes from 0x7F on */
    RS_JSON_UNICODE, /* no other bytes */
    RS_CSV_PLAIN,    /* bytes for which CSV quotes a field: comma, quotation mark, CR, LF */
    RS_CSV_QUOTED,   /* quotation marks alone */
};

#define RS_EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

/* The high bit of each byte that is zero, and perhaps those of bytes behind the first one. */
static inline uint64_t rs_first_zero(uint64_t v)
{
    return (v - RS_EACH_BYTE(1)) & ~v & RS_EACH_BYTE(0x80);
}

/* A bit in the first byte that ends a copy, perhaps also bits in bytes behind it; 0 if no byte ends it. */
static inline uint64_t rs_text_hits(uint64_t v, enum rs_text_end end)
{
    uint64_t hits = rs_first_zero(v ^ RS_EACH_BYTE('"'));
    if (end == RS_CSV_QUOTED)
        return hits;
    if (end == RS_CSV_PLAIN)
        return hits | rs_first_zero(v ^ RS_EACH_BYTE(',')) | rs_first_zero(v ^ RS_EACH_BYTE('\r')) |
               rs_first_zero(v ^ RS_EACH_BYTE('\n'));
    hits |= rs_first_zero(v ^ RS_EACH_BYTE('\\')) | ((v - RS_EACH_BYTE(0x20)) & ~v & RS_EACH_BYTE(0x80));
    return end == RS_JSON_ASCII ? hits | ((v | (v + RS_EACH_BYTE(1))) & RS_EACH_BYTE(0x80)) : hits;
}

/* Fewer than 8 bytes, followed by letters. */
static inline uint64_t rs_load_rest(const uint8_t *data, size_t n)
{
    uint64_t v = 0;
    if (n >= 4) {
        uint32_t first, last;
        memcpy(&first, data, 4);
        memcpy(&last, data + n - 4, 4);
        v = (uint64_t)RS_LE32(first) | (uint64_t)RS_LE32(last) << (8 * (n - 4));
    } else if (n > 0) {
        v = data[0] | (uint64_t)data[n / 2] << (8 * (n / 2)) | (uint64_t)data[n - 1] << (8 * (n - 1));
    }
    return v | RS_EACH_BYTE('a') << (8 * n);
}

/*
 * Copies bytes up to the first one that ends the copy. Returns how many come before it: n if no byte ends it.
 * Reads data[0 .. n) only, and may write 8 bytes behind the copy.
 * REQUIRES: `ret` has room for n + 8 bytes and does not overlap the data.
 */
static inline size_t rs_copy_text(uint8_t *restrict ret, const uint8_t *restrict data, size_t n, enum rs_text_end end)
{
    size_t i = 0;
    uint64_t v, raw, hits;
    for (; n - i >= 8; i += 8) {
        memcpy(&raw, data + i, 8);
        memcpy(ret + i, &raw, 8);
        v = RS_LE64(raw);
        hits = rs_text_hits(v, end);
        if (hits != 0)
            return i + (size_t)__builtin_ctzll(hits) / 8;
    }
    if (i == n)
        return n;
    v = rs_load_rest(data + i, n - i);
    raw = RS_LE64(v);
    memcpy(ret + i, &raw, 8);
    hits = rs_text_hits(v, end);
    return hits == 0 ? n : i + (size_t)__builtin_ctzll(hits) / 8;
}

/* Writes a number in decimal digits, and returns how many bytes. `ret` has room for 20, all of which may change. */
size_t rs_decimal(uint8_t *ret, int64_t value);

/* Writes base64 with padding, and returns its length, 4 * ceil(n / 3). `ret` has that room, and overlaps no data. */
size_t rs_base64(uint8_t *restrict ret, const uint8_t *restrict data, size_t n);

#endif
