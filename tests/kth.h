/* The k-th greatest of n numbers. */
#pragma once

enum { KTH_MOST = 64 };

/* k: 1 to KTH_MOST.  Of fewer than k numbers the least; n > 0. */
static inline float kth_greatest(const float *x, int n, int k)
{
    float best[KTH_MOST];               /* descending */
    int m = 0;
    for (int i = 0; i < n; i++) {
        if (m == k && !(x[i] > best[k - 1]))
            continue;
        int at = m < k ? m++ : k - 1;
        for (; at && x[i] > best[at - 1]; at--)
            best[at] = best[at - 1];
        best[at] = x[i];
    }
    return best[m - 1];
}
