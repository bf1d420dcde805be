#include "kernels/kv.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/vec.h"

enum { EIGHTS = KV_DIM / 8 };

static const uint64_t signs[2][KV_DIM / 64] = {KV_SIGNS_KEY, KV_SIGNS_VALUE};

static float signed_by(enum kv_role role, int j, float x)
{
    return signs[role][j / 64] >> (j % 64) & 1 ? -x : x;
}

/* x = H x / 16.  Butterflies in ascending distance; a sum has the lower index first. */
static void hadamard(float *x)
{
    for (int step = 1; step < KV_DIM; step *= 2)
        for (int i = 0; i < KV_DIM; i++)
            if (!(i & step)) {
                float a = x[i], b = x[i + step];
                x[i] = a + b;
                x[i + step] = a - b;
            }
    for (int i = 0; i < KV_DIM; i++)
        x[i] *= 0.0625f;
}

void kv_rotate(enum kv_role role, const float *x, float *y)
{
    for (int j = 0; j < KV_DIM; j++)
        y[j] = signed_by(role, j, x[j]);
    hadamard(y);
}

void kv_unrotate(enum kv_role role, const float *y, float *x)
{
    float h[KV_DIM];
    memcpy(h, y, sizeof h);
    hadamard(h);
    for (int j = 0; j < KV_DIM; j++)
        x[j] = signed_by(role, j, h[j]);
}

float kv_dot(const float *x, const float *y)
{
    float sum[EIGHTS];
    for (int i = 0; i < EIGHTS; i++) {
        sum[i] = x[8 * i] * y[8 * i];
        for (int j = 1; j < 8; j++)
            sum[i] += x[8 * i + j] * y[8 * i + j];
    }
    for (int step = 1; step < EIGHTS; step *= 2)
        for (int i = 0; i < EIGHTS; i += 2 * step)
            sum[i] += sum[i + step];
    return sum[0];
}

/* ---- codes ---- */

static const float thresholds_3[] = {KV_THRESHOLDS_3}, thresholds_4[] = {KV_THRESHOLDS_4};
static const float levels_3[] = {KV_LEVELS_3}, levels_4[] = {KV_LEVELS_4};

/* Returns the index of the nearest level. */
static uint8_t nearest(enum kv_format f, float z)
{
    const float *thresholds = f == KV_TQ4 ? thresholds_4 : thresholds_3;
    int half = 1 << (kv_bits(f) - 1), k = 0;
    while (k < half - 1 && fabsf(z) >= thresholds[k])
        k++;
    return (uint8_t)(z >= 0 ? half + k : half - 1 - k);
}

static inline float int8_level(uint8_t code) { return (float)(code - 128) / 127; }

float kv_level(enum kv_format f, uint8_t code)
{
    return f == KV_INT8 ? int8_level(code) : f == KV_TQ4 ? levels_4[code] : levels_3[code];
}

static float greatest(const float *y)
{
    float max = 0;
    for (int j = 0; j < KV_DIM; j++)
        max = fmaxf(max, fabsf(y[j]));
    return max;
}

static void encode_int8(const float *y, uint8_t *codes, uint16_t *scale)
{
    float max = greatest(y), inv = 127 / max;
    for (int j = 0; j < KV_DIM; j++)
        codes[j] = (uint8_t)(128 + (max > 0 ? (int)rintf(y[j] * inv) : 0));
    *scale = f32_f16(max);
}

/* Encodes a rotated row as the nearest levels.  The scale restores its product with itself for a key, its length for a value. */
static void encode_levels(enum kv_format f, enum kv_role role, const float *y, float square, uint8_t *codes, uint16_t *scale)
{
    float inv = 16 / sqrtf(square), level[KV_DIM];
    for (int j = 0; j < KV_DIM; j++) {
        codes[j] = nearest(f, square > 0 ? y[j] * inv : 0);
        level[j] = kv_level(f, codes[j]);
    }
    float g = role == KV_KEY ? square / kv_dot(y, level) : sqrtf(square) / sqrtf(kv_dot(level, level));
    *scale = f32_f16(square > 0 ? g : 0);
}

void kv_encode(enum kv_format f, enum kv_role role, const float *x, uint8_t *codes, uint16_t *scale)
{
    float y[KV_DIM];
    kv_rotate(role, x, y);
    float square = kv_dot(y, y);
    if (!isfinite(square)) {
        memset(codes, 0, KV_DIM);
        *scale = f32_f16(NAN);
    } else if (f == KV_INT8) {
        encode_int8(y, codes, scale);
    } else {
        encode_levels(f, role, y, square, codes, scale);
    }
}

/* ---- blocks ---- */

/* Returns the place of `bits` bits of number j of token n in a plane that holds so many bits of every number. */
static inline size_t place(enum kv_role role, int bits, int n, int j)
{
    int in_byte = 8 / bits;
    if (role == KV_KEY)
        return (size_t)(n * KV_DIM + j) / (size_t)in_byte;
    return bits == 8 ? (size_t)(n / 2 * 2 * KV_DIM + 2 * j + n % 2) : (size_t)(n / in_byte * KV_DIM + j);
}

static inline int shift(enum kv_role role, int bits, int n, int j) { return bits * ((role == KV_KEY ? j : n) % (8 / bits)); }

/* Writes the bits from `low` on of the codes of one token. */
static inline void put_plane(uint8_t *plane, enum kv_role role, int bits, int n, const uint8_t *codes, int low)
{
    const unsigned mask = (1u << bits) - 1;
    for (int j = 0; j < KV_DIM; j++) {
        uint8_t *at = plane + place(role, bits, n, j);
        int s = shift(role, bits, n, j);
        *at = (uint8_t)((*at & ~(mask << s)) | (codes[j] >> low & mask) << s);
    }
}

static inline uint8_t code_in(const uint8_t *plane, enum kv_role role, int bits, int n, int j)
{
    return (uint8_t)(plane[place(role, bits, n, j)] >> shift(role, bits, n, j) & ((1u << bits) - 1));
}

enum { LOW_PLANE = KV_BLOCK * KV_DIM * 2 / 8 };         /* of TQ3: two bits, then the third */

void kv_put(enum kv_format f, enum kv_role role, uint8_t *block, int token, const uint8_t *codes)
{
    if (f == KV_INT8) {
        put_plane(block, role, 8, token, codes, 0);
    } else if (f == KV_TQ4) {
        put_plane(block, role, 4, token, codes, 0);
    } else {
        put_plane(block, role, 2, token, codes, 0);
        put_plane(block + LOW_PLANE, role, 1, token, codes, 2);
    }
}

/* Returns the code of number j of token n. */
static inline uint8_t code_at(enum kv_format f, enum kv_role role, const uint8_t *block, int n, int j)
{
    if (f != KV_TQ3)
        return code_in(block, role, f == KV_INT8 ? 8 : 4, n, j);
    return (uint8_t)(code_in(block, role, 2, n, j) | code_in(block + LOW_PLANE, role, 1, n, j) << 2);
}

void kv_get(enum kv_format f, enum kv_role role, const uint8_t *block, int token, uint8_t *codes)
{
    for (int j = 0; j < KV_DIM; j++)
        codes[j] = code_at(f, role, block, token, j);
}

/* Decodes one token.  Format and role are known at compile time: each of them has a loop of its own. */
static inline void fetch(enum kv_format f, enum kv_role role, const uint8_t *block, float scale, int token, float *y)
{
    const float *levels = f == KV_TQ4 ? levels_4 : levels_3;
    for (int j = 0; j < KV_DIM; j++) {
        uint8_t code = code_at(f, role, block, token, j);
        y[j] = (f == KV_INT8 ? int8_level(code) : levels[code]) * scale;
    }
}

void kv_fetch(enum kv_format f, enum kv_role role, const uint8_t *block, const uint16_t *scales, int token, float *y)
{
    const float scale = f16_f32(scales[token]);
    switch (2 * (int)f + (int)role) {
    case 2 * KV_INT8 + KV_KEY:   fetch(KV_INT8, KV_KEY, block, scale, token, y); break;
    case 2 * KV_INT8 + KV_VALUE: fetch(KV_INT8, KV_VALUE, block, scale, token, y); break;
    case 2 * KV_TQ4 + KV_KEY:    fetch(KV_TQ4, KV_KEY, block, scale, token, y); break;
    case 2 * KV_TQ4 + KV_VALUE:  fetch(KV_TQ4, KV_VALUE, block, scale, token, y); break;
    case 2 * KV_TQ3 + KV_KEY:    fetch(KV_TQ3, KV_KEY, block, scale, token, y); break;
    case 2 * KV_TQ3 + KV_VALUE:  fetch(KV_TQ3, KV_VALUE, block, scale, token, y); break;
    }
}
