/* CRC-32 (IEEE 802.3, the one of zlib and java.util.zip.CRC32). */
#ifndef RS_CRC32_H
#define RS_CRC32_H

#include <stddef.h>
#include <stdint.h>

/*
 * Continues the checksum `crc` (0 to begin) over `len` bytes at `data`: zlib's convention, so calls chain.
 * Reads no byte outside data[0, len); `data` may be NULL if `len` is 0. Thread-safe.
 */
uint32_t rs_crc32(uint32_t crc, const void *data, size_t len);

#endif
