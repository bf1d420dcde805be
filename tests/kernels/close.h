/* Comparison of rows that were computed in less precision with their definition. */
#ifndef TESTS_KERNELS_CLOSE_H
#define TESTS_KERNELS_CLOSE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

/* Relative L2 distance; NaN anywhere counts as 1e9. */
static inline double distance(const float *out, const float *ref, size_t n)
{
    double d = 0, r = 0;
    for (size_t i = 0; i < n; i++) {
        double e = (double)out[i] - (double)ref[i];
        if (!(fabs(e) < 1e30))
            return 1e9;
        d += e * e;
        r += (double)ref[i] * (double)ref[i];
    }
    return sqrt(d / (r > 0 ? r : 1));
}

/* All within `bound` of the reference, and every row of `width` within three times that: an error in few rows must not drown. */
static inline void assert_rows_close(const char *what, const float *out, const float *ref, int n_rows, int width, double bound)
{
    double worst = 0;
    int where = -1;
    for (int r = 0; r < n_rows; r++) {
        double d = distance(out + (size_t)r * (size_t)width, ref + (size_t)r * (size_t)width, (size_t)width);
        if (d > worst)
            worst = d, where = r;
    }
    double max = 0;
    size_t bad = 0;
    for (size_t i = 0; i < (size_t)n_rows * (size_t)width; i++) {
        double e = fabs((double)out[i] - (double)ref[i]);
        if (!(e <= max))
            max = e, bad = i;
    }
    if (worst > 3 * bound || distance(out, ref, (size_t)n_rows * (size_t)width) > bound)
        fail_msg("%s: row %d is off by %g (relative L2, bound %g), all by %g; greatest error %g at %zu: %g, expected %g", what, where,
                 worst, bound, distance(out, ref, (size_t)n_rows * (size_t)width), max, bad, (double)out[bad], (double)ref[bad]);
}

#endif
