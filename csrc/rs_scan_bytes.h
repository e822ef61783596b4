/* Searches of bytes: the separators of a property string, the next magic code. */
#ifndef RS_SCAN_BYTES_H
#define RS_SCAN_BYTES_H

#include <stddef.h>
#include <stdint.h>

/*
 * Writes the positions of all bytes 0x01 and 0x02, in order. Returns how many there are.
 * Reads data[0 .. n) only, and may write beyond what it returns, inside positions_ret[0 .. n).
 * REQUIRES: n <= 32767; positions_ret has room for n.
 */
size_t rs_separators(const uint8_t *data, size_t n, uint16_t *positions_ret);

/* The first position at which DA A3 20 A7 or DA A3 20 AB stands whole; n if none. Reads data[0 .. n) only. */
size_t rs_find_magic(const uint8_t *data, size_t n);

#endif
