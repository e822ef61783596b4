/* Rows of big-endian integers, taken apart into columns of native ones. */
#ifndef RS_COLUMNS_H
#define RS_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Takes apart n rows of 20 bytes: an i64, an i32, an i64. Reads rows[0 .. 20 * n) only, in any alignment.
 * Columns too large for a core's cache are written past it, which needs each of them to have some row, the same one
 * for all, at a multiple of 64 bytes.
 * REQUIRES: the columns have room for n, have the alignment of their types, and overlap with nothing.
 */
void rs_columns_8_4_8(const uint8_t *rows, size_t n, int64_t *first_ret, int32_t *second_ret, int64_t *third_ret);

#endif
