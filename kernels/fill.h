/* Random numbers for measurements.  Every 8 bytes are a function of a key and their offset alone, so that device and host make the same bytes,
 * however the work is cut into pieces. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/number.h"
#include "kernels/splitmix.h"

enum fill_kind {
    FILL_SAME,          /* the key itself, again and again */
    FILL_BITS,          /* any bits: nibbles of INT4 */
    FILL_BELL,          /* nibbles that are the number of ones among 15 bits: about normal, up to four deviations from the mean */
    FILL_INT8,          /* -127..127 */
    FILL_FP8,           /* E4M3 of magnitude 1/4 to 3.75, root mean square 1.69 */
    FILL_BF16,          /* centre - width to centre + width */
    FILL_F16,           /* centre - width to centre + width, positive, then with a random sign */
    FILL_F32,           /* centre - width to centre + width */
};
/* Root mean squares of quantised numbers, before their scale: of nibble - 8 (FILL_BITS), of an INT8, of an FP8. */
#define FILL_INT4_RMS 4.637f
#define FILL_INT8_RMS 73.9f
#define FILL_FP8_RMS  1.689f
#define FILL_PLANES_RMS 31.33f          /* 16 (upper - 8) + lower of an upper nibble of FILL_BELL and a lower one of FILL_BITS */

struct fill {
    enum fill_kind kind;
    uint64_t       key;
    float          centre, width;
};

BOTH uint64_t fill_hash(uint64_t key, uint64_t i) { return splitmix(key + (i + 1) * SPLITMIX_STEP); }
BOTH uint64_t fill_bf16(float f) { return (f32_bits(f) + 0x8000u) >> 16; }
BOTH uint64_t fill_f16(float f)            /* of positive normal numbers */
{
    return (f32_bits(f) + 0x1000u - 0x38000000u) >> 13;
}

/* For each of four words of 16 bits, the number of ones among its lower 15 bits. */
BOTH uint64_t fill_ones(uint64_t v)
{
    v &= 0x7fff7fff7fff7fffu;
    v = (v & 0x5555555555555555u) + (v >> 1 & 0x5555555555555555u);
    v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
    v = (v & 0x0f0f0f0f0f0f0f0fu) + (v >> 4 & 0x0f0f0f0f0f0f0f0fu);
    return (v + (v >> 8)) & 0x000f000f000f000fu;
}

/* Bytes 8 i to 8 i + 7. */
BOTH uint64_t fill_word(const struct fill *f, uint64_t i)
{
    uint64_t h, out = 0;
    if (f->kind == FILL_SAME)
        return f->key;
    h = fill_hash(f->key, i);
    switch (f->kind) {
    case FILL_INT8:                             /* a byte of 0x80 becomes 0x81 */
        out = h ^ 0x8080808080808080u;
        out = ((out & 0x7f7f7f7f7f7f7f7fu) + 0x7f7f7f7f7f7f7f7fu) | out;      /* high bit: the byte was not 0x80 */
        return h | (~out >> 7 & 0x0101010101010101u);
    case FILL_BELL:
        for (int j = 0; j < 4; j++)
            out |= fill_ones(fill_hash(f->key, 4 * i + (uint64_t)j)) << 4 * j;
        return out;
    case FILL_FP8:
        return (h & 0x9f9f9f9f9f9f9f9fu) + 0x2828282828282828u;
    case FILL_BF16:
        for (int j = 0; j < 4; j++)
            out |= fill_bf16(f->centre + f->width * ((float)(int16_t)(uint16_t)(h >> 16 * j) * (1.0f / 32768))) << 16 * j;
        return out;
    case FILL_F16:
        for (int j = 0; j < 4; j++) {
            uint32_t u = (uint32_t)(h >> 16 * j) & 0xffffu;
            float v = f->centre + f->width * ((float)(u & 0x7fffu) * (1.0f / 16384) - 1);
            out |= (fill_f16(v) | (u & 0x8000u)) << 16 * j;
        }
        return out;
    case FILL_F32:
        for (int j = 0; j < 2; j++)
            out |= (uint64_t)f32_bits(f->centre + f->width * ((float)(int32_t)(uint32_t)(h >> 32 * j) * (1.0f / 2147483648.0f))) << 32 * j;
        return out;
    default:
        return h;
    }
}
