/* Packing on the device while a checkpoint is being read.  Any run of rows of a stored tensor, a piece, is put into its places in a packed matrix
 * (kernels/pack.h) as soon as it is there, in any order, whatever other tensors have arrived.
 *
 * The destination is zeroed before.  16 bytes of it that come from one piece are stored.  Both halves of a pair come from two tensors, and each adds
 * its bits (OR).  The arithmetic of one unit is in this header, in plain C, so that tests run it without a GPU. */
#pragma once

#include "kernels/number.h"
#include "kernels/pack.h"

enum pack_kind {
    PACK_DENSE,                 /* rows of BF16, F16 or F32, to packed bf16 */
    PACK_FP8,                   /* rows of bytes */
    PACK_INT4,                  /* rows of qweight, each for 8 columns of the matrix */
    PACK_INT4_SCALE,            /* rows of scales, each for a group of columns */
    PACK_FP8_SCALE,             /* rows of scales, each for 128 rows of the matrix */
    PACK_PLAIN,                 /* rows of BF16, F16 or F32, to bf16 in the same layout */
    PACK_INT8,                  /* rows of BF16, F16 or F32, to packed INT8 with scales (model/quantize.h) */
    PACK_PLANES,                /* the same numbers in two planes */
    PACK_DENSE_FP8,             /* rows of BF16, F16 or F32, to packed FP8 with scales (model/quantize.h) */
    PACK_DENSE_INT4,            /* rows of BF16, F16 or F32, to packed INT4 with scales (model/quantize.h) */
};
enum pack_half { PACK_WHOLE, PACK_GATE, PACK_UP };

struct pack_piece {
    const void *src;            /* the piece's first byte, aligned to its elements */
    void   *dst;                /* the packed matrix; for PACK_INT4_SCALE and PACK_FP8_SCALE its scales */
    uint64_t first_block;       /* set by pack_number() */
    enum pack_kind kind;
    enum pack_half half;        /* which half of a pair the matrix is */
    enum dtype dtype;           /* of the stored numbers, for DENSE, PLAIN, INT8, PLANES, DENSE_FP8, DENSE_INT4, FP8_SCALE */
    int     rows, cols;         /* of the matrix; if it is half of a pair, of that half */
    int     first, n;           /* the piece has n rows of the stored tensor from row `first` on, a multiple of pack_unit_rows() */
};

struct pack_args {
    const struct pack_piece *pieces;    /* memory that the device can read, numbered */
    int      n;
    uint64_t n_blocks;
};

enum { PACK_THREADS = 256, PACK_BLOCK = 128 };  /* PACK_BLOCK rows and columns share a scale of FP8 */
enum { PACK_INT4_SCALES = 8 };                  /* scales that are tried for a group of INT4 */

/* Returns the number of rows after each of which a stored tensor may be cut into pieces. */
static inline int pack_unit_rows(enum pack_kind k, enum pack_half half)
{
    switch (k) {
    case PACK_DENSE: case PACK_FP8:
    case PACK_DENSE_INT4:           return half == PACK_WHOLE ? PACK_ROWS : PACK_ROWS / 2;
    case PACK_INT8: case PACK_PLANES: return PACK_ROWS;
    case PACK_DENSE_FP8:            return PACK_BLOCK;
    case PACK_INT4:                 return 8;
    default:                        return 1;
    }
}

BOTH_FORCED int pack_up(int a, int b) { return (a + b - 1) / b; }

/* Returns the number of tiles that contain n rows of a whole matrix, or of half a pair. */
BOTH_FORCED int pack_tiles_of(int n, enum pack_half half) { return pack_up(n, half == PACK_WHOLE ? 16 : 8); }

/* Returns the number of units of a piece; one thread does one unit. */
BOTH_FORCED uint64_t pack_units(const struct pack_piece *p)
{
    uint64_t groups = (uint64_t)pack_up(p->cols, 128), n = (uint64_t)p->n;
    switch (p->kind) {
    case PACK_DENSE:      return (uint64_t)pack_tiles_of(p->n, p->half) * groups * 8 * 32;
    case PACK_FP8:        return (uint64_t)pack_tiles_of(p->n, p->half) * groups * 4 * 32;
    case PACK_INT4:       return (uint64_t)pack_tiles_of(p->rows, p->half) * (uint64_t)pack_up(p->n, 8) * 32;
    case PACK_INT4_SCALE: return n * (uint64_t)p->rows;
    case PACK_FP8_SCALE:  return n * groups * (p->half == PACK_WHOLE ? 8 : 16);
    case PACK_PLAIN:      return (n * (uint64_t)p->cols + 7) / 8;
    case PACK_INT8: case PACK_PLANES: return (uint64_t)pack_up(p->n, 16) * PACK_THREADS;
    case PACK_DENSE_FP8:
    case PACK_DENSE_INT4: return (uint64_t)pack_up(p->n, PACK_BLOCK) * groups * PACK_THREADS;
    }
    return 0;
}

/* Numbers the thread blocks of n pieces; returns how many they are. */
static inline uint64_t pack_number(struct pack_piece *p, int n)
{
    uint64_t blocks = 0;
    for (int i = 0; i < n; i++) {
        p[i].first_block = blocks;
        blocks += (pack_units(&p[i]) + PACK_THREADS - 1) / PACK_THREADS;
    }
    return blocks;
}

/* ---- numbers */

/* Element i as the bits of an fp32. */
BOTH_FORCED uint32_t pack_load(const void *p, enum dtype t, uint64_t i)
{
    if (t == DT_F32)
        return ((const uint32_t *)p)[i];
    uint32_t h = ((const uint16_t *)p)[i];
    if (t == DT_BF16)
        return h << 16;
    return f16_f32_bits(h);
}
BOTH_FORCED uint16_t pack_load_bf16(const void *p, enum dtype t, uint64_t i)
{
    return t == DT_BF16 ? ((const uint16_t *)p)[i] : f32_bf16(bits_f32(pack_load(p, t, i)));
}
/* Scale of an int8 row whose largest magnitude has the bits `max`; 0 for a row of zeros. */
BOTH_FORCED uint16_t pack_int8_scale(uint32_t max)
{
    float top = bits_f32(max) / 127;
    return f32_f16(top < 65504 ? top : 65504);
}
/* Scale of a block of FP8 whose largest magnitude has the bits `max`, so that this becomes 448, the largest FP8; 0 for a block of zeros. */
BOTH_FORCED float pack_fp8_scale(uint32_t max)
{
    const float scale = bits_f32(max) / 448;
    return !(scale < 0x1p120f) ? 0x1p120f : scale >= 0x1p-126f ? scale : 0;
}
/* E4M3, rounded to even; magnitudes above 448 and NaN become 448. */
BOTH_FORCED uint32_t pack_fp8(float f)
{
    const uint32_t u = f32_bits(f), sign = u >> 24 & 0x80, mag = u & 0x7fffffffu;
    if (mag >= 0x43e00000u)
        return sign | 0x7e;
    if (mag < 0x3c800000u)              /* subnormal: the float adder rounds at bit 2^-9 */
        return sign | (f32_bits(bits_f32(mag) + 16384.0f) - f32_bits(16384.0f));
    return sign | (mag - 0x3c000000u + 0x7ffffu + (mag >> 20 & 1)) >> 20;
}
/* x / scale as FP8 */
BOTH_FORCED uint32_t pack_fp8_value(uint32_t x, float scale)
{
    if (!(scale > 0))
        return 0;
#ifdef __CUDA_ARCH__
    return pack_fp8(__fdiv_rn(bits_f32(x), scale));
#else
    return pack_fp8(bits_f32(x) / scale);
#endif
}

/* Returns a key that orders the numbers of a group of INT4 by magnitude, of equal ones the negative one last; pack_int4_top() is its inverse. */
BOTH_FORCED uint32_t pack_int4_key(uint32_t x) { return x << 1 | x >> 31; }
BOTH_FORCED uint32_t pack_int4_top(uint32_t key) { return key >> 1 | key << 31; }

/* Scale number i to try for a group whose number of greatest magnitude is `top`.  With it that number would be -8 * 32 / (33 - i), which is clipped
 * to -8; so the scale has the opposite sign.  0 for a group of zeros.  Among 40 such scales one of these is the best in 97 of 100 groups. */
BOTH_FORCED uint16_t pack_int4_scale(uint32_t top, int i)
{
    const float size = bits_f32(top & 0x7fffffffu) * (float)(33 - i) * 0x1p-8f;
    const uint16_t scale = f32_f16(size < 65504 ? size : 65504);
    return (uint16_t)(scale && !(top >> 31) ? scale | 0x8000 : scale);
}
BOTH_FORCED float pack_int4_inverse(float scale)
{
#ifdef __CUDA_ARCH__
    return scale != 0 ? __fdiv_rn(1, scale) : 0;
#else
    return scale != 0 ? 1 / scale : 0;
#endif
}
/* Returns a product that no compiler fuses with a sum. */
BOTH_FORCED float pack_times(float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}
/* x / scale, rounded to even and clipped to -8..7; 7 for NaN.  Adding 1.5 * 2^23 makes the float adder round to whole numbers. */
BOTH_FORCED float pack_int4_value(float x, float inverse)
{
    float v = pack_times(x, inverse);
    v = v < 7 ? v : 7;
    v = v > -8 ? v : -8;
    return v + 0x1.8p23f - 0x1.8p23f;
}
/* Returns the squared error of four numbers with this scale. */
BOTH_FORCED float pack_int4_error(const float x[4], uint16_t scale)
{
    const float s = f16_f32(scale), inverse = pack_int4_inverse(s);
    float e[4];
    for (int j = 0; j < 4; j++) {
        const float d = x[j] - pack_int4_value(x[j], inverse) * s;      /* this product is exact */
        e[j] = pack_times(d, d);
    }
    return (e[0] + e[1]) + (e[2] + e[3]);
}
/* Four numbers as nibbles; 0 is stored as 8. */
BOTH_FORCED uint32_t pack_int4_nibbles(const float x[4], uint16_t scale)
{
    const float inverse = pack_int4_inverse(f16_f32(scale));
    uint32_t v = 0;
    for (int j = 0; j < 4; j++)
        v |= (uint32_t)((int)pack_int4_value(x[j], inverse) + 8) << 4 * j;
    return v;
}
/* Returns the scale of a group of 128 numbers: the first one with the least squared error.  The errors of each four numbers are added up in pairs,
 * number l and l + 16 first, as a warp does it. */
static inline uint16_t pack_int4_best(const float x[PACK_GROUP])
{
    uint32_t key = 0;
    for (int k = 0; k < PACK_GROUP; k++) {
        const uint32_t own = pack_int4_key(f32_bits(x[k]));
        key = own > key ? own : key;
    }
    uint16_t best = pack_int4_scale(pack_int4_top(key), 0);
    float least = INFINITY;
    for (int i = 0; i < PACK_INT4_SCALES; i++) {
        const uint16_t scale = pack_int4_scale(pack_int4_top(key), i);
        float e[PACK_GROUP / 4];
        for (int l = 0; l < PACK_GROUP / 4; l++)
            e[l] = pack_int4_error(x + 4 * l, scale);
        for (int m = PACK_GROUP / 8; m; m /= 2)
            for (int l = 0; l < m; l++)
                e[l] += e[l + m];
        best = e[0] < least ? scale : best;
        least = e[0] < least ? e[0] : least;
    }
    return best;
}

/* ---- one unit */

/* Row g + 8 h of a tile: its row of the stored matrix, or -1 when that is beyond it or in the other half of the pair. */
BOTH_FORCED int pack_row(const struct pack_piece *p, int tile, int g, int h)
{
    int row = p->half == PACK_WHOLE ? tile * 16 + 8 * h + g : h == (int)p->half - PACK_GATE ? tile * 8 + g : -1;
    return row < p->rows ? row : -1;
}

/* Four bytes of row `row` (of the piece) from column `col` on, the lowest first; 0 beyond the matrix. */
BOTH_FORCED uint32_t pack_4_bytes(const struct pack_piece *p, int row, int col)
{
    const uint8_t *at = (const uint8_t *)p->src + (uint64_t)row * (uint64_t)p->cols + (uint64_t)col;
    uint32_t v = 0;
    if (col + 4 <= p->cols && ((uintptr_t)at & 3) == 0)
        return *(const uint32_t *)(const void *)at;
    for (int j = 0; j < 4 && col + j < p->cols; j++)
        v |= (uint32_t)at[j] << 8 * j;
    return v;
}

/* Four bf16, two to a word. */
BOTH_FORCED void pack_4_bf16(const struct pack_piece *p, int row, int col, uint32_t out[2])
{
    uint64_t i = (uint64_t)row * (uint64_t)p->cols + (uint64_t)col;
    const uint16_t *at = (const uint16_t *)p->src + i;
    if (p->dtype == DT_BF16 && col + 4 <= p->cols && ((uintptr_t)at & 3) == 0) {
        out[0] = ((const uint32_t *)(const void *)at)[0];
        out[1] = ((const uint32_t *)(const void *)at)[1];
        return;
    }
    out[0] = out[1] = 0;
    for (int j = 0; j < 4 && col + j < p->cols; j++)
        out[j / 2] |= (uint32_t)pack_load_bf16(p->src, p->dtype, i + (uint64_t)j) << 16 * (j % 2);
}

/* Nibbles 0..3 of x go to 0, 4, 2, 6 */
BOTH_FORCED uint32_t pack_spread(uint32_t x) { return (x & 0x0f0f) | (x & 0xf0f0) << 12; }

BOTH_FORCED void pack_put(const struct pack_piece *p, uint64_t at, const uint32_t v[4])
{
    char *d = (char *)p->dst + at;
    if (p->half == PACK_WHOLE) {
#ifdef __CUDA_ARCH__
        *(uint4 *)d = make_uint4(v[0], v[1], v[2], v[3]);
#else
        for (int i = 0; i < 4; i++)
            ((uint32_t *)(void *)d)[i] = v[i];
#endif
        return;
    }
    unsigned long long lo = (unsigned long long)v[1] << 32 | v[0], hi = (unsigned long long)v[3] << 32 | v[2];
#ifdef __CUDA_ARCH__
    atomicOr((unsigned long long *)d, lo);
    atomicOr((unsigned long long *)d + 1, hi);
#else
    ((unsigned long long *)(void *)d)[0] |= lo;
    ((unsigned long long *)(void *)d)[1] |= hi;
#endif
}

/* Packs 16 bytes: unit u stands for a lane, line, group and tile, counted from the piece's first tile. */
BOTH_FORCED void pack_rows_unit(const struct pack_piece *p, uint64_t u, int lines)
{
    int lane = (int)(u % 32), g = lane / 4, t = lane % 4, groups = pack_up(p->cols, 128);
    int line = (int)(u / 32 % (unsigned)lines), group = (int)(u / 32 / (unsigned)lines % (unsigned)groups);
    int tile = (int)(u / 32 / (unsigned)lines / (unsigned)groups) + p->first / (p->half == PACK_WHOLE ? 16 : 8);
    uint32_t v[4] = {0, 0, 0, 0};
    for (int h = 0; h < 2; h++) {
        int row = pack_row(p, tile, g, h) - p->first;
        if (row < 0)
            continue;
        if (lines == 4) {               /* bytes: two k-steps */
            int col = group * 128 + 32 * line + 8 * t;
            for (int s = 0; s < 2 && col + 4 * s < p->cols; s++) {
                uint32_t b = pack_4_bytes(p, row, col + 4 * s);
                v[2 * s]     |= (b & 0xffff) << 16 * h;
                v[2 * s + 1] |= b >> 16 << 16 * h;
            }
        } else {
            int col = group * 128 + 32 * (line / 2) + 8 * t + 4 * (line % 2);
            uint32_t b[2] = {0, 0};
            if (col < p->cols)
                pack_4_bf16(p, row, col, b);
            v[h] = b[0];
            v[2 + h] = b[1];
        }
    }
    pack_put(p, (((uint64_t)tile * (unsigned)groups + (unsigned)group) * (unsigned)lines + (unsigned)line) * PACK_LINE + (unsigned)lane * 16, v);
}

/* One line holds 8 rows of qweight. */
BOTH_FORCED void pack_int4_unit(const struct pack_piece *p, uint64_t u)
{
    int lane = (int)(u % 32), g = lane / 4, t = lane % 4, n_lines = pack_up(p->n, 8);
    int at = (int)(u / 32 % (unsigned)n_lines), tile = (int)(u / 32 / (unsigned)n_lines);
    const uint32_t *src = (const uint32_t *)p->src + (uint64_t)(8 * at + t) * (uint64_t)p->rows;
    uint32_t v[4] = {0, 0, 0, 0};
    for (int h = 0; h < 2; h++) {
        int row = pack_row(p, tile, g, h);
        if (row < 0 && p->half != PACK_WHOLE)
            continue;
        uint32_t a = row < 0 ? 0x88888888u : src[row], b = row < 0 ? a : src[(uint64_t)4 * (uint64_t)p->rows + (uint64_t)row];
        v[0] |= pack_spread(a & 0xffff) << 4 * h;
        v[1] |= pack_spread(a >> 16) << 4 * h;
        v[2] |= pack_spread(b & 0xffff) << 4 * h;
        v[3] |= pack_spread(b >> 16) << 4 * h;
    }
    uint64_t lines = (uint64_t)pack_up(p->cols, 128) * 2;
    pack_put(p, ((uint64_t)tile * lines + (uint64_t)(p->first / 8 + at)) * PACK_LINE + (unsigned)lane * 16, v);
}

BOTH_FORCED void pack_int4_scale_unit(const struct pack_piece *p, uint64_t u)
{
    int row = (int)(u % (unsigned)p->rows), at = (int)(u / (unsigned)p->rows), groups = pack_up(p->cols, 128);
    int tile = p->half == PACK_WHOLE ? row / 16 : row / 8;
    int h = p->half == PACK_WHOLE ? row / 8 % 2 : (int)p->half - PACK_GATE;
    ((uint16_t *)p->dst)[(((uint64_t)tile * (unsigned)groups + (unsigned)(p->first + at)) * 8 + (unsigned)(row % 8)) * 2 + (unsigned)h]
        = ((const uint16_t *)p->src)[u];
}

BOTH_FORCED void pack_fp8_scale_unit(const struct pack_piece *p, uint64_t u)
{
    unsigned tiles = p->half == PACK_WHOLE ? 8 : 16, groups = (unsigned)pack_up(p->cols, 128);
    unsigned group = (unsigned)(u / tiles % groups);
    uint64_t block = u / tiles / groups;
    int tile = (p->first + (int)block) * (int)tiles + (int)(u % tiles);
    uint32_t scale = pack_load(p->src, p->dtype, block * groups + group);
    for (int h = 0; h < 2; h++)
        if (pack_row(p, tile, 0, h) >= 0)
            ((uint32_t *)p->dst)[((uint64_t)tile * groups + group) * 2 + (unsigned)h] = scale;
}

BOTH_FORCED void pack_plain_unit(const struct pack_piece *p, uint64_t u)
{
    uint64_t n = (uint64_t)p->n * (uint64_t)p->cols;
    uint16_t *out = (uint16_t *)p->dst + (uint64_t)p->first * (uint64_t)p->cols;
    for (uint64_t i = 8 * u; i < 8 * u + 8 && i < n; i++)
        out[i] = pack_load_bf16(p->src, p->dtype, i);
}

/* Unit u of any kind except INT8, PLANES, DENSE_FP8 and DENSE_INT4, for which several numbers must be known to find a scale. */
BOTH_FORCED void pack_unit(const struct pack_piece *p, uint64_t u)
{
    switch (p->kind) {
    case PACK_DENSE:      pack_rows_unit(p, u, 8); break;
    case PACK_FP8:        pack_rows_unit(p, u, 4); break;
    case PACK_INT4:       pack_int4_unit(p, u); break;
    case PACK_INT4_SCALE: pack_int4_scale_unit(p, u); break;
    case PACK_FP8_SCALE:  pack_fp8_scale_unit(p, u); break;
    case PACK_PLAIN:      pack_plain_unit(p, u); break;
    case PACK_INT8: case PACK_PLANES:
    case PACK_DENSE_FP8: case PACK_DENSE_INT4: break;
    }
}

/* x / scale, rounded to even, as a byte */
BOTH_FORCED uint32_t pack_int8_value(uint32_t x, uint16_t scale)
{
    float s = f16_f32(scale);
    if (!(s > 0))
        return 0;
#ifdef __CUDA_ARCH__
    float v = rintf(__fdiv_rn(bits_f32(x), s));
#else
    float v = __builtin_rintf(bits_f32(x) / s);
#endif
    v = v < 127 ? v : 127;
    v = v > -127 ? v : -127;
    return (uint32_t)(int)v & 0xff;
}

/* Packs 16 bytes of an INT8 tile: unit u of groups * 4 * 32.  tile: counted from the piece's first one; scale: of the tile's 16 rows. */
BOTH_FORCED void pack_int8_unit(const struct pack_piece *p, int tile, unsigned u, const uint16_t scale[16])
{
    unsigned lane = u % 32, line = u / 32 % 4, group = u / 128, groups = (unsigned)pack_up(p->cols, 128);
    int col = (int)(group * 128 + 32 * line + 8 * (lane % 4));
    uint32_t v[4] = {0, 0, 0, 0};
    for (int h = 0; h < 2; h++) {
        int r = (int)(lane / 4) + 8 * h, row = tile * 16 + r;
        if (row >= p->n)
            continue;
        for (int j = 0; j < 8 && col + j < p->cols; j++) {
            uint64_t i = (uint64_t)row * (uint64_t)p->cols + (uint64_t)(col + j);
            v[j / 2] |= pack_int8_value(pack_load(p->src, p->dtype, i), scale[r]) << (16 * h + 8 * (j % 2));
        }
    }
    pack_put(p, (((uint64_t)(p->first / 16 + tile) * groups + group) * 4 + line) * PACK_LINE + lane * 16, v);
}

/* Packs 16 bytes of each plane: unit u of groups * 2 * 32; otherwise like pack_int8_unit(). */
BOTH_FORCED void pack_planes_unit(const struct pack_piece *p, int tile, unsigned u, const uint16_t scale[16])
{
    const unsigned lane = u % 32, line = u / 32 % 2, group = u / 64, groups = (unsigned)pack_up(p->cols, 128);
    const uint64_t at = (((uint64_t)(p->first / 16 + tile) * groups + group) * 2 + line) * PACK_LINE + lane * 16;
    uint32_t upper[4] = {0, 0, 0, 0}, lower[4] = {0, 0, 0, 0};
    for (int h = 0; h < 2; h++) {
        const int r = (int)(lane / 4) + 8 * h, row = tile * 16 + r;
        for (int k = 0; k < 16 && row < p->n; k++) {        /* four k-steps of four columns */
            const int step = (int)line * 4 + k / 4, j = k % 4, col = (int)group * 128 + 32 * (step / 2) + 8 * (int)(lane % 4) + 4 * (step % 2) + j;
            if (col >= p->cols)
                continue;
            const uint32_t x = pack_load(p->src, p->dtype, (uint64_t)row * (uint64_t)p->cols + (uint64_t)col);
            const uint32_t q = pack_int8_value(x, scale[r]) ^ 128, shift = 4 * (unsigned)(h + j / 2 * 2 + j % 2 * 4);
            upper[k / 4] |= q >> 4 << shift;
            lower[k / 4] |= (q & 15) << shift;
        }
    }
    pack_put(p, at, upper);
    pack_put(p, pack_data_bytes(WEIGHT_PLANES, p->rows, p->cols) / 2 + at, lower);
}

/* Returns the struct plane_row of row r (0..15) of this tile. */
BOTH_FORCED struct plane_row *pack_plane_row_at(const struct pack_piece *p, int tile, int r)
{
    struct plane_row *rows = (struct plane_row *)(void *)((char *)p->dst + pack_data_bytes(WEIGHT_PLANES, p->rows, p->cols));
    return rows + p->first + tile * 16 + r;
}

/* Returns the scale of row r (0..15) of this tile. */
BOTH_FORCED uint16_t *pack_int8_scale_at(const struct pack_piece *p, int tile, int r)
{
    uint64_t tiles = (uint64_t)pack_up(p->rows, 16), groups = (uint64_t)pack_up(p->cols, 128);
    uint16_t *scales = (uint16_t *)(void *)((char *)p->dst + tiles * groups * 4 * PACK_LINE);
    return scales + ((uint64_t)(p->first / 16 + tile) * 8 + (unsigned)(r % 8)) * 2 + (unsigned)(r / 8);
}

/* A DENSE_FP8 piece consists of blocks of 128 x 128 numbers, numbered row by row.  n threads pack a block, of which this is number i.  First each
 * thread finds the largest magnitude, as bits, of its share of the block. */
BOTH_FORCED uint32_t pack_fp8_max(const struct pack_piece *p, int block, int i, int n)
{
    const int groups = pack_up(p->cols, PACK_BLOCK), row = block / groups * PACK_BLOCK, col = block % groups * PACK_BLOCK;
    uint32_t max = 0;
    for (; i < PACK_BLOCK * PACK_BLOCK; i += n) {
        const int r = row + i / PACK_BLOCK, c = col + i % PACK_BLOCK;
        const uint32_t u = r < p->n && c < p->cols ? pack_load(p->src, p->dtype, (uint64_t)r * (uint64_t)p->cols + (uint64_t)c) & 0x7fffffffu : 0;
        max = u > max ? u : max;
    }
    return max;
}

/* Packs 16 bytes of FP8: those of a lane in a line of a tile's group. */
BOTH_FORCED void pack_fp8_unit(const struct pack_piece *p, int tile, int group, int line, int lane, float scale)
{
    const int col = group * PACK_BLOCK + 32 * line + 8 * (lane % 4), groups = pack_up(p->cols, PACK_BLOCK);
    uint32_t v[4] = {0, 0, 0, 0};
    for (int h = 0; h < 2; h++) {
        const int row = pack_row(p, tile, lane / 4, h) - p->first;
        for (int j = 0; row >= 0 && j < 8 && col + j < p->cols; j++) {
            const uint32_t x = pack_load(p->src, p->dtype, (uint64_t)row * (uint64_t)p->cols + (uint64_t)(col + j));
            v[j / 2] |= pack_fp8_value(x, scale) << (16 * h + 8 * (j % 2));
        }
    }
    pack_put(p, (((uint64_t)tile * (unsigned)groups + (unsigned)group) * 4 + (unsigned)line) * PACK_LINE + (unsigned)lane * 16, v);
}

/* Then each thread gets the largest magnitude of the whole block, and packs its share. */
BOTH_FORCED void pack_fp8_block(const struct pack_piece *p, int block, uint32_t max, int i, int n)
{
    const int groups = pack_up(p->cols, PACK_BLOCK), row = block / groups * PACK_BLOCK, group = block % groups,
        of_tile = p->half == PACK_WHOLE ? 16 : 8;
    const int left = p->n - row, tiles = pack_up(left < PACK_BLOCK ? left : PACK_BLOCK, of_tile), first = (p->first + row) / of_tile;
    const int all_rows = p->half == PACK_WHOLE ? p->rows : 2 * p->rows;
    uint32_t *scales = (uint32_t *)(void *)((char *)p->dst + (uint64_t)pack_up(all_rows, 16) * (unsigned)groups * 4 * PACK_LINE);
    const float scale = pack_fp8_scale(max);
    for (int u = i; u < tiles * 4 * 32; u += n)
        pack_fp8_unit(p, first + u / 128, group, u / 32 % 4, u % 32, scale);
    for (int u = i; u < tiles * 2; u += n)
        if (pack_row(p, first + u / 2, 0, u % 2) >= 0)
            scales[((uint64_t)(unsigned)(first + u / 2) * (unsigned)groups + (unsigned)group) * 2 + (unsigned)(u % 2)] = f32_bits(scale);
}

/* DENSE_INT4: a thread block packs 128 rows of a group of columns, tile after tile.  Warp g of its eight warps has rows g and g + 8 of a tile, each
 * lane four columns.  Loads the lane's numbers of row `row` of the piece. */
BOTH_FORCED void pack_int4_load(const struct pack_piece *p, int row, int group, int lane, float x[4])
{
    const uint64_t at = (uint64_t)row * (uint64_t)p->cols + (uint64_t)(group * PACK_GROUP + 4 * lane);
    const uint16_t *half = (const uint16_t *)p->src + at;
    if (p->dtype == DT_BF16 && ((uintptr_t)half & 7) == 0) {
        const uint64_t four = *(const uint64_t *)(const void *)half;
        for (int j = 0; j < 4; j++)
            x[j] = bf16_f32((uint16_t)(four >> 16 * j));
        return;
    }
    for (int j = 0; j < 4; j++)
        x[j] = bits_f32(pack_load(p->src, p->dtype, at + (unsigned)j));
}
/* Returns the part of a packed word that a lane's nibbles make; and that of a row beyond the matrix, zeros. */
BOTH_FORCED uint32_t pack_int4_part(uint32_t nibbles, int h) { return pack_spread(nibbles) << 4 * h; }
BOTH_FORCED uint32_t pack_int4_beyond(const struct pack_piece *p, int h) { return p->half == PACK_WHOLE ? pack_int4_part(0x8888, h) : 0; }

BOTH_FORCED void pack_int4_put(const struct pack_piece *p, int tile, int group, int g, int lane, uint32_t word)
{
    const int step = lane / 8 * 2 + lane % 2, to = 4 * g + lane % 8 / 2;
    const uint64_t line = ((uint64_t)tile * (unsigned)pack_groups(p->cols) + (unsigned)group) * 2 + (unsigned)step / 4;
    uint32_t *at = (uint32_t *)(void *)((char *)p->dst + line * PACK_LINE) + to * 4 + step % 4;
    if (p->half == PACK_WHOLE)
        *at = word;
    else
#ifdef __CUDA_ARCH__
        atomicOr(at, word);
#else
        *at |= word;
#endif
}
BOTH_FORCED void pack_int4_put_scale(const struct pack_piece *p, int tile, int group, int g, int h, uint16_t scale)
{
    const int groups = pack_groups(p->cols), all_rows = p->half == PACK_WHOLE ? p->rows : 2 * p->rows;
    uint16_t *scales = (uint16_t *)(void *)((char *)p->dst + pack_data_bytes(WEIGHT_INT4, all_rows, p->cols));
    scales[(((uint64_t)tile * (unsigned)groups + (unsigned)group) * 8 + (unsigned)g) * 2 + (unsigned)h] = scale;
}
