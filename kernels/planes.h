/* Splits a row of INT8 numbers into two planes (WEIGHT_PLANES), and computes how well the upper plane alone approximates it. */
#pragma once

#include <math.h>

#include "kernels/pack.h"
#include "kernels/pack_piece.h"

/* Sums over the columns of a row; q = 16 upper + lower - 128. */
struct plane_sums { int64_t n, q, qq, l, ll, ql; };

BOTH void plane_add(struct plane_sums *s, int q)
{
    const int l = (q + 128) & 15;
    s->n++;
    s->q += q;
    s->qq += q * q;
    s->l += l;
    s->ll += l * l;
    s->ql += q * l;
}

/* The row's struct plane_row, with p = q - l + mean and r = q - (1 + gain) p. */
BOTH struct plane_row plane_row_of(const struct plane_sums *s, uint16_t scale)
{
    const double n = s->n ? (double)s->n : 1, q = (double)s->q, qq = (double)s->qq, l = (double)s->l, ll = (double)s->ll, ql = (double)s->ql;
    const uint16_t mean = f32_f16((float)(l / n));
    const double m = (double)f16_f32(mean), qp = qq - ql + m * q, pp = qq - 2 * ql + ll + 2 * m * (q - l) + n * m * m;
    const uint16_t gain = f32_f16(qp > 0.5 * qq ? (float)(qq / qp - 1) : 0);
    const double g = 1 + (double)f16_f32(gain), rr = qq - 2 * g * qp + g * g * pp, centred = ll - 15 * l + 56.25 * n;
    return (struct plane_row){scale, gain, mean, f32_f16((float)(sqrt((rr > centred ? rr : centred) / n) * (1 + 0x1p-10)))};
}

/* Splits a row; `upper` and `lower` have plane_pitch(cols) bytes. */
static inline struct plane_row plane_split(uint8_t *upper, uint8_t *lower, const int8_t *q, int cols, uint16_t scale)
{
    struct plane_sums sums = {0};
    for (int k = 0; k < (cols + 15) / 16 * 16; k += 16)
        for (int j = 0; j < 8; j++) {
            const int a = k + j, b = a + 8, low = a < cols ? q[a] + 128 : 0, high = b < cols ? q[b] + 128 : 0;
            upper[k / 2 + j] = (uint8_t)(low >> 4 | (high & 240));
            lower[k / 2 + j] = (uint8_t)((low & 15) | (high & 15) << 4);
        }
    for (int k = 0; k < cols; k++)
        plane_add(&sums, q[k]);
    return plane_row_of(&sums, scale);
}
