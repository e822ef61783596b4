#include "rs_utf8.h"

#include <string.h>

#include "rs_cpu.h"
#include "test_util.h"

enum { LENGTHS = 300, ALIGNMENTS = 64, PAGES = 8192 };

/* The values at which a rule begins or ends, and one between. */
static const uint8_t EDGES[] = {
    0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0,
    0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF7, 0xF8, 0xFE, 0xFF,
};
enum { N_EDGES = sizeof EDGES };

/* ---- the reference: a character is what encode() gives ---- */

static bool is_character(const uint8_t *p, size_t n)
{
    uint32_t point = n == 1 ? p[0] : n == 2 ? p[0] & 0x1F : n == 3 ? p[0] & 0x0F : p[0] & 0x07;
    for (size_t k = 1; k < n; k++)
        point = point << 6 | (p[k] & 0x3F);
    uint8_t again[4];
    return !is_surrogate(point) && point <= 0x10FFFF && encode(point, again) == n && memcmp(p, again, n) == 0;
}

static size_t character_length(const uint8_t *p, size_t n)
{
    for (size_t length = 1; length <= 4 && length <= n; length++)
        if (is_character(p, length))
            return length;
    return 0;
}

/* Whether bytes after these could make them a character; for two and more, 80 is such a byte where any is. */
static bool could_go_on(const uint8_t *p, size_t n)
{
    uint8_t whole[4] = {0x80, 0x80, 0x80, 0x80};
    memcpy(whole, p, n);
    return (n == 2 && is_character(whole, 3)) || (n >= 2 && is_character(whole, 4));
}

/* Java gives one U+FFFD for as many bytes as could have become a character, and for an encoded surrogate. */
static size_t malformed_length(const uint8_t *p, size_t n)
{
    if (n >= 2 && p[0] == 0xED && 0xA0 <= p[1] && p[1] <= 0xBF)
        return n >= 3 && 0x80 <= p[2] && p[2] <= 0xBF ? 3 : 2;
    for (size_t length = 3; length >= 2; length--)
        if (length <= n && could_go_on(p, length))
            return length;
    return 1;
}

static size_t reference_repair(const uint8_t *p, size_t n, uint8_t *ret)
{
    size_t size = 0;
    for (size_t i = 0, length; i < n; i += length) {
        length = character_length(p + i, n - i);
        if (length > 0) {
            memcpy(ret + size, p + i, length);
            size += length;
        } else {
            length = malformed_length(p + i, n - i);
            size += encode(0xFFFD, ret + size);
        }
    }
    return size;
}

/* ---- checks ---- */

static void check_string(const uint8_t *p, size_t n)
{
    uint8_t repaired[3 * LENGTHS], expected[3 * LENGTHS];
    size_t size = rs_utf8_repair(p, n, repaired), expected_size = reference_repair(p, n, expected);
    CHECK(size == expected_size && memcmp(repaired, expected, size) == 0, "%s: repaired to %zu bytes",
          hex(p, n), size);
    bool valid = size == n && memcmp(repaired, p, n) == 0;
    CHECK(rs_utf8_valid(p, n) == valid, "%s: valid or not", hex(p, n));
    CHECK(rs_utf8_valid(repaired, size), "%s: what it is repaired to is not valid", hex(p, n));
}

/* Every string of one to three bytes; the CPU level makes no difference to them, so one run for all is enough. */
static void check_all_short_strings(void)
{
    for (uint32_t bytes = 0; bytes < 1u << 24; bytes++) {
        uint8_t p[3] = {(uint8_t)(bytes >> 16), (uint8_t)(bytes >> 8), (uint8_t)bytes};
        check_string(p, 3);
        if (p[2] == 0)
            check_string(p, 2);
        if (p[1] == 0 && p[2] == 0)
            check_string(p, 1);
    }
}

static void check_all_edges(void)
{
    uint8_t p[4];
    for (size_t i = 0; i < N_EDGES * N_EDGES * N_EDGES * N_EDGES; i++) {
        size_t rest = i;
        for (int k = 0; k < 4; k++, rest /= N_EDGES)
            p[k] = EDGES[rest % N_EDGES];
        for (size_t n = 1; n <= 4; n++)
            check_string(p, n);
    }
}

static void check_every_code_point(void)
{
    uint8_t p[12];
    uint32_t point;
    for (uint32_t expected = 0; expected <= 0x10FFFF; expected++) {
        size_t length = encode(expected, p), taken = rs_utf8_decode(p, length, &point);
        CHECK(taken == length, "U+%04X: %zu bytes", expected, taken);
        CHECK(point == (is_surrogate(expected) ? RS_UTF8_MALFORMED : expected), "U+%04X: %04X", expected, point);
        CHECK(rs_utf8_valid(p, length) == !is_surrogate(expected), "U+%04X", expected);
    }
}

static void check_random_strings(void)
{
    uint8_t p[40];
    for (uint64_t seed = 1; seed <= 200000; seed++) {
        fill_random(p, sizeof p, seed * 0x9E3779B97F4A7C15u);
        size_t n = p[39] % 39;
        for (size_t i = 0; i < n; i++)
            p[i] = p[i] < 0x40 ? p[i] : EDGES[p[i] % N_EDGES];
        check_string(p, n);
    }
}

/* One character, or one bad byte, at each place of a string of each length: no place is overlooked. */
static void check_every_place_at(uint8_t *data, size_t n)
{
    memset(data, 'a', n);
    CHECK(rs_utf8_valid(data, n), "%zu bytes of ASCII, alignment %zu", n, (size_t)data % 64);
    for (size_t place = 0; place < n; place++) {
        data[place] = 0x80;
        CHECK(!rs_utf8_valid(data, n), "%zu bytes with 80 at %zu", n, place);
        data[place] = 0xC3;
        CHECK(!rs_utf8_valid(data, n), "%zu bytes with C3 at %zu", n, place);
        if (place > 0) {
            memcpy(data + place - 1, "\xC3\xA9", 2);
            CHECK(rs_utf8_valid(data, n), "%zu bytes with C3 A9 at %zu", n, place - 1);
            data[place - 1] = 'a';
        }
        data[place] = 'a';
    }
}

static void check_every_length_and_alignment(struct guarded memory)
{
    for (size_t n = 0; n <= LENGTHS; n++) {
        check_every_place_at(memory.begin, n);
        check_every_place_at(memory.end - n, n);
        memset(memory.begin, 'a', n + ALIGNMENTS);
        for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++)
            CHECK(rs_utf8_valid(memory.begin + alignment, n), "%zu bytes, alignment %zu", n, alignment);
    }
}

/* A string of bad bytes needs all the room there is, and a sequence that the end cuts short reads nothing beyond. */
static void check_nothing_is_touched_beyond_the_room(struct guarded memory, struct guarded room)
{
    static const char *const cut[] = {"\xFF", "\xC3", "\xE4\xB8", "\xF0\x9F\x98", "\xED\xA0", "\xED\xA0\x80"};
    for (size_t n = 0; n <= LENGTHS; n++) {
        memset(memory.end - n, 0xFF, n);
        size_t size = rs_utf8_repair(memory.end - n, n, room.end - 3 * n);
        CHECK(size == 3 * n, "%zu bytes FF: %zu", n, size);
        for (size_t i = 0; i < n; i++)
            CHECK(memcmp(room.end - 3 * n + 3 * i, "\xEF\xBF\xBD", 3) == 0, "%zu bytes FF: no U+FFFD at %zu", n, i);
    }
    for (size_t c = 0; c < sizeof cut / sizeof cut[0]; c++)
        for (size_t lead = 0; lead < 80; lead++) {
            size_t length = strlen(cut[c]), n = lead + length;
            uint8_t *data = memory.end - n, *ret = room.end - lead - 3;
            memset(data, 'a', lead);
            memcpy(data + lead, cut[c], length);
            CHECK(!rs_utf8_valid(data, n), "%s after %zu bytes", hex(data + lead, length), lead);
            CHECK(rs_utf8_repair(data, n, ret) == lead + 3, "%s after %zu bytes", hex(data + lead, length), lead);
            CHECK(memcmp(ret, data, lead) == 0, "%zu bytes", lead);
            CHECK(memcmp(ret + lead, "\xEF\xBF\xBD", 3) == 0, "%s after %zu bytes", hex(data + lead, length), lead);
        }
}

int main(void)
{
    struct guarded memory = guarded_alloc(PAGES), room = guarded_alloc(PAGES);

    CHECK(rs_utf8_valid(NULL, 0) && rs_utf8_repair(NULL, 0, NULL) == 0, "nothing");
    if (rs_cpu_level() == rs_cpu_supported())
        check_all_short_strings();
    check_all_edges();
    check_every_code_point();
    check_random_strings();
    check_every_length_and_alignment(memory);
    check_nothing_is_touched_beyond_the_room(memory, room);
    printf("utf8: %s\n", rs_cpu_name(rs_cpu_level()));
    return 0;
}
