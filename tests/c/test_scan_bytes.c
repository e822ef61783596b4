#include "rs_scan_bytes.h"

#include <string.h>

#include "rs_cpu.h"
#include "test_util.h"

enum { LENGTHS = 520, ALIGNMENTS = 64, LONGEST = 32767, PAGES = 36864 };

static const uint8_t CODES[2][4] = {{0xDA, 0xA3, 0x20, 0xA7}, {0xDA, 0xA3, 0x20, 0xAB}};

/* ---- separators ---- */

/* The room for the positions of each string ends where no one may write. */
static struct guarded positions_memory;

static void check_separators(const uint8_t *data, size_t n)
{
    uint16_t *positions = (uint16_t *)(void *)(positions_memory.end - (n + RS_MORE_SEPARATORS) * sizeof(uint16_t));
    size_t count = rs_separators(data, n, positions), expected = 0;
    for (size_t i = 0; i < n; i++)
        if (data[i] == 1 || data[i] == 2) {
            CHECK(expected < count && positions[expected] == i, "%zu bytes: %zu is not number %zu of %zu", n, i,
                  expected, count);
            expected++;
        }
    CHECK(count == expected, "%zu bytes: %zu separators, not %zu", n, count, expected);
}

/* Bytes of which `per_256` in 256 are separators, and the others what careless arithmetic takes for one. */
static void fill_separated(uint8_t *p, size_t n, unsigned per_256, uint64_t seed)
{
    static const uint8_t others[8] = {0x00, 0x03, 0x81, 0x82, 0xFF, 0x80, 'a', '='};
    for (size_t i = 0; i < n; i++) {
        uint8_t random[2];
        fill_random(random, 2, seed + i * 0x9E3779B97F4A7C15u);
        p[i] = random[0] < per_256 ? 1 + random[1] % 2 : others[random[1] % 8];
    }
}

static void check_separators_of_every_length_and_alignment(struct guarded memory)
{
    static const unsigned densities[] = {0, 2, 20, 128, 256};
    for (size_t d = 0; d < sizeof densities / sizeof densities[0]; d++) {
        fill_separated(memory.begin, (size_t)(memory.end - memory.begin), densities[d], 17 + d);
        for (size_t n = 0; n <= LENGTHS; n++) {
            for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++)
                check_separators(memory.begin + alignment, n);
            check_separators(memory.end - n, n);
        }
        check_separators(memory.end - LONGEST, LONGEST);
    }
}

static void check_only_two_values_separate(void)
{
    uint8_t data[80];
    for (size_t place = 0; place < sizeof data; place++)
        for (int value = 0; value < 256; value++)
            for (int around = 0; around < 4; around++) {
                memset(data, around == 3 ? 0xFF : around, sizeof data);
                data[place] = (uint8_t)value;
                check_separators(data, sizeof data);
            }
}

/* ---- magic codes ---- */

static size_t first_magic(const uint8_t *data, size_t n)
{
    for (size_t p = 0; p + 4 <= n; p++)
        if (memcmp(data + p, CODES[0], 4) == 0 || memcmp(data + p, CODES[1], 4) == 0)
            return p;
    return n;
}

static void check_find_magic(const uint8_t *data, size_t n)
{
    size_t found = rs_find_magic(data, n), expected = first_magic(data, n);
    CHECK(found == expected, "%zu bytes: %zu, not %zu", n, found, expected);
}

/* The code stands whole, and then cut short by the end, at every distance from both ends. */
static void check_every_place(struct guarded memory, const uint8_t *code)
{
    for (size_t place = 0; place <= 2 * LENGTHS; place++) {
        size_t rest = place % 3 == 0 ? 300 : place % 7;
        uint8_t *data = memory.end - place - 4 - rest;
        memset(data, place % 2 ? 0 : 0xDA, place + 4 + rest);
        memcpy(data + place, code, 4);
        size_t found = rs_find_magic(data, place + 4 + rest);
        CHECK(found == place, "%zu bytes follow: %zu, not %zu", rest, found, place);

        for (size_t cut = 1; cut <= 4; cut++) {
            data = memory.end - place - 4 + cut;
            memset(data, 0, place);
            memcpy(data + place, code, 4 - cut);
            found = rs_find_magic(data, place + 4 - cut);
            CHECK(found == place + 4 - cut, "%zu bytes of %zu: %zu", 4 - cut, place, found);
        }
    }
}

/* Only two of the codes that differ in their last byte are those of messages. */
static void check_other_codes(void)
{
    uint8_t data[6] = {'x', 0xDA, 0xA3, 0x20, 0, 'x'};
    for (int last = 0; last < 256; last++) {
        data[4] = (uint8_t)last;
        check_find_magic(data, sizeof data);
    }
}

/* Pieces of codes, cut and run together anywhere, and whole ones among them. */
static void fill_with_pieces(uint8_t *p, size_t n, uint64_t seed)
{
    uint8_t random[2];
    for (size_t i = 0; i < n;) {
        fill_random(random, 2, seed += 0x9E3779B97F4A7C15u);
        size_t length = random[0] == 0 ? 4 : 1 + random[0] % 3, from = random[1] % (5 - length);
        for (size_t k = 0; k < length && i < n; k++)
            p[i++] = CODES[random[1] >> 7][from + k];
    }
}

static void check_pieces(struct guarded memory)
{
    size_t size = (size_t)(memory.end - memory.begin), found = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        fill_with_pieces(memory.begin, size, seed);
        for (size_t at = 0; at < size; at = found + 1) {
            check_find_magic(memory.begin + at, size - at);
            found = at + rs_find_magic(memory.begin + at, size - at);
        }
        for (size_t n = 0; n <= LENGTHS; n++) {
            check_find_magic(memory.begin, n);
            check_find_magic(memory.begin + seed, n);
            check_find_magic(memory.end - n, n);
        }
    }
}

static void check_a_code_with_one_bit_wrong_is_none(void)
{
    uint8_t data[600] = {0};
    for (size_t place = 0; place < 40; place++)
        for (int code = 0; code < 2; code++)
            for (int bit = 0; bit < 32; bit++) {
                memcpy(data + 240 + place, CODES[code], 4);
                data[240 + place + (size_t)bit / 8] ^= (uint8_t)(1 << bit % 8);
                check_find_magic(data, sizeof data);
                memset(data, 0, sizeof data);
            }
}

/* ---- spaces ---- */

/* No space, and two at every two places, in what careless arithmetic takes for one. */
static void check_find_space(struct guarded memory)
{
    static const uint8_t others[5] = {0x00, 0x1F, 0x21, 0xA0, 0xDF};
    for (size_t n = 0; n <= 40; n++)
        for (size_t kind = 0; kind < sizeof others; kind++) {
            uint8_t *data = memory.end - n;
            memset(data, others[kind], n);
            CHECK(rs_find_space(data, n) == n, "%zu bytes of %02X", n, others[kind]);
            for (size_t first = 0; first < n; first++)
                for (size_t second = first; second < n; second++) {
                    data[first] = data[second] = ' ';
                    size_t found = rs_find_space(data, n);
                    CHECK(found == first, "%zu bytes, spaces at %zu and %zu: %zu", n, first, second, found);
                    data[first] = data[second] = others[kind];
                }
        }
}

int main(void)
{
    struct guarded memory = guarded_alloc(PAGES);
    positions_memory = guarded_alloc(sizeof(uint16_t) * (LONGEST + RS_MORE_SEPARATORS));

    CHECK(rs_separators(NULL, 0, NULL) == 0 && rs_find_magic(NULL, 0) == 0, "nothing");
    check_separators_of_every_length_and_alignment(memory);
    check_only_two_values_separate();
    check_every_place(memory, CODES[0]);
    check_every_place(memory, CODES[1]);
    check_other_codes();
    check_pieces(memory);
    check_a_code_with_one_bit_wrong_is_none();
    check_find_space(memory);
    printf("scan_bytes: %s\n", rs_cpu_name(rs_cpu_level()));
    return 0;
}
