/* SipHash-1-3: a hash for tables in memory. Without its key, an attacker cannot choose many texts with one hash. */
#ifndef RS_KEYED_HASH_H
#define RS_KEYED_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "rs_bytes.h"

#define RS_SIP_ROTATE(x, n) ((x) << (n) | (x) >> (64 - (n)))

static inline void rs_sip_round(uint64_t v[4])
{
    v[0] += v[1], v[1] = RS_SIP_ROTATE(v[1], 13) ^ v[0], v[0] = RS_SIP_ROTATE(v[0], 32);
    v[2] += v[3], v[3] = RS_SIP_ROTATE(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = RS_SIP_ROTATE(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = RS_SIP_ROTATE(v[1], 17) ^ v[2], v[2] = RS_SIP_ROTATE(v[2], 32);
}

/* The hash of `n` bytes and a number; with number 0, the usual SipHash-1-3. */
static inline uint64_t rs_keyed_hash(const uint64_t key[2], uint32_t number, const uint8_t *data, size_t n)
{
    uint64_t first = key[0] ^ number, second = key[1], word;
    uint64_t v[4] = {first ^ 0x736F6D6570736575u, second ^ 0x646F72616E646F6Du, first ^ 0x6C7967656E657261u,
                     second ^ 0x7465646279746573u};
    const uint8_t *end = data + n / 8 * 8;
    for (; data < end; data += 8) {
        word = rs_load_le64(data);
        v[3] ^= word;
        rs_sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t)n << 56;
    for (size_t i = 0; i < n % 8; i++)
        word |= (uint64_t)data[i] << 8 * i;
    v[3] ^= word;
    rs_sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++)
        rs_sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
