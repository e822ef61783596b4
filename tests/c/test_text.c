#include "rs_text.h"

#include <inttypes.h>
#include <string.h>

#include "rs_cpu.h"
#include "test_util.h"

enum { LENGTHS = 80, ALIGNMENTS = 16, PAGES = 4096 };

/* ---- copies ---- */

static bool ends_copy(uint8_t byte, enum rs_text_end end)
{
    switch (end) {
    case RS_JSON_ASCII:
        return byte < 0x20 || byte == '"' || byte == '\\' || byte >= 0x7F;
    case RS_JSON_UNICODE:
        return byte < 0x20 || byte == '"' || byte == '\\';
    case RS_CSV_PLAIN:
        return byte == ',' || byte == '"' || byte == '\r' || byte == '\n';
    case RS_CSV_QUOTED:
        return byte == '"';
    }
    return false;
}

/* The room ends where no one may write. */
static void check_copy(struct guarded room, const uint8_t *data, size_t n, enum rs_text_end end)
{
    uint8_t *ret = room.end - n - 8;
    size_t expected = 0, length = rs_copy_text(ret, data, n, end);
    while (expected < n && !ends_copy(data[expected], end))
        expected++;
    CHECK(length == expected, "%zu of %zu bytes, not %zu: %s", length, n, expected, hex(data, n));
    CHECK(memcmp(ret, data, length) == 0, "%zu bytes: %s", n, hex(data, n));
}

static void check_each_byte_at_each_place(struct guarded memory, struct guarded room, enum rs_text_end end)
{
    static const uint8_t others[] = {'a', ' ', '!', '#', '[', ']', '~', '-', '+'};
    for (size_t n = 1; n <= 20; n++)
        for (size_t place = 0; place < n; place++)
            for (int value = 0; value < 256; value++) {
                uint8_t *data = memory.end - n;
                for (size_t i = 0; i < n; i++)
                    data[i] = others[(i + (size_t)value) % sizeof others];
                data[place] = (uint8_t)value;
                check_copy(room, data, n, end);
            }
}

static void check_random_bytes(struct guarded memory, struct guarded room, enum rs_text_end end)
{
    fill_random(memory.begin, (size_t)(memory.end - memory.begin), 29 + end);
    for (uint8_t *p = memory.begin; p < memory.end; p++) /* mostly letters */
        *p = *p < 8 ? (uint8_t)(*p * 37) : (uint8_t)('a' + *p % 26);
    for (size_t n = 0; n <= LENGTHS; n++) {
        for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++)
            check_copy(room, memory.begin + 97 * n % 2000 + alignment, n, end);
        check_copy(room, memory.end - n, n, end);
    }
}

/* ---- numbers and base64 ---- */

static void check_decimal(int64_t value)
{
    char expected[24];
    uint8_t ret[20];
    size_t length = (size_t)snprintf(expected, sizeof expected, "%" PRId64, value);
    CHECK(rs_decimal(ret, value) == length && memcmp(ret, expected, length) == 0, "%s", expected);
}

static void check_decimals(void)
{
    for (int64_t value = -100000; value <= 100000; value++)
        check_decimal(value);
    for (uint64_t power = 1, i = 0; i < 64; i++, power *= 2)
        for (int64_t more = -2; more <= 2; more++) {
            check_decimal((int64_t)(power + (uint64_t)more));
            check_decimal((int64_t)(0 - power + (uint64_t)more));
        }
}

static void check_base64(struct guarded memory, struct guarded room)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    fill_random(memory.begin, (size_t)(memory.end - memory.begin), 31);
    for (size_t n = 0; n <= 1000; n++) {
        const uint8_t *data = memory.end - n;
        size_t length = (n + 2) / 3 * 4;
        uint8_t *ret = room.end - length;
        CHECK(rs_base64(ret, data, n) == length, "%zu bytes", n);
        for (size_t i = 0; i < length; i++) {
            size_t bit = 6 * i, high = bit / 8 < n ? data[bit / 8] : 0, low = bit / 8 + 1 < n ? data[bit / 8 + 1] : 0;
            uint8_t expected = bit >= 8 * n ? '=' : (uint8_t)digits[(high << 8 | low) >> (10 - bit % 8) & 63];
            CHECK(ret[i] == expected, "%zu bytes: digit %zu", n, i);
        }
    }
}

int main(void)
{
    struct guarded memory = guarded_alloc(PAGES), room = guarded_alloc(PAGES);
    for (int end = RS_JSON_ASCII; end <= RS_CSV_QUOTED; end++) {
        check_each_byte_at_each_place(memory, room, (enum rs_text_end)end);
        check_random_bytes(memory, room, (enum rs_text_end)end);
    }
    check_decimals();
    check_base64(memory, room);
    printf("text: %s\n", rs_cpu_name(rs_cpu_level()));
    return 0;
}
