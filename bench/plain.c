/* The loops that anyone would write first: what the kernels are measured against. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t hash(uint32_t h, const uint8_t *key, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = 31 * h + key[i];
    return h;
}

static uint32_t key_hash(uint32_t h)
{
    int32_t value = (int32_t)h < 0 ? (int32_t)(0 - h) : (int32_t)h;
    return value < 0 ? 0 : (uint32_t)value;
}

void plain_hash(const uint8_t *topic, size_t topic_length, const uint8_t *data, const int32_t *offsets, size_t n,
                int32_t *hashes)
{
    for (size_t i = 0; i < n; i++)
        hashes[i] = (int32_t)key_hash(hash(hash(0, topic, topic_length), data + offsets[i],
                                           (size_t)(offsets[i + 1] - offsets[i])));
}

static uint32_t load(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return __builtin_bswap32(v);
}

static void store(uint8_t *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, 4);
}

static void store64(uint8_t *p, uint64_t v)
{
    v = __builtin_bswap64(v);
    memcpy(p, &v, 8);
}

void plain_put(uint8_t *file, uint32_t slots, const uint8_t *topic, size_t topic_length, const uint8_t *data,
               const int32_t *offsets, const int64_t *phy_offsets, const int64_t *timestamps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t h = key_hash(hash(hash(0, topic, topic_length), data + offsets[i],
                                   (size_t)(offsets[i + 1] - offsets[i])));
        uint8_t *slot = file + 40 + 4 * (size_t)(h % slots);
        uint8_t *item = file + 40 + 4 * (size_t)slots + 20 * (i + 1);
        uint32_t prev = load(slot);
        store(item, h);
        store64(item + 4, (uint64_t)phy_offsets[i]);
        store(item + 12, i == 0 ? 0 : (uint32_t)((timestamps[i] - timestamps[0]) / 1000));
        store(item + 16, prev);
        store(slot, (uint32_t)(i + 1));
        if (i == 0) {
            store64(file + 16, (uint64_t)phy_offsets[0]);
            store64(file, (uint64_t)timestamps[0]);
        }
        if (prev == 0)
            store(file + 32, load(file + 32) + 1);
        store(file + 36, (uint32_t)(i + 2));
        store64(file + 24, (uint64_t)phy_offsets[i]);
        store64(file + 8, (uint64_t)timestamps[i]);
    }
}
