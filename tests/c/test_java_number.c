#include <string.h>

#include "rs_java_number.h"
#include "test_util.h"

static struct guarded memory;

/* Parses a text that ends where memory ends. */
static bool parse(const char *text, size_t n, int64_t least, int64_t most, int64_t *ret)
{
    return rs_java_number(memcpy(memory.end - n, text, n), n, least, most, ret);
}

static void check_number(const char *text, int64_t least, int64_t most, int64_t wanted)
{
    int64_t number = 77;
    CHECK(parse(text, strlen(text), least, most, &number) && number == wanted, "%s", text);
}

static void check_refused(const char *text, size_t n, int64_t least, int64_t most)
{
    int64_t number = 77;
    CHECK(!parse(text, n, least, most, &number) && number == 77, "%s", text);
}

int main(void)
{
    memory = guarded_alloc(100);
    check_number("0", INT64_MIN, INT64_MAX, 0);
    check_number("+007", INT64_MIN, INT64_MAX, 7);
    check_number("-0", 0, 0, 0);
    check_number("9223372036854775807", INT64_MIN, INT64_MAX, INT64_MAX);
    check_number("-9223372036854775808", INT64_MIN, INT64_MAX, INT64_MIN);
    check_number("-\xd9\xa3\xef\xbc\x97", INT16_MIN, INT16_MAX, -37); /* Arabic 3, fullwidth 7 */
    check_number("-32768", INT16_MIN, INT16_MAX, INT16_MIN);

    const char *refused[] = {
        "", "+", "-", "--1", " 1", "1 ", "1_0", "0x1", "9223372036854775808", "-9223372036854775809",
        "99999999999999999999", "\xc2\xb2", "\xf0\x9d\x9f\x8f", "\xe0\x80\xb0", "\xc0\xb0", "1\xd9", "1\xef\xbc",
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        check_refused(refused[i], strlen(refused[i]), INT64_MIN, INT64_MAX);
    check_refused("1\0", 2, INT64_MIN, INT64_MAX);
    check_refused("32768", 5, INT16_MIN, INT16_MAX);
    check_refused("-32769", 6, INT16_MIN, INT16_MAX);
    check_refused("-1", 2, 0, INT64_MAX);

    int digits = 0;
    for (uint32_t point = 0; point <= 0x10FFFF; point++)
        digits += rs_java_digit(point) >= 0;
    CHECK(digits == 370, "%d digits", digits);
    return 0;
}
