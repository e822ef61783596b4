#include "rs_text.h"

enum { MOST = 20 }; /* digits of a number, and its sign */

static const char PAIRS[201] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
                               "49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
                               "9899";
static const char DIGITS[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t rs_decimal(uint8_t *ret, int64_t value)
{
    if ((uint64_t)value < 10) {
        ret[0] = (uint8_t)('0' + value);
        return 1;
    }
    uint8_t digits[2 * MOST], *end = digits + MOST, *p = end;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    for (; rest >= 100; rest /= 100)
        memcpy(p -= 2, PAIRS + 2 * (rest % 100), 2);
    if (rest >= 10)
        memcpy(p -= 2, PAIRS + 2 * rest, 2);
    else
        *--p = (uint8_t)('0' + rest);
    if (value < 0)
        *--p = '-';
    memcpy(ret, p, MOST); /* a copy of a known size is no call */
    return (size_t)(end - p);
}

static inline void put_4(uint8_t *ret, uint32_t bits)
{
    ret[0] = (uint8_t)DIGITS[bits >> 18];
    ret[1] = (uint8_t)DIGITS[bits >> 12 & 63];
    ret[2] = (uint8_t)DIGITS[bits >> 6 & 63];
    ret[3] = (uint8_t)DIGITS[bits & 63];
}

size_t rs_base64(uint8_t *restrict ret, const uint8_t *restrict data, size_t n)
{
    uint8_t *p = ret;
    size_t i = 0;
    for (; n - i >= 3; i += 3, p += 4)
        put_4(p, (uint32_t)data[i] << 16 | (uint32_t)data[i + 1] << 8 | data[i + 2]);
    if (i < n) {
        put_4(p, (uint32_t)data[i] << 16 | (i + 1 < n ? (uint32_t)data[i + 1] << 8 : 0));
        p[3] = '=';
        if (i + 1 == n)
            p[2] = '=';
        p += 4;
    }
    return (size_t)(p - ret);
}
