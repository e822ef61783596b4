#include "rs_crc32.h"

#include <string.h>

#include "rs_bytes.h"
#include "rs_cpu.h"
#include "test_util.h"

enum { LENGTHS = 4200, ALIGNMENTS = 64, PAGES = 8192 };

static uint32_t bitwise_step(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++)
        crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    return crc;
}

static uint32_t bitwise_crc32(uint32_t crc, const uint8_t *p, size_t len)
{
    crc = ~crc;
    for (size_t i = 0; i < len; i++)
        crc = bitwise_step(crc, p[i]);
    return ~crc;
}

static void check_values_that_others_publish(void)
{
    uint32_t digits = rs_crc32(0, "123456789", 9), zeros = rs_crc32(0, (uint8_t[32]){0}, 32);
    CHECK(digits == 0xCBF43926, "%08x", digits);
    CHECK(zeros == 0x190A55AD, "%08x", zeros);
    CHECK(rs_crc32(0, NULL, 0) == 0, "nothing");
    CHECK(rs_crc32(0x12345678, NULL, 0) == 0x12345678, "nothing, chained");
}

/* The reference of a start is one running state, so that each length costs one step. */
static void check_every_length_at(const uint8_t *p, uint32_t start)
{
    uint32_t state = ~start;
    for (size_t len = 0; len <= LENGTHS; len++) {
        uint32_t crc = rs_crc32(start, p, len);
        CHECK(crc == ~state, "%zu bytes, alignment %zu: %08x, not %08x", len, (size_t)p % 64, crc, ~state);
        state = bitwise_step(state, p[len]);
    }
}

static void check_every_length_and_alignment(struct guarded memory)
{
    for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++) {
        check_every_length_at(memory.begin + alignment, 0);
        check_every_length_at(memory.begin + alignment, 0x9E3779B9u * (uint32_t)(alignment + 1));
    }
}

/* The first and the last byte of the data lie beside a page that may not be read. */
static void check_nothing_is_read_beyond_the_data(struct guarded memory)
{
    for (size_t len = 0; len <= LENGTHS; len++) {
        uint32_t first = bitwise_crc32(0, memory.begin, len), last = bitwise_crc32(0, memory.end - len, len);
        CHECK(rs_crc32(0, memory.begin, len) == first, "%zu bytes at the beginning of a page", len);
        CHECK(rs_crc32(0, memory.end - len, len) == last, "%zu bytes at the end of a page", len);
    }
}

static void check_chained_calls_equal_one(struct guarded memory)
{
    uint32_t whole = rs_crc32(0, memory.begin, LENGTHS);
    for (size_t cut = 0; cut <= LENGTHS; cut++) {
        uint32_t crc = rs_crc32(rs_crc32(0, memory.begin, cut), memory.begin + cut, LENGTHS - cut);
        CHECK(crc == whole, "cut at %zu: %08x, not %08x", cut, crc, whole);
    }
}

static void check_every_single_bit(void)
{
    struct guarded memory = guarded_alloc(PAGES);
    for (size_t bit = 0; bit < 8 * 640; bit++) {
        memory.begin[bit / 8] = (uint8_t)(1u << bit % 8);
        uint32_t crc = rs_crc32(0, memory.begin, 640), expected = bitwise_crc32(0, memory.begin, 640);
        CHECK(crc == expected, "bit %zu of 640 bytes: %08x, not %08x", bit, crc, expected);
        memory.begin[bit / 8] = 0;
    }
}

int main(void)
{
    struct guarded memory = guarded_alloc(PAGES);
    fill_random(memory.begin, (size_t)(memory.end - memory.begin), 20240229);

    check_values_that_others_publish();
    check_every_length_and_alignment(memory);
    check_nothing_is_read_beyond_the_data(memory);
    check_chained_calls_equal_one(memory);
    check_every_single_bit();
    printf("crc32: %s\n", rs_cpu_name(rs_cpu_level()));
    return 0;
}
