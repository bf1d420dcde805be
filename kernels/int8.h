/* Activations in eight bits, for products of a prompt that need not be exact.
 *
 * A row x is cut into groups of INT8_GROUP columns.  A group has one scale, s = max |x[k]| / 127, and codes c[k] = x[k] / s rounded to the nearest
 * integer, ties to even: x[k] is taken as c[k] * s.  A few columns, known from the norm that wrote x, lie apart: they do not count for the scale,
 * their codes are 0, and they are multiplied as fp16 numbers.  With INT4 weights (kernels/tensor.h) the product is
 *   y[n] = sum over groups g of s[g] * scale[g][n] * (sum over k in g of c[k] * (q[n][k] - zero[g][n] - 1))
 *        + sum over columns apart of W[n][k] * fp16(x[k])
 * where the inner sum, at most 128 * 127 * 16, is exact in 32 bits.  Other formats multiply c[k] * s and fp16(x[k]) with their values.
 * tolerance: that of the product (kernels/linear.h), of the rounded x. */
#pragma once

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/number.h"

enum { INT8_GROUP = 128, INT8_APART = 32, INT8_COLS = 1 << 14 };        /* columns of a group; columns apart and columns at most */

/* The columns that lie apart, ascending. */
struct int8_apart { int n; int16_t column[INT8_APART]; };

/* Sets *apart to the columns whose weight in a zero-centred norm is more than four times the median, the INT8_APART largest if there are more.
 * w, scratch: [cols], cols <= INT8_COLS. */
static inline void int8_choose(struct int8_apart *apart, const float *w, float *scratch, int cols)
{
    int size[256] = {0}, seen = 0, middle = 0;
    apart->n = 0;
    for (int i = 0; i < cols; i++) {            /* the median up to a sixteenth, by exponent and four bits behind it: bounded work, no sort */
        scratch[i] = isfinite(w[i]) ? fabsf(1 + w[i]) : 0;
        size[(int)fminf(255, fmaxf(0, 16 * (log2f(scratch[i] + 0x1p-8f) + 8)))]++;
    }
    while (middle < 255 && (seen += size[middle]) <= cols / 2)
        middle++;
    const float least = 4 * exp2f((float)middle / 16 - 8);
    for (;;) {
        int best = -1;
        for (int i = 0; i < cols; i++)
            if (scratch[i] > least && (best < 0 || scratch[i] > scratch[best]))
                best = i;
        if (best < 0 || apart->n == INT8_APART)
            return;
        scratch[best] = 0;
        int at = apart->n++;
        for (; at > 0 && apart->column[at - 1] > best; at--)
            apart->column[at] = apart->column[at - 1];
        apart->column[at] = (int16_t)best;
    }
}

/* Writes the codes of a row of x, columns apart 0, and the scale of each group.  A group with a number that is not finite has the scale NaN. */
static inline void int8_codes(int8_t *code, float *scale, const float *x, int cols, const struct int8_apart *apart)
{
    for (int from = 0, a = 0; from < cols; from += INT8_GROUP) {
        const int n = cols - from < INT8_GROUP ? cols - from : INT8_GROUP;
        float v[INT8_GROUP], largest = 0, poison = 0;
        memcpy(v, x + from, (size_t)n * sizeof *v);
        for (; a < apart->n && apart->column[a] < from + n; a++)
            v[apart->column[a] - from] = 0;
        for (int i = 0; i < n; i++) {
            largest = fabsf(v[i]) > largest ? fabsf(v[i]) : largest;
            poison += v[i] * 0;
        }
        const float s = largest / 127;
        const bool none = poison != 0 || s < FLT_MIN;
        scale[from / INT8_GROUP] = poison != 0 ? NAN : none ? 0 : s;
        for (int i = 0; i < n; i++)
            code[from + i] = none ? 0 : (int8_t)rintf(v[i] / s);
    }
}

/* Writes the numbers that a product of x takes.  y must not alias x. */
static inline void int8_round(float *y, const float *x, int cols, const struct int8_apart *apart)
{
    int8_t code[INT8_COLS];
    float scale[INT8_COLS / INT8_GROUP];
    int8_codes(code, scale, x, cols, apart);
    for (int i = 0; i < cols; i++)
        y[i] = (float)code[i] * scale[i / INT8_GROUP];
    for (int a = 0; a < apart->n; a++) {
        const float v = x[apart->column[a]];
        y[apart->column[a]] = f16_f32(f32_f16(v > 65504 ? 65504 : v < -65504 ? -65504 : v));
    }
}
