#include "rs_java_hash.h"

#include <string.h>

#include "rs_cpu.h"
#include "rs_utf8.h"
#include "test_util.h"

enum { LENGTHS = 300, ALIGNMENTS = 65, PAGES = 8192, ROWS = 257 };

static const uint32_t SEEDS[] = {0, 1, 31, 94409, 0x80000000u, 0xFFFFFFFFu};
enum { N_SEEDS = sizeof SEEDS / sizeof SEEDS[0] };

/* ---- the reference: one unit at a time ---- */

static uint32_t add_unit(uint32_t h, uint32_t unit)
{
    return h * 31 + unit;
}

static uint32_t add_code_point(uint32_t h, uint32_t point)
{
    if (point < 0x10000)
        return add_unit(h, point);
    return add_unit(add_unit(h, 0xD7C0 + (point >> 10)), 0xDC00 + (point & 0x3FF));
}

/* Random ASCII, with the values at the borders more often than chance gives them. */
static void fill_ascii(uint8_t *p, size_t n, uint64_t seed)
{
    fill_random(p, n, seed);
    for (size_t i = 0; i < n; i++)
        p[i] = p[i] >= 0xF0 ? 0x7F : p[i] >= 0xE8 ? 0 : p[i] & 0x7F;
}

/* ---- single strings ---- */

static void check_values_that_java_gives(void)
{
    static const struct {
        const char *text;
        int32_t hash;
    } cases[] = {
        {"", 0},
        {"a#k", 94409},
        {"TopicTest#key", 85128477},
        {"\xE4\xB8\xBB\xE9\xA2\x98#\xE9\x94\xAE", 634204136},
        {"\xF0\x9F\x98\x80", 1772899},
        {"polygenelubricants", INT32_MIN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint8_t *bytes = (const uint8_t *)cases[i].text;
        size_t n = strlen(cases[i].text);
        uint32_t h = 0;
        bool valid = rs_java_hash_utf8(0, bytes, n, &h);
        CHECK(valid && (int32_t)h == cases[i].hash, "%s: %d", cases[i].text, (int32_t)h);
        h = rs_java_hash_utf8_lossy(0, bytes, n);
        CHECK((int32_t)h == cases[i].hash, "%s: %d", cases[i].text, (int32_t)h);
    }
    CHECK(rs_java_hash_latin1(0, NULL, 0) == 0 && rs_java_hash_latin1(7, NULL, 0) == 7, "nothing");
}

static void check_latin1_at(const uint8_t *p)
{
    for (size_t s = 0; s < N_SEEDS; s++) {
        uint32_t expected = SEEDS[s];
        for (size_t n = 0; n <= LENGTHS; n++) {
            uint32_t h = rs_java_hash_latin1(SEEDS[s], p, n);
            CHECK(h == expected, "%zu units, alignment %zu, seed %08x: %08x", n, (size_t)p % 64, SEEDS[s], h);
            expected = add_unit(expected, p[n]);
        }
    }
}

static void check_latin1(void)
{
    struct guarded memory = guarded_alloc(PAGES);
    size_t size = (size_t)(memory.end - memory.begin);
    for (int content = 0; content < 2; content++) {
        content ? memset(memory.begin, 0xFF, size) : fill_random(memory.begin, size, 424242);
        for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++)
            check_latin1_at(memory.begin + alignment);
        for (size_t n = 0; n <= LENGTHS; n++) {
            uint32_t first = 0, last = 0;
            for (size_t i = 0; i < n; i++) {
                first = add_unit(first, memory.begin[i]);
                last = add_unit(last, (memory.end - n)[i]);
            }
            CHECK(rs_java_hash_latin1(0, memory.begin, n) == first, "%zu units, a page begins", n);
            CHECK(rs_java_hash_latin1(0, memory.end - n, n) == last, "%zu units, a page ends", n);
        }
    }
}

static void check_a_hash_goes_on_where_another_ended(void)
{
    uint8_t bytes[LENGTHS];
    fill_ascii(bytes, LENGTHS, 31);
    uint32_t whole = rs_java_hash_latin1(0, bytes, LENGTHS), h;
    for (size_t cut = 0; cut <= LENGTHS; cut++) {
        uint32_t front = rs_java_hash_latin1(0, bytes, cut);
        CHECK(rs_java_hash_latin1(front, bytes + cut, LENGTHS - cut) == whole, "Latin-1 cut at %zu", cut);
        h = rs_java_hash_utf8_lossy(front, bytes + cut, LENGTHS - cut);
        CHECK(h == whole, "lossy UTF-8 cut at %zu", cut);
        bool valid = rs_java_hash_utf8(front, bytes + cut, LENGTHS - cut, &h);
        CHECK(valid && h == whole, "UTF-8 cut at %zu", cut);
    }
}

static void check_ucs2(void)
{
    struct guarded memory = guarded_alloc(PAGES);
    fill_random(memory.begin, (size_t)(memory.end - memory.begin), 2);
    for (size_t n = 0; n <= LENGTHS; n++) {
        const uint16_t *first = (const uint16_t *)(void *)memory.begin;
        const uint16_t *last = (const uint16_t *)(void *)(memory.end - 2 * n);
        for (size_t s = 0; s < N_SEEDS; s++) {
            uint32_t of_first = SEEDS[s], of_last = SEEDS[s];
            for (size_t i = 0; i < n; i++) {
                of_first = add_unit(of_first, first[i]);
                of_last = add_unit(of_last, last[i]);
            }
            CHECK(rs_java_hash_ucs2(SEEDS[s], first, n) == of_first, "%zu units, a page begins", n);
            CHECK(rs_java_hash_ucs2(SEEDS[s], last, n) == of_last, "%zu units, a page ends", n);
        }
    }
}

static void check_ucs4(void)
{
    struct guarded memory = guarded_alloc(PAGES);
    uint32_t *all = (uint32_t *)(void *)memory.begin;
    fill_random(memory.begin, (size_t)(memory.end - memory.begin), 4);
    for (size_t i = 0; i < (size_t)(memory.end - memory.begin) / 4; i++)
        all[i] = all[i] % (all[i] & 1 ? 0x110000 : 0x300);
    for (size_t n = 0; n <= LENGTHS; n++) {
        const uint32_t *last = (const uint32_t *)(void *)(memory.end - 4 * n);
        uint32_t expected = 7, h = 0;
        for (size_t i = 0; i < n; i++)
            expected = add_code_point(expected, last[i]);
        CHECK(rs_java_hash_ucs4(7, last, n, &h) && h == expected, "%zu points at the end of a page", n);
    }
    for (uint32_t point = 0; point <= 0x10FFFF; point++) {
        uint32_t h = 0;
        CHECK(rs_java_hash_ucs4(5, &point, 1, &h) && h == add_code_point(5, point), "U+%04X", point);
    }
    static const uint32_t beyond[] = {0x110000, 0x7FFFFFFF, 0x80000000u, 0xFFFFFFFFu};
    for (size_t i = 0; i < 4; i++) {
        uint32_t points[] = {'a', beyond[i], 'b'}, h;
        CHECK(!rs_java_hash_ucs4(0, points, 3, &h), "%08X is no code point", beyond[i]);
    }
}

/* ---- UTF-8 ---- */

/* Each code point at the end of a page: alone, between ASCII, and cut short by each number of bytes. */
static void check_every_code_point(struct guarded memory)
{
    for (uint32_t point = 0; point <= 0x10FFFF; point++) {
        uint8_t bytes[4];
        size_t n = encode(point, bytes);
        uint8_t *p = memory.end - n;
        memcpy(p, bytes, n);
        uint32_t h = 0, expected = add_code_point(17, is_surrogate(point) ? 0xFFFD : point);
        bool valid = rs_java_hash_utf8(17, p, n, &h);
        CHECK(valid == !is_surrogate(point) && (!valid || h == expected), "U+%04X: %08x", point, h);
        h = rs_java_hash_utf8_lossy(17, p, n);
        CHECK(h == expected, "U+%04X: %08x, not %08x", point, h, expected);
        for (size_t cut = 1; cut < n; cut++) {
            p = memory.end - cut;
            memcpy(p, bytes, cut);
            CHECK(!rs_java_hash_utf8(17, p, cut, &h), "U+%04X cut to %zu bytes", point, cut);
            h = rs_java_hash_utf8_lossy(17, p, cut);
            CHECK(h == add_unit(17, 0xFFFD), "U+%04X cut to %zu bytes: %08x", point, cut, h);
        }
    }
}

static bool continues(uint32_t byte)
{
    return 0x80 <= byte && byte <= 0xBF;
}

/* Of two bytes: both ASCII, one character, one malformed sequence that was cut short, or each by itself. */
static void check_every_two_bytes(struct guarded memory)
{
    uint8_t *p = memory.end - 2;
    for (uint32_t pair = 0; pair < 0x10000; pair++) {
        uint32_t a = pair >> 8, b = pair & 0xFF, expected, h;
        p[0] = (uint8_t)a;
        p[1] = (uint8_t)b;
        bool is_two = 0xC2 <= a && a <= 0xDF && continues(b);
        bool is_begun = (a == 0xE0 && 0xA0 <= b && b <= 0xBF) || (0xE1 <= a && a <= 0xEF && continues(b)) ||
                        (a == 0xF0 && 0x90 <= b && b <= 0xBF) || (0xF1 <= a && a <= 0xF3 && continues(b)) ||
                        (a == 0xF4 && 0x80 <= b && b <= 0x8F);
        if (is_two)
            expected = add_unit(0, (a & 0x1F) << 6 | (b & 0x3F));
        else if (is_begun)
            expected = add_unit(0, 0xFFFD);
        else
            expected = add_unit(add_unit(0, a < 0x80 ? a : 0xFFFD), b < 0x80 ? b : 0xFFFD);
        CHECK(rs_java_hash_utf8_lossy(0, p, 2) == expected, "%02X %02X", a, b);
        bool valid = is_two || (a < 0x80 && b < 0x80);
        CHECK(rs_java_hash_utf8(0, p, 2, &h) == valid && (!valid || h == expected), "%02X %02X", a, b);
    }
}

/* Parameters: decoded: ? stands for U+FFFD. lead, tail: letters before and after the sequence. */
static void check_malformed(struct guarded memory, const char *bytes, const char *decoded, size_t lead, size_t tail)
{
    size_t length = strlen(bytes), n = lead + length + tail;
    uint8_t *p = memory.end - n;
    memset(p, 'a', n);
    memcpy(p + lead, bytes, length);
    uint32_t expected = 3, h;
    for (size_t i = 0; i < lead; i++)
        expected = add_unit(expected, 'a');
    for (const uint8_t *c = (const uint8_t *)decoded; *c; c++) {
        if (*c == 0xC2)
            expected = add_unit(expected, *++c);
        else if (*c == 0xE4)
            expected = add_unit(expected, 0x4E3B), c += 2;
        else
            expected = add_unit(expected, *c == '?' ? 0xFFFD : *c);
    }
    for (size_t i = 0; i < tail; i++)
        expected = add_unit(expected, 'a');
    CHECK(rs_java_hash_utf8_lossy(3, p, n) == expected, "%s after %zu letters", hex(p + lead, length), lead);
    CHECK(!rs_java_hash_utf8(3, p, n, &h), "%s after %zu letters", hex(p + lead, length), lead);
}

/* What new String(bytes, UTF_8) of Java 17 makes of malformed bytes; ? stands for U+FFFD. */
static void check_malformed_sequences_decode_as_java_does(struct guarded memory)
{
    static const struct {
        const char *bytes, *decoded;
    } cases[] = {
        {"\x80", "?"},
        {"\xBF", "?"},
        {"\xC2", "?"},
        {"\xE4", "?"},
        {"\xE4\xB8", "?"},
        {"\xF0", "?"},
        {"\xF0\x9F", "?"},
        {"\xF0\x9F\x98", "?"},
        {"\xF5", "?"},
        {"\xFE", "?"},
        {"\xFF", "?"},
        {"\xC0\x80", "??"},
        {"\xC1\xBF", "??"},
        {"\xE0\x80\x80", "???"},
        {"\xF0\x80\x80\x80", "????"},
        {"\xF4\x90\x80\x80", "????"},
        {"\xF5\x80\x80\x80", "????"},
        {"\xED\xA0\x80", "?"},
        {"\xED\xBF\xBF", "?"},
        {"\xED\xA0", "?"},
        {"\xED\xA0\x41", "?A"},
        {"\xED", "?"},
        {"\xED\xC0", "??"},
        {"\xED\xA0\xED\xA0", "??"},
        {"\xED\xA0\xBD\xED\xB8\x80", "??"},
        {"\xED\xA0\x80\x80", "??"},
        {"\xE4\xB8\x41", "?A"},
        {"\xE4\x41", "?A"},
        {"\xF0\x9F\x98\x41", "?A"},
        {"\xF0\x9F\x41", "?A"},
        {"\xF0\x41", "?A"},
        {"\xC2\x41", "?A"},
        {"\xC2\xC2\x80", "?\xC2\x80"},
        {"\xE4\xB8\xE4\xB8\xBB", "?\xE4\xB8\xBB"},
        {"A\x80\x80Z", "A??Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t lead = 0; lead < 140; lead++)
            for (size_t tail = 0; tail <= 40; tail += tail == 0 ? 1 : 39)
                check_malformed(memory, cases[i].bytes, cases[i].decoded, lead, tail);
}

/* A malformed sequence hashes as its repaired text, whatever stands beside it. */
static void check_random_bytes_hash_as_their_repaired_text(void)
{
    static const uint8_t EDGES[] = {0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
                                    0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFE, 0xFF};
    uint8_t bytes[7], repaired[3 * sizeof bytes];
    for (uint64_t seed = 1; seed <= 30000; seed++) {
        fill_random(bytes, sizeof bytes, seed * 0x9E3779B97F4A7C15u);
        size_t n = 3 + bytes[6] % 4;
        for (size_t i = 0; i < n; i++)
            bytes[i] = EDGES[bytes[i] % sizeof EDGES];
        uint32_t expected = 0;
        size_t size = rs_utf8_repair(bytes, n, repaired);
        CHECK(rs_java_hash_utf8(0, repaired, size, &expected), "%s", hex(bytes, n));
        CHECK(rs_java_hash_utf8_lossy(0, bytes, n) == expected, "%s", hex(bytes, n));
    }
}

static void check_utf8(void)
{
    struct guarded memory = guarded_alloc(PAGES);
    check_every_code_point(memory);
    check_every_two_bytes(memory);
    check_malformed_sequences_decode_as_java_does(memory);
    check_random_bytes_hash_as_their_repaired_text();
    fill_ascii(memory.begin, (size_t)(memory.end - memory.begin), 8);
    for (size_t n = 0; n <= LENGTHS; n++) {
        const uint8_t *p = memory.end - n;
        uint32_t expected = rs_java_hash_latin1(9, p, n), h = 0;
        CHECK(rs_java_hash_utf8(9, p, n, &h) && h == expected, "%zu bytes of ASCII", n);
        CHECK(rs_java_hash_utf8_lossy(9, p, n) == expected, "%zu bytes of ASCII", n);
    }
}

/* ---- columns ---- */

struct column {
    const uint8_t *data;
    size_t n;
    int64_t offsets[ROWS + 1];
    uint32_t seeds[ROWS], hashes[ROWS];
};

/* Copies to where the next byte is one that no one may read. */
static void *at_the_end(struct guarded memory, const void *from, size_t size)
{
    return memcpy(memory.end - size, from, size);
}

static void copy_offsets(struct guarded memory, const struct column *column, int width)
{
    for (size_t i = 0; i <= column->n; i++) {
        uint8_t *p = memory.end - (column->n + 1 - i) * (size_t)width;
        if (width == 8)
            memcpy(p, &column->offsets[i], 8);
        else
            memcpy(p, &(int32_t){(int32_t)column->offsets[i]}, 4);
    }
}

/* The width of the offsets is 4 or 8. The function sees arrays of exactly the size that it may touch. */
static size_t hash_column(struct column *column, int width, size_t seed_step)
{
    static struct guarded of_offsets, of_seeds, of_hashes;
    if (of_offsets.begin == NULL) {
        of_offsets = guarded_alloc(sizeof column->offsets);
        of_seeds = guarded_alloc(sizeof column->seeds);
        of_hashes = guarded_alloc(sizeof column->hashes);
    }
    size_t n = column->n, size = n * sizeof column->hashes[0], done;
    const uint32_t *seeds = at_the_end(of_seeds, column->seeds, seed_step ? size : sizeof column->seeds[0]);
    uint32_t *hashes = memset(of_hashes.end - size, 0xA5, size);
    copy_offsets(of_offsets, column, width);
    const void *offsets = of_offsets.end - (n + 1) * (size_t)width;
    if (width == 8)
        done = rs_java_hash_column64(column->data, offsets, n, seeds, seed_step, hashes);
    else
        done = rs_java_hash_column32(column->data, offsets, n, seeds, seed_step, hashes);
    memcpy(column->hashes, hashes, size);
    return done;
}

static void fill_seeds(struct column *column)
{
    for (size_t i = 0; i < ROWS; i++)
        column->seeds[i] = SEEDS[i % N_SEEDS] + (uint32_t)(i / N_SEEDS);
}

static void check_column_is_hashed(struct column *column, const char *what)
{
    for (int width = 4; width <= 8; width += 4)
        for (size_t seed_step = 0; seed_step < 2; seed_step++) {
            size_t done = hash_column(column, width, seed_step);
            CHECK(done == column->n, "%s, offsets of %d bytes: stopped at row %zu", what, width, done);
            for (size_t i = 0; i < column->n; i++) {
                size_t length = (size_t)(column->offsets[i + 1] - column->offsets[i]);
                const uint8_t *row = column->data + column->offsets[i];
                uint32_t expected = 0;
                CHECK(rs_java_hash_utf8(column->seeds[i * seed_step], row, length, &expected), "%s", what);
                CHECK(column->hashes[i] == expected, "%s, %d-byte offsets, step %zu, row %zu of %zu bytes",
                      what, width, seed_step, i, length);
            }
        }
}

/* Row k of `lengths[k % n_lengths]` bytes of ASCII, as many as fit: where memory begins, then where it ends. */
static void check_ascii_column(struct guarded memory, const size_t *lengths, size_t n_lengths, size_t begin,
                               const char *what)
{
    static struct column column;
    size_t room = (size_t)(memory.end - memory.begin), total = begin;
    column.n = 0;
    column.offsets[0] = (int64_t)begin;
    while (column.n < ROWS && total + lengths[column.n % n_lengths] <= room) {
        total += lengths[column.n % n_lengths];
        column.offsets[++column.n] = (int64_t)total;
    }
    fill_seeds(&column);
    fill_ascii(memory.begin, room, 1000 + total);
    column.data = memory.begin;
    check_column_is_hashed(&column, what);
    fill_ascii(memory.end - total, total, 2000 + total);
    column.data = memory.end - total;
    check_column_is_hashed(&column, what);
}

static void check_columns_of_every_length(void)
{
    struct guarded memory = guarded_alloc(2 * PAGES);
    static const size_t mixed[] = {0, 1, 63, 64, 65, 2, 31, 32, 33, 0, 100, 15, 16, 17, 127, 128, 129, 42};
    for (size_t length = 0; length <= LENGTHS; length++)
        check_ascii_column(memory, &length, 1, 0, "rows of one length");
    for (size_t begin = 0; begin < 70; begin++)
        check_ascii_column(memory, mixed + begin % 18, 18 - begin % 18, begin, "rows of mixed lengths");
}

/* Whoever looks back 64 bytes from a row's end must not look before the data, which may begin a page. */
static void check_nothing_is_read_before_or_after(struct guarded memory, size_t n, size_t begin, size_t first,
                                                  size_t others)
{
    static struct column column;
    size_t total = begin + first + (n - 1) * others;
    column.n = n;
    column.offsets[0] = (int64_t)begin;
    for (size_t i = 1; i <= n; i++)
        column.offsets[i] = (int64_t)(begin + first + (i - 1) * others);
    fill_seeds(&column);
    column.data = memory.begin;
    fill_ascii(memory.begin, total, 3 + total);
    check_column_is_hashed(&column, "at the beginning of a page");
    column.data = memory.end - total;
    fill_ascii(memory.end - total, total, 4 + total);
    check_column_is_hashed(&column, "at the end of a page");
}

static void check_columns_beside_pages_that_no_one_may_read(void)
{
    static const size_t others[] = {0, 1, 21, 63, 64, 65};
    struct guarded memory = guarded_alloc(PAGES);
    for (size_t total = 0; total <= 160; total++)
        for (size_t begin = 0; begin <= total; begin++)
            check_nothing_is_read_before_or_after(memory, 1, begin, total - begin, 0);
    for (size_t begin = 0; begin <= 65; begin++)
        for (size_t first = 0; first <= 65; first++)
            for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
                check_nothing_is_read_before_or_after(memory, 4 + i % 2, begin, first, others[i]);
}

/* Neighbours that are not ASCII, in the 64 bytes before a row too, change nothing for it. */
static void check_rows_that_are_not_ascii_amid_others(void)
{
    static struct column column;
    static const char *const texts[] = {
        "key",
        "",
        "\xE9\x94\xAE",
        "0123456789abcdef0123456789abcdef",
        "\xF0\x9F\x98\x80",
        "caf\xC3\xA9",
        "0123456789012345678901234567890123456789012345678901234567890123456",
        "\xE4\xB8\xBB\xE9\xA2\x98 0123456789012345678901234567890123456789012345678901234567",
    };
    struct guarded memory = guarded_alloc(2 * PAGES);
    size_t total = 0;
    column.n = ROWS;
    for (size_t i = 0; i < ROWS; i++)
        total += strlen(texts[i * 5 % 8]);
    column.data = memory.end - total;
    total = 0;
    for (size_t i = 0; i < ROWS; i++) {
        size_t length = strlen(texts[i * 5 % 8]);
        column.offsets[i] = (int64_t)total;
        memcpy((uint8_t *)column.data + total, texts[i * 5 % 8], length);
        total += length;
    }
    column.offsets[ROWS] = (int64_t)total;
    fill_seeds(&column);
    check_column_is_hashed(&column, "rows not of ASCII");
}

static void expect_stop_of(struct column *column, int width, size_t row, const char *what)
{
    size_t done = hash_column(column, width, 0);
    CHECK(done == row, "%s, offsets of %d bytes: row %zu, not %zu", what, width, done, row);
}

static void expect_stop_at(struct column *column, size_t row, const char *what)
{
    expect_stop_of(column, 4, row, what);
    expect_stop_of(column, 8, row, what);
}

/* `n` rows of `length` bytes that end at the page's end. */
static void make_even_column(struct column *column, struct guarded memory, size_t n, size_t length)
{
    column->n = n;
    column->data = memory.end - n * length;
    fill_ascii((uint8_t *)column->data, n * length, 5);
    for (size_t i = 0; i <= n; i++)
        column->offsets[i] = (int64_t)(i * length);
    fill_seeds(column);
}

static void check_offsets_outside_the_data_name_the_row(void)
{
    static struct column column;
    struct guarded memory = guarded_alloc(2 * PAGES);
    for (size_t length = 7; length <= 77; length += 70)
        for (size_t row = 1; row < 20; row++) {
            static const int64_t wild[] = {-1, INT32_MIN, INT32_MAX, 2000, INT64_MIN, INT64_MAX, 1ll << 32};
            for (size_t i = 0; i < 7; i++) {
                make_even_column(&column, memory, 20, length);
                column.offsets[row] = wild[i];
                expect_stop_of(&column, 8, row - 1, "an offset outside the data");
                if (i < 4)
                    expect_stop_of(&column, 4, row - 1, "an offset outside the data");
            }
            make_even_column(&column, memory, 20, length);
            column.offsets[row] = column.offsets[row - 1] - 1;
            expect_stop_at(&column, row - 1, "a row that ends before it begins");
        }
    for (size_t length = 7; length <= 77; length += 35) {
        make_even_column(&column, memory, 20, length);
        column.offsets[0] = -1;
        expect_stop_at(&column, 0, "a negative first offset");
    }
    for (size_t row = 1; row < 17; row++) {
        make_even_column(&column, memory, 20, 10);
        for (size_t i = 0; i < 4; i++)
            column.offsets[row + i] = (int64_t)(20 * 10 + 1 + i);
        column.offsets[row - 1] = 20 * 10 - 5;
        expect_stop_at(&column, row > 1 ? row - 1 : 0, "short rows beyond the data");
    }
    make_even_column(&column, memory, 8, 7);
    column.offsets[8] = -1;
    expect_stop_at(&column, 0, "a negative total");
    make_even_column(&column, memory, 0, 7);
    column.offsets[0] = -5;
    expect_stop_at(&column, 0, "no rows, whatever the offset");
}

static void check_malformed_bytes_name_the_row(void)
{
    static struct column column;
    static const char *const malformed[] = {"\x80",         "\xC0\x80",         "\xE4\xB8",
                                            "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"};
    struct guarded memory = guarded_alloc(2 * PAGES);
    for (size_t length = 7; length <= 77; length += 35)
        for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++)
            for (size_t row = 0; row < 20; row++) {
                size_t n = strlen(malformed[i]);
                make_even_column(&column, memory, 20, length);
                memcpy((uint8_t *)column.data + (row + 1) * length - n, malformed[i], n);
                expect_stop_at(&column, row, "malformed bytes");
            }
}

/* A character that a row's end cuts in two is malformed in both rows: a row is never read beyond its end. */
static void check_a_character_split_between_rows_is_malformed(void)
{
    static struct column column;
    struct guarded memory = guarded_alloc(PAGES);
    make_even_column(&column, memory, 4, 33);
    memcpy((uint8_t *)column.data + 65, "\xE9\x94\xAE", 3);
    expect_stop_at(&column, 1, "a character split between rows");
}

static void check_empty_columns(void)
{
    static struct column column;
    expect_stop_at(&column, 0, "no rows and no data");
    column.n = 5;
    column.seeds[0] = 99;
    struct guarded memory = guarded_alloc(PAGES);
    column.data = memory.end;
    check_column_is_hashed(&column, "empty rows");
    CHECK(column.hashes[4] == column.seeds[4], "an empty row has its seed's hash");
    column.data = NULL;
    CHECK(hash_column(&column, 4, 0) == 5 && hash_column(&column, 8, 0) == 5, "empty rows without data");
    CHECK(column.hashes[4] == 99, "empty rows without data");
}

int main(void)
{
    check_values_that_java_gives();
    check_latin1();
    check_a_hash_goes_on_where_another_ended();
    check_ucs2();
    check_ucs4();
    check_utf8();
    check_columns_of_every_length();
    check_columns_beside_pages_that_no_one_may_read();
    check_rows_that_are_not_ascii_amid_others();
    check_offsets_outside_the_data_name_the_row();
    check_malformed_bytes_name_the_row();
    check_a_character_split_between_rows_is_malformed();
    check_empty_columns();
    printf("java_hash: %s\n", rs_cpu_name(rs_cpu_level()));
    return 0;
}
