/* `q35chat bench report`: a text that the owner of a machine can send to others.  It takes a few minutes and contains no name of a
 * user, a host, a file or a folder.  The model is loaded twice, first as a chat loads it, then with the stepper alone; never both at a time.
 * `q35chat bench health`: whether this machine reads its memory as fast as it did, and as others of its kind do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "bench/answers.h"
#include "bench/sweep.h"
#include "engine/memory_speed.h"

/* ---- the machine */

/* Reads the value in the line "KEY<separator>VALUE" of a file, without quotes.  An empty key: the first line.  False if there is no such line. */
static bool look_up(const char *path, const char *key, char separator, char *value, size_t size)
{
    char line[512];
    bool found = false;
    size_t n = strlen(key);
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *at = n ? strchr(line, separator) : line;
        found = at && !strncmp(line, key, n);
        if (!found)
            continue;
        at += n ? 1 : 0;
        at += strspn(at, " \t\"");
        snprintf(value, size, "%.*s", (int)strcspn(at, "\"\n"), at);
    }
    if (f)
        fclose(f);
    return found && *value;
}

static double meminfo_gib(const char *key)
{
    char value[64];
    return look_up("/proc/meminfo", key, ':', value, sizeof value) ? strtod(value, NULL) / (1 << 20) : 0;
}

/* Reports system, kernel, product, processors, memory, the GPU's driver; nothing that names the machine, its user or a place on it. */
static void report_host(struct report *r)
{
    struct utsname u;
    char text[256];
    const char *system = look_up("/etc/os-release", "PRETTY_NAME", '=', text, sizeof text) ? text : "unknown";
    if (!uname(&u))                     /* not its nodename */
        report_fact(r, "system", "%s; %s %s, %s", system, u.sysname, u.release, u.machine);
    if (look_up("/sys/class/dmi/id/product_name", "", 0, text, sizeof text))
        report_fact(r, "machine", "%s", text);
    if (!look_up("/proc/cpuinfo", "model name", ':', text, sizeof text))
        snprintf(text, sizeof text, "%s", "of an unnamed kind");
    report_fact(r, "processors", "%ld, %s", sysconf(_SC_NPROCESSORS_ONLN), text);
    report_fact(r, "host memory", "%.1f GiB, %.1f available, page cache %.1f, swap %.1f", meminfo_gib("MemTotal"),
                meminfo_gib("MemAvailable"), meminfo_gib("Cached"), meminfo_gib("SwapTotal"));
    if (look_up("/sys/module/nvidia/version", "", 0, text, sizeof text))
        report_fact(r, "gpu driver", "%s", text);
}

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

/* ---- the report */

enum { CTX = 16384, SWEEP_CTX = 32768 + SWEEP_MARGIN, CPU_SWEEP_CTX = 2048 };
static const double answers_s = 100, answer_s = 20, steps_s = 40, prompts_s = 60;     /* at most; answer_s: of one answer */

static bool on_cpu(const char *backend) { return !dev_caps(backend)->packs_weights; }

/* Reports the machine before any model is loaded, so that the report has it in any case.  Returns the plain read; 0 with the reason. */
static double report_machine(struct report *r, const char *backend, struct err *e)
{
    struct dev *d = dev_open(backend, r->o->n_threads, e);
    double gb_s = 0;
    report_host(r);
    if (d) {
        report_device(r, d);
        gb_s = d->read_gb_s(d, 0, e);
        report_fact(r, "plain read", "%.1f GB/s", gb_s);
    }
    dev_close(d);
    return gb_s;
}

/* ---- bytes over the plain read, against what was measured */

/* Interpolates the bytes of a step of `rows` rows, which need not be a whole number, between steps measured at the beginning of a context. */
static bool between(const struct sweep *w, double rows, double *bytes)
{
    const struct sweep_step *low = NULL, *high = NULL;
    for (int i = 0; i < w->n_steps; i++) {
        const struct sweep_step *s = &w->steps[i];
        if (s->pos != w->steps[0].pos)
            continue;
        if (s->rows <= rows && (!low || s->rows > low->rows))
            low = s;
        if (s->rows >= rows && (!high || s->rows < high->rows))
            high = s;
    }
    if (!low || !high)
        return false;
    *bytes = low == high ? low->bytes : low->bytes + (rows - low->rows) / (high->rows - low->rows) * (high->bytes - low->bytes);
    return true;
}

/* Reports a row: tokens a second as the bytes allow, as measured, and the share. */
static void row(const struct sweep *w, const char *what, double tokens, double bytes, double measured)
{
    double projected = tokens * w->s.read_gb_s * 1e9 / bytes;
    report_text(w->r, what);
    report_number(w->r, tokens);
    report_number(w->r, bytes * 1e-9);
    report_number(w->r, projected);
    report_number(w->r, measured);
    report_number(w->r, 100 * measured / projected);
}

/* Reports measured rates beside those that the bytes of a step allow. */
static void report_projection(const struct sweep *w, const struct asked *a)
{
    static const struct column columns[] = {
        {"what", "what", -32, 0}, {"tokens_step", "tokens/step", 11, 2}, {"gb", "GB a step", 9, 3}, {"projected", "projected", 9, 1},
        {"measured", "measured", 9, 1}, {"percent", "%", 6, 1},
    };
    report_table(w->r, "tokens a second: projected (bytes over the plain read) and measured", columns,
                 sizeof columns / sizeof *columns);
    for (int i = 0; i < w->n_steps; i++)
        if (w->steps[i].rows == 1) {
            char what[64];
            snprintf(what, sizeof what, "no drafts, context of %d", w->steps[i].pos);
            row(w, what, 1, w->steps[i].bytes, 1e3 / w->steps[i].ms);
        }
    const struct stats *t = &a->stats;
    double bytes;
    if (t->n_steps && t->decode_ms > 0 && between(w, 1 + (double)stats_all_drafts(t).drafted / t->n_steps, &bytes))
        row(w, "the five prompts, drafting free", (double)t->n_timed / t->n_steps, bytes, stats_tok_s(t));
}

/* ---- parts */

/* Measures steps and prompts without an engine and reports the projection. */
static bool report_sweep(struct report *r, const struct bench_options *o, double read_gb_s, const struct asked *a, struct err *e)
{
    struct sweep w;
    bool ok = sweep_open(&w, o, r);
    if (ok) {
        w.s.read_gb_s = read_gb_s;      /* one for the whole report */
        report_fact(r, "a token", "without drafts reads %.3f GB of weights and states",
                    traffic_step(&w.s.traffic, 1, 0, w.s.m.cfg.top_k) * 1e-9);
        report_limit(r, steps_s);
        ok = sweep_decode(&w);
        report_limit(r, prompts_s);
        ok = ok && (report_stopped(r) || sweep_prompts(&w));
        report_limit(r, 0);
        report_projection(&w, a);
    }
    if (!ok)
        *e = w.e;
    sweep_close(&w);
    return ok;
}

/* Measures the machine: reads, answers to five prompts, then steps and prompts. */
static bool measure(struct report *r, const struct bench_options *given, struct err *e)
{
    struct bench_options o = *given;
    struct answers x;
    struct asked a = {0};
    struct memory_plan plan;
    o.backend = dev_backend(o.backend, e);
    double read_gb_s = o.backend ? report_machine(r, o.backend, e) : 0;
    if (read_gb_s <= 0)
        return false;
    struct engine_options eo = {
        .model_dir = o.model_dir, .backend = o.backend, .kv = o.kv, .head = o.head, .mtp = o.mtp,
        .weights_in = o.weights_in, .n_threads = o.n_threads,
        .n_ctx = o.n_ctx ? o.n_ctx : CTX, .n_sequences = 1, .chunk = o.chunk, .draft_depth = o.draft ? o.draft : -1,
    };
    if (!engine_fits(&eo, &plan, e))
        return false;
    report_limit(r, answers_s);
    bool ok = answers_open(&x, r, &eo, e);
    x.limit_s = answer_s;
    ok = ok && answers_ask(&x, "answers to five prompts, greedy", answers_report, ANSWERS_QUESTIONS, &a, e);
    if (ok)
        answers_drafts(&x, answers_report, &a);
    answers_close(&x);
    report_limit(r, 0);
    if (!ok || report_stopped(r))
        return ok;
    o.n_ctx = o.n_ctx ? o.n_ctx : on_cpu(o.backend) ? CPU_SWEEP_CTX : SWEEP_CTX;
    return report_sweep(r, &o, read_gb_s, &a, e);
}

int bench_report(const struct bench_options *o)
{
    struct report r;
    struct err e = {0};
    report_open(&r, "report", o);
    report_fact(&r, "version", "%s", o->version);
    if (o->model_note)
        report_note(&r, "%s", o->model_note);
    bool ok = measure(&r, o, &e);
    if (report_stopped(&r)) {
        report_cut(&r, "stopped before its end");
    } else if (!ok) {
        report_cut(&r, "ended by a failure; stderr has the reason");
        err_warn("%s", e.msg);          /* it may name a file, so it is not in the report */
    }
    return report_close(&r, NULL) || !ok;
}
