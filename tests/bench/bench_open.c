/* How long a checkpoint of full size takes to open: 48 layers, 112,000 tensors over 15 files, index followed, nothing
 * read but headers and vectors.  The files are sparse: 77 GB long, 40 MB on disk. */
#include <stdio.h>

#include "base/clock.h"
#include "model/weights.h"
#include "tests/checkpoint.h"

int main(void)
{
    struct ck k;
    struct err e = {0};
    struct weights w;
    struct model_config c = ck_122b();
    ck_model(&k, &c, CK_INT4, "model.language_model.", 14, CK_EXTRA);
    for (int i = 0; i < 333; i++) {
        char name[32];
        snprintf(name, sizeof name, "model.visual.%d", i);
        ck_add(&k, 14, "BF16", "", name, ".weight", 16, 0);
    }
    k.sparse = true;
    ck_write(&k, &c);
    double best = 1e9;
    int rc = 0;
    for (int i = 0; i < 5 && !rc; i++) {
        struct model_config read;
        int64_t t = clock_ns();
        if (!config_load(&read, k.dir, &e) || !weights_open(&w, &read, k.dir, &e)) {
            fprintf(stderr, "%s\n", e.msg);
            rc = 1;
            break;
        }
        double ms = clock_ms_since(t);
        best = ms < best ? ms : best;
        if (!i)
            printf("open: %s, %d tensors bound, %d of them MTP, %d skipped, %.2f GB\n", read.name, w.stats.n_tensors, w.stats.n_mtp,
                   w.stats.n_skipped, (double)w.stats.bytes * 1e-9);
        weights_close(&w);
    }
    if (!rc)
        printf("open: %.0f ms (best of 5)\n", best);
    ck_close(&k);
    return rc;
}
