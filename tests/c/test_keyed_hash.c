/* rs_keyed_hash: the values of SipHash-1-3, exact bounds, and that the number and each byte count. */
#include "rs_cpu.h"
#include "rs_keyed_hash.h"
#include "test_util.h"

static const uint64_t KEY[2] = {0x0706050403020100u, 0x0F0E0D0C0B0A0908u};

/* Of the bytes 0, 1, 2 and so on, as many as the row says, by another implementation. */
static const uint64_t EXPECTED[] = {
    0xABAC0158050FC4DCu, 0xC9F49BF37D57CA93u, 0x82CB9B024DC7D44Du, 0x8BF80AB8E7DDF7FBu,
    0xCF75576088D38328u, 0xDEF9D52F49533B67u, 0xC50D2B50C59F22A7u, 0xD3927D989BB11140u,
    0x369095118D299A8Eu, 0x25A48EB36C063DE4u, 0x79DE85EE92FF097Fu, 0x70C118C1F94DC352u,
    0x78A384B157B4D9A2u, 0x306F760C1229FFA7u, 0x605AA111C0F95D34u, 0xD320D86D2A519956u,
    0xCC4FDD1A7D908B66u, 0x9CF2689063DBD80Cu, 0x8FFC389CB473E63Eu, 0xF21F9DE58D297D1Cu,
};

int main(void)
{
    struct guarded memory = guarded_alloc(64);
    for (size_t n = 0; n < sizeof EXPECTED / sizeof *EXPECTED; n++) {
        uint8_t *data = memory.end - n;
        for (size_t i = 0; i < n; i++)
            data[i] = (uint8_t)i;
        CHECK(rs_keyed_hash(KEY, 0, data, n) == EXPECTED[n], "%zu bytes", n);
        CHECK(rs_keyed_hash(KEY, 1, data, n) != EXPECTED[n], "%zu bytes", n);
        for (size_t i = 0; i < n; i++) {
            data[i] ^= 0x80;
            CHECK(rs_keyed_hash(KEY, 0, data, n) != EXPECTED[n], "%zu bytes, byte %zu", n, i);
            data[i] ^= 0x80;
        }
    }
    printf("keyed_hash: %s\n", rs_cpu_name(rs_cpu_level()));
    return 0;
}
