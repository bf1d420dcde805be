/* `q35chat bench health`: whether this machine reads its memory as fast as it did, and as others of its kind do. */
#include "bench/report.h"
#include "engine/reads.h"

int bench_health(const struct bench_options *o)
{
    struct report r;
    struct err e = {0};
    struct dev_facts facts;
    struct buf line = {0}, path = {0}, device = {0};
    buf_addf(&path, "%s/reads", o->machine_dir ? o->machine_dir : "");
    report_open(&r, "health", o);
    const char *backend = dev_backend(o->backend, &e);
    struct dev *d = backend ? dev_open(backend, o->n_threads, &e) : NULL;
    const double now = d ? d->read_gb_s(d, 0, &e) : 0;
    if (now > 0) {
        if (dev_facts(d, &facts))
            buf_adds(&device, facts.gpu);
        else
            buf_addf(&device, "%s, %d threads", backend, dev_cpu_threads(d));
        const struct reads h = {now, reads_best(path.data, device.data), reads_usual(device.data)};
        struct err why;
        report_device(&r, d);
        report_fact(&r, "plain read", "%.1f GB/s", now);
        reads_slow(&h, &line);
        report_note(&r, "%s", buf_str(&line));
        if (!reads_remember(path.data, device.data, now, &why))
            report_note(&r, "the figure could not be remembered");
    }
    dev_close(d);
    buf_free(&line);
    buf_free(&path);
    buf_free(&device);
    return report_close(&r, now > 0 ? NULL : &e);
}
