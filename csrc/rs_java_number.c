#include "rs_java_number.h"

#include "rs_utf8.h"

/* The zeros of all scripts up to U+FFFF whose digits JDK 17 knows; 1 to 9 follow each. */
static const uint16_t ZEROS[] = {
    0x0030, 0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66,
    0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50,
    0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
};

int rs_java_digit(uint32_t point)
{
    for (size_t i = 0; i < sizeof ZEROS / sizeof ZEROS[0] && ZEROS[i] <= point; i++) {
        if (point - ZEROS[i] < 10)
            return (int)(point - ZEROS[i]);
    }
    return -1;
}

bool rs_java_number(const uint8_t *data, size_t n, int64_t least, int64_t most, int64_t *ret)
{
    bool negative = n > 0 && data[0] == '-';
    size_t pos = n > 0 && (negative || data[0] == '+');
    if (pos == n)
        return false;
    int64_t value = 0; /* counts downward: there is one more negative number */
    while (pos < n) {
        uint32_t point;
        pos += rs_utf8_decode(data + pos, n - pos, &point);
        int digit = rs_java_digit(point);
        if (digit < 0 || value < (INT64_MIN + digit) / 10)
            return false;
        value = value * 10 - digit;
    }
    if (negative ? value < least : value < -most)
        return false;
    *ret = negative ? value : -value;
    return true;
}
