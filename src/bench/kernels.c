/* `q35chat bench kernels`: every operation alone, at the shapes of a model. */
#include "bench/kernels.h"

enum { CPU_TOKENS = 16 };       /* of a prompt chunk, so that it does not take all day */

int bench_kernels(const struct bench_options *o)
{
    struct subject s;
    struct report r;
    struct err e = {0};
    report_open(&r, "kernels", o);
    bool ok = subject_open(&s, o, &(struct load_options){.n_ctx = 64, .chunk = o->chunk}, &e);
    if (ok) {
        subject_report(&s, &r);
        struct timing k = {.s = &s, .r = &r, .d = s.m.dev, .e = &e};
        if (subject_fused(&s)) {
            timing_table(&k, "operations of a decode step");
            kernels_step(&k);
            timing_release(&k);
        }
        int tokens = o->chunk || subject_fused(&s) ? s.m.chunk : CPU_TOKENS;
        timing_table(&k, "operations of a prompt chunk");
        kernels_prompt(&k, tokens);
        k.d->finish(k.d, k.failed ? NULL : &e);
        timing_release(&k);
        ok = !k.failed;
    }
    int status = report_close(&r, ok ? NULL : &e);
    subject_close(&s);
    return status;
}
