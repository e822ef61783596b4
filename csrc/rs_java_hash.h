/*
 * String.hashCode of Java over any form in which a string lies in memory.
 *
 *   h = 31 * h + unit, over the UTF-16 code units, modulo 2^32
 *
 * Every function continues from `seed`, the hash of the text before, so that a common prefix is hashed once:
 * hash("topic#" + key) = rs_java_hash_x(rs_java_hash_x(0, "topic#"), key). A seed of 0 starts a string.
 */
#ifndef RS_JAVA_HASH_H
#define RS_JAVA_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each byte is one code unit (ASCII, Latin-1). Reads units[0 .. n) only. */
uint32_t rs_java_hash_latin1(uint32_t seed, const uint8_t *units, size_t n);

/* Each element is one code unit, surrogates included. */
uint32_t rs_java_hash_ucs2(uint32_t seed, const uint16_t *units, size_t n);

/* Each element is a code point; one above U+FFFF counts as its two surrogates. False if one is above U+10FFFF. */
bool rs_java_hash_ucs4(uint32_t seed, const uint32_t *points, size_t n, uint32_t *hash_ret);

/* False if the bytes are not well-formed UTF-8 (encoded surrogates are not). */
bool rs_java_hash_utf8(uint32_t seed, const uint8_t *bytes, size_t n, uint32_t *hash_ret);

/* As new String(bytes, UTF_8) decodes: each malformed sequence counts as U+FFFD. */
uint32_t rs_java_hash_utf8_lossy(uint32_t seed, const uint8_t *bytes, size_t n);

/*
 * Hashes a column of n UTF-8 strings: string i is data[offsets[i] .. offsets[i + 1]) and goes on from
 * seeds[i * seed_step] (step 0: one seed for all; step 1: one for each).
 * REQUIRES: data[0 .. offsets[n]) is readable.
 * Returns n, or the first row whose offsets fall outside that or whose bytes are not well-formed UTF-8.
 */
size_t rs_java_hash_column32(const uint8_t *data, const int32_t *offsets, size_t n, const uint32_t *seeds,
                             size_t seed_step, uint32_t *hashes_ret);
size_t rs_java_hash_column64(const uint8_t *data, const int64_t *offsets, size_t n, const uint32_t *seeds,
                             size_t seed_step, uint32_t *hashes_ret);

#endif
