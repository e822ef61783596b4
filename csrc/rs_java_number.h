/* Decimal numbers in text, as Integer.parseInt and Long.parseLong of Java read them. */
#ifndef RS_JAVA_NUMBER_H
#define RS_JAVA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns the value of a UTF-16 unit that Character.digit(unit, 10) of JDK 17 takes for a digit, and -1 for any other.
 * Java's digits are those of Unicode 13. A digit above U+FFFF is two units to Java, and no digit.
 */
int rs_java_digit(uint32_t point);

/*
 * Reads a sign or none, then one digit or more of any script, to the end of the text in UTF-8. Malformed UTF-8 is no
 * digit. Reads data[0 .. n) only.
 * Returns false if Java refuses the text, or the number is not in least .. most; *ret is then unchanged.
 * REQUIRES: least <= 0 <= most.
 */
bool rs_java_number(const uint8_t *data, size_t n, int64_t least, int64_t most, int64_t *ret);

#endif
