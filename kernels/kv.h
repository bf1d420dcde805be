/* Compressed rows of a KV cache: keys and values in 3, 4 or 8 bits a number after a rotation.
 *
 * TurboQuant in its mean-squared-error form (Zandieh et al., arXiv 2504.19874, algorithm 1), with a Hadamard transform as its rotation and
 * corrected scales (the keys' scale is that of EDEN, arXiv 2604.18555).  A vector x of KV_DIM numbers is one key or one value of one token and one KV
 * head:
 *     y    = H (s * x) / 16            H: Hadamard matrix in natural order, entries (-1)^popcount(i & j); s: signs, kv_sign().  |y| = |x|
 *     code = the level nearest to 16 y_j / |x|           3 and 4 bits: the Lloyd-Max levels of N(0, 1), ascending
 *            round(127 y_j / max |y|)                    8 bits
 *     x'   = s * H (kv_level(code) * scale) / 16         the same transform is its own inverse
 * The stored scale is one fp16 number: of a key |x|^2 / (y . level), so that x . x' = |x|^2; of a value |x| / |level|, so that |x'| = |x|;
 * with 8 bits max |y|.  A vector of zeros has the scale 0.  A vector with a NaN or an infinity has the scale NaN.
 *
 * The rotation spreads what a few large channels hold over all codes, so the error does not depend on the data: |x - x'|^2 / |x|^2 is 0.0093
 * with 4 bits, 0.034 with 3, 5e-5 with 8, on average.  Dot products do not change under it: attention rotates the query once, adds values up as they
 * are stored, and rotates its output back once.
 *
 * Every sum has a fixed order (kv_sum()), so all devices write the same bytes for the same row. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/both.h"

enum { KV_DIM = 256, KV_BLOCK = 64 };   /* numbers of a vector; tokens that are compressed together */

enum kv_format { KV_EXACT, KV_INT8, KV_TQ4, KV_TQ3 };   /* KV_EXACT: fp32 or bf16, not compressed */
enum kv_role { KV_KEY, KV_VALUE };

/* The signs: bit (j % 64) of word j / 64 set means -1.  Words of SplitMix64 from the seeds 0x54514b5600000001 (keys) and ...02 (values). */
#define KV_SIGNS_KEY   {0xa6ef08aab0906e4full, 0x07bb52984af5f84dull, 0xf3cf4d592e652ec8ull, 0xba1833dc7a8f9354ull}
#define KV_SIGNS_VALUE {0x53096e0cdcffd66eull, 0xa2eed16158bf9965ull, 0x0e433baeee52fed8ull, 0x3e4b4f60496e9884ull}

/* Lloyd-Max levels of N(0, 1), ascending, and the thresholds above zero; both are symmetric.  Computed with closed-form partial moments. */
#define KV_LEVELS_3     -2.151945704537f, -1.343909278505f, -0.756005281206f, -0.245094178944f, \
                        0.245094178944f, 0.756005281206f, 1.343909278505f, 2.151945704537f
#define KV_THRESHOLDS_3 0.500549730075f, 1.049957279855f, 1.747927491521f
#define KV_LEVELS_4     -2.732589570995f, -2.069017226531f, -1.618046386022f, -1.256231197347f, \
                        -0.942340456487f, -0.656759118532f, -0.388048299490f, -0.128395029851f, \
                        0.128395029851f, 0.388048299490f, 0.656759118532f, 0.942340456487f, \
                        1.256231197347f, 1.618046386022f, 2.069017226531f, 2.732589570995f
#define KV_THRESHOLDS_4 0.258221664671f, 0.522403709011f, 0.799549787510f, 1.099285826917f, 1.437138791685f, 1.843531806277f, 2.400803398763f

BOTH int kv_bits(enum kv_format f) { return f == KV_INT8 ? 8 : f == KV_TQ4 ? 4 : 3; }

/* Codes of one block of KV_BLOCK tokens of one KV head, keys or values; its KV_BLOCK scales lie apart, fp16.
 * Byte and bit of token n, number j, in the order in which a warp's matrix instructions want their operands:
 *   keys    a token's codes are together:  INT8 byte 256 n + j;  TQ4 byte 128 n + j / 2, bit 4 (j % 2);
 *           TQ3 byte 64 n + j / 4, bit 2 (j % 4) has the lower two bits, byte 64 * 64 + 32 n + j / 8, bit j % 8 the upper one
 *   values  the same number of several tokens is together:  INT8 byte 512 (n / 2) + 2 j + n % 2;  TQ4 byte 256 (n / 2) + j, bit 4 (n % 2);
 *           TQ3 byte 256 (n / 4) + j, bit 2 (n % 4), and byte 64 * 64 + 256 (n / 8) + j, bit n % 8
 * An INT8 code is stored as code + 128. */
BOTH size_t kv_block_bytes(enum kv_format f) { return (size_t)KV_BLOCK * KV_DIM * (size_t)kv_bits(f) / 8; }

/* Bytes of one vector: its codes and its scale. */
BOTH size_t kv_vector_bytes(enum kv_format f) { return (size_t)KV_DIM * (size_t)kv_bits(f) / 8 + 2; }

/* The definitions, for the host. */

/* y = H (s * x) / 16, and its inverse, in which the signs come after the transform. */
void kv_rotate(enum kv_role role, const float *x, float *y);
void kv_unrotate(enum kv_role role, const float *y, float *x);
/* Returns the sum of x[i] * y[i], in an order that all devices keep: first each eight neighbours one after the other, then these sums in pairs at
 * distances of 1, 2, 4, 8 and 16. */
float kv_dot(const float *x, const float *y);
/* Encodes a vector: KV_DIM codes (from 0 on; INT8 + 128) and the scale. */
void kv_encode(enum kv_format f, enum kv_role role, const float *x, uint8_t *codes, uint16_t *scale);
/* Returns the number that a code stands for, before the scale. */
float kv_level(enum kv_format f, uint8_t code);
/* Write and read the codes of one token in a block. */
void kv_put(enum kv_format f, enum kv_role role, uint8_t *block, int token, const uint8_t *codes);
void kv_get(enum kv_format f, enum kv_role role, const uint8_t *block, int token, uint8_t *codes);
/* y[j] = level * scale of one token in a block: the vector y', still rotated, of which kv_unrotate() makes x'. */
void kv_fetch(enum kv_format f, enum kv_role role, const uint8_t *block, const uint16_t *scales, int token, float *y);
