#include "rs_utf8.h"

#include "rs_bytes.h"

#define HIGH_BITS UINT64_C(0x8080808080808080)

static inline uint64_t load_4(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t load_8(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t load_16(const uint8_t *p)
{
    return load_8(p) | load_8(p + 8);
}

/* Four loads overlap to serve many lengths: a branch for each, or a loop's end, would be mispredicted in a column. */
static inline bool is_ascii(const uint8_t *p, size_t n)
{
    if (n < 4)
        return n == 0 || ((p[0] | p[n / 2] | p[n - 1]) & 0x80) == 0;

    const uint8_t *end = p + n;
    uint64_t seen = 0;
    if (n < 16) {
        size_t step = n > 8 ? 4 : 0;
        seen = load_4(p) | load_4(p + step) | load_4(end - 4 - step) | load_4(end - 4);
    } else {
        for (; end - p > 64; p += 32)
            seen |= load_16(p) | load_16(p + 16);
        size_t step = end - p > 32 ? 16 : 0;
        seen |= load_16(p) | load_16(p + step) | load_16(end - 16 - step) | load_16(end - 16);
    }
    return (seen & HIGH_BITS) == 0;
}

/* How many bytes from the start are well-formed; *malformed_ret is the length of the sequence that follows them. */
static size_t well_formed(const uint8_t *data, size_t n, size_t *malformed_ret)
{
    uint32_t point;
    for (size_t i = 0; i < n;) {
        if (n - i >= 8 && (load_8(data + i) & HIGH_BITS) == 0) {
            i += 8;
            continue;
        }
        size_t length = rs_utf8_decode(data + i, n - i, &point);
        if (point == RS_UTF8_MALFORMED) {
            *malformed_ret = length;
            return i;
        }
        i += length;
    }
    return n;
}

bool rs_utf8_valid(const uint8_t *data, size_t n)
{
    size_t malformed;
    return is_ascii(data, n) || well_formed(data, n, &malformed) == n;
}

size_t rs_utf8_repair(const uint8_t *data, size_t n, uint8_t *ret)
{
    uint8_t *end = ret;
    while (n > 0) {
        size_t malformed = 0, good = well_formed(data, n, &malformed);
        memcpy(end, data, good);
        end += good;
        if (malformed > 0) {
            memcpy(end, "\xEF\xBF\xBD", 3);
            end += 3;
        }
        data += good + malformed;
        n -= good + malformed;
    }
    return (size_t)(end - ret);
}
