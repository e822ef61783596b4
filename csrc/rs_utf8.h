/* UTF-8: decoding as Java does, checking, repairing. */
#ifndef RS_UTF8_H
#define RS_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RS_UTF8_MALFORMED UINT32_MAX

/*
 * Decodes one character as Java does. Returns the bytes it takes, at least 1 (n must be); *point_ret is
 * RS_UTF8_MALFORMED if they are no character. Java takes an encoded surrogate as one malformed sequence of three
 * bytes, where others see three.
 */
static inline size_t rs_utf8_decode(const uint8_t *data, size_t n, uint32_t *point_ret)
{
    uint32_t lead = data[0];
    *point_ret = lead;
    if (lead < 0x80)
        return 1;

    uint32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80, high = lead == 0xF4 ? 0x8F : 0xBF;
    *point_ret = RS_UTF8_MALFORMED;
    if (lead < 0xC2 || lead > 0xF4 || n < 2 || data[1] < low || data[1] > high)
        return 1;
    uint32_t point = lead << 6 | (data[1] & 0x3F);
    if (lead < 0xE0) {
        *point_ret = point & 0x7FF;
        return 2;
    }
    if (n < 3 || (data[2] & 0xC0) != 0x80)
        return 2;
    point = (point << 6 | (data[2] & 0x3F)) & 0xFFFF;
    if (lead < 0xF0) {
        if (point < 0xD800 || point > 0xDFFF)
            *point_ret = point;
        return 3;
    }
    if (n < 4 || (data[3] & 0xC0) != 0x80)
        return 3;
    *point_ret = (lead & 7) << 18 | (data[1] & 0x3F) << 12 | (data[2] & 0x3F) << 6 | (data[3] & 0x3F);
    return 4;
}

/*
 * Whether the bytes are well-formed UTF-8: no surrogates, nothing longer than it need be, nothing above U+10FFFF.
 * Reads data[0 .. n) only; `data` may be NULL if n is 0.
 */
bool rs_utf8_valid(const uint8_t *data, size_t n);

/*
 * Writes the bytes as new String(bytes, UTF_8) decodes them, in UTF-8 again: each malformed sequence becomes
 * U+FFFD (EF BF BD). Returns the length.
 * REQUIRES: `ret` has room for 3 * n bytes and does not overlap the data.
 */
size_t rs_utf8_repair(const uint8_t *data, size_t n, uint8_t *ret);

#endif
