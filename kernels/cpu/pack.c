#include "kernels/pack.h"

#include <string.h>

#include "kernels/cpu/vec.h"

static int column(int group, int s, int t, int j)
{
    return group * PACK_GROUP + 32 * (s / 2) + 8 * t + 4 * (s % 2) + j;
}

/* Returns the source of row r of tile `tile`: the matrix and its row. */
struct source {
    const struct weight *w[2];          /* gate and up; w[1] is NULL for a plain matrix */
};
static const struct weight *source_row(const struct source *s, int tile, int r, int *row)
{
    const struct weight *w = s->w[s->w[1] && r >= 8];
    *row = s->w[1] ? tile * 8 + r % 8 : tile * PACK_ROWS + r;
    return *row < w->rows ? w : NULL;
}

static float scale_at(const struct weight *w, size_t i)
{
    float f;
    floats_f32(&f, (const char *)w->scale + i * (w->scale_dtype == DT_F32 ? 4 : 2), w->scale_dtype, 1);
    return f;
}

static uint16_t dense_at(const struct weight *w, int row, int col)
{
    float f;
    size_t i = (size_t)row * (size_t)w->cols + (size_t)col;
    floats_f32(&f, (const char *)w->data + i * (w->dtype == DT_F32 ? 4 : 2), w->dtype, 1);
    return f32_bf16(f);
}

static unsigned int4_at(const struct weight *w, int row, int col)
{
    uint32_t word = ((const uint32_t *)w->data)[(size_t)(col / 8) * (size_t)w->rows + (size_t)row];
    return word >> (4 * (col % 8)) & 15;
}

static bool zeros_are_8(const struct weight *w)
{
    const uint32_t *z = w->zeros;
    size_t n = (size_t)(w->cols / PACK_GROUP) * (size_t)(w->rows / 8);
    for (size_t i = 0; i < n; i++)
        if (z[i] != 0x77777777)
            return false;
    return true;
}

/* Returns the byte of a matrix in two planes, 16 upper + lower. */
static unsigned plane_byte_at(const struct weight *w, int row, int col)
{
    const size_t at = (size_t)row * plane_pitch(w->cols) + (size_t)(col / 16 * 8 + col % 8);
    const int shift = col % 16 / 8 * 4;
    return (((const uint8_t *)w->data)[at] >> shift & 15u) << 4 | (((const uint8_t *)w->low_plane)[at] >> shift & 15u);
}

/* Packs register i of k-step s in lane l: its two elements are columns j and j + 1 of one row.  low_plane: bytes from upper to lower plane. */
static void pack_fragment(const struct source *s, enum weight_format f, uint8_t *group_at, size_t low_plane, int tile, int group, int step, int lane)
{
    for (int i = 0; i < 4; i++)
        for (int half = 0; half < 2; half++) {
            int row, col = column(group, step, lane % 4, (i >> 1) * 2 + half);
            const struct weight *w = source_row(s, tile, lane / 4 + (i & 1) * 8, &row);
            bool inside = w && col < w->cols;
            if (f == WEIGHT_INT4) {
                uint32_t *word = (uint32_t *)(group_at + (step / 4) * PACK_LINE + lane * 16 + (step % 4) * 4);
                *word |= (inside ? int4_at(w, row, col) : 8u) << (4 * (i + 4 * half));
            } else if (f == WEIGHT_PLANES) {
                const size_t at = (size_t)((step / 4) * PACK_LINE + lane * 16 + (step % 4) * 4);
                const unsigned byte = inside ? plane_byte_at(w, row, col) : 0, shift = 4 * (unsigned)(i + 4 * half);
                *(uint32_t *)(group_at + at) |= byte >> 4 << shift;
                *(uint32_t *)(group_at + low_plane + at) |= (byte & 15) << shift;
            } else if (f == WEIGHT_DENSE) {
                uint16_t *at = (uint16_t *)(group_at + step * PACK_LINE + lane * 16 + i * 4 + half * 2);
                *at = inside ? dense_at(w, row, col) : 0;
            } else {
                uint8_t *at = group_at + (step / 2) * PACK_LINE + lane * 16 + (step % 2) * 8 + i * 2 + half;
                *at = inside ? ((const uint8_t *)w->data)[(size_t)row * (size_t)w->cols + (size_t)col] : 0;
            }
        }
}

/* Writes the scales in the order in which the GPU's kernels read them; rows beyond the matrix have 0. */
static void pack_scales(const struct source *s, enum weight_format f, void *dst, int tiles, int groups)
{
    for (int tile = 0; tile < tiles; tile++)
        for (int group = 0; group < (f == WEIGHT_INT8 ? 1 : groups); group++)
            for (int r = 0; r < PACK_ROWS; r++) {
                int row;
                const struct weight *w = source_row(s, tile, r, &row);
                size_t at = (size_t)tile * (size_t)(f == WEIGHT_INT8 ? 1 : groups) + (size_t)group;
                if (f == WEIGHT_FP8) {
                    if (r % 8 == 0)
                        ((float *)dst)[at * 2 + (size_t)(r / 8)] =
                            w ? scale_at(w, (size_t)(row / 128) * (size_t)groups + (size_t)group) : 0;
                } else {
                    size_t i = f == WEIGHT_INT8 ? (size_t)row : w ? (size_t)group * (size_t)w->rows + (size_t)row : 0;
                    ((uint16_t *)dst)[(at * 8 + (size_t)(r % 8)) * 2 + (size_t)(r / 8)] = w ? ((const uint16_t *)w->scale)[i] : 0;
                }
            }
}

/* Packs one matrix, or gate and up as one.  False if INT4 weights have zero points other than 8. */
static bool pack(const struct source *s, int rows, void *dst)
{
    const struct weight *w = s->w[0];
    int tiles = pack_tiles(rows), groups = pack_groups(w->cols);
    if (w->format == WEIGHT_INT4 && (!zeros_are_8(w) || (s->w[1] && !zeros_are_8(s->w[1]))))
        return false;
    memset(dst, 0, pack_bytes(w->format, rows, w->cols));
    const int planes = w->format == WEIGHT_PLANES ? 2 : 1;
    const size_t data = pack_data_bytes(w->format, rows, w->cols);
    uint8_t *at = dst, *scales = at + data;
    for (int tile = 0; tile < tiles; tile++)
        for (int group = 0; group < groups; group++, at += pack_lines(w->format) / planes * PACK_LINE)
            for (int step = 0; step < 8; step++)
                for (int lane = 0; lane < 32; lane++)
                    pack_fragment(s, w->format, at, data / 2, tile, group, step, lane);
    if (w->format == WEIGHT_PLANES)
        memcpy(scales, w->scale, (size_t)w->rows * sizeof(struct plane_row));
    else if (w->format != WEIGHT_DENSE)
        pack_scales(s, w->format, scales, tiles, groups);
    return true;
}

bool pack_matrix(const struct weight *w, void *dst)
{
    return pack(&(struct source){{w, NULL}}, w->rows, dst);
}

bool pack_pair(const struct weight *gate, const struct weight *up, void *dst)
{
    return pack(&(struct source){{gate, up}}, gate->rows + up->rows, dst);
}
