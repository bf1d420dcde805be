#include "bench/subject.h"

bool subject_load(struct model *m, const struct bench_options *o, const struct load_options *l, struct err *e)
{
    struct load_options all = *l;
    all.dir = o->model_dir;
    all.synthetic = o->synthetic;
    all.quality = o->quality;
    all.n_layers = o->n_layers;
    all.seed = (uint64_t)o->seed;
    all.backend = o->backend;
    all.kv = o->kv;
    all.head = o->head;
    all.mtp = o->mtp;
    all.math = o->math;
    all.n_threads = o->n_threads;
    all.n_snapshots = LOAD_NO_SNAPSHOTS;
    all.weights_in = load_weights_in(o->weights_in);
    all.machine_dir = all.weights_in == WEIGHTS_IN_AUTO ? o->machine_dir : NULL;
    all.kv_in_host = o->kv_in_host;
    /* --sms comes before the device is opened, whose stream then belongs to that part of the GPU */
    return load_check(m, &all, e) && (!o->n_sms || dev_confine(m->backend, o->n_sms, e)) && load_device(m, e);
}

/* Called while weights are read: false ends it, when the report was stopped. */
static bool still_wanted(size_t done, size_t total, void *arg)
{
    const struct bench_options *o = arg;
    (void)done, (void)total;
    return !o->stopped || !o->stopped();
}

bool subject_open(struct subject *s, const struct bench_options *o, const struct load_options *l, struct err *e)
{
    *s = (struct subject){.o = o};
    if (!subject_load(&s->m, o, l, e) || !load_weights(&s->m, still_wanted, (void *)o, e) || !load_space(&s->m, e))
        return false;
    const struct model_config *c = &s->m.cfg;
    for (int i = 0; i < c->n_layers; i++)
        if (c->full[i])
            s->full[s->n_full++] = &s->m.weights.layers[i];
        else
            s->delta[s->n_delta++] = &s->m.weights.layers[i];
    s->traffic = load_traffic(&s->m);
    s->read_gb_s = s->m.dev->read_gb_s(s->m.dev, 0, e);
    return s->read_gb_s > 0;
}

static void report_weights_in(const struct subject *s, struct report *r)
{
    struct buf line = {0};
    placement_say(&s->m.placement, &line);
    report_fact(r, "weights", "%s", line.len ? line.data : "in pinned host memory");
    buf_free(&line);
}

void subject_report(const struct subject *s, struct report *r)
{
    const struct model_config *c = &s->m.cfg;
    report_device(r, s->m.dev);
    report_fact(r, "model", "%s%s%s, %d layers (%d attention), hidden %d, %d of %d experts, head %s%s", s->o->synthetic ? "synthetic " : "",
                s->o->synthetic ? s->o->synthetic : c->name, s->o->quality ? " for quality" : "", c->n_layers, c->n_full, c->hidden,
                c->top_k, c->n_experts,
                s->m.head == HEAD_INT8 ? "INT8" : s->m.head == HEAD_PLANES ? "INT8 in two planes" : "as stored",
                s->m.mtp == MTP_INT4 ? ", MTP block in INT4" : s->m.mtp == MTP_FP8 ? ", MTP block in FP8" : "");
    report_fact(r, "plain read", "%.0f GB/s", s->read_gb_s);
    if (s->m.weights.mtp.present)
        report_fact(r, "a draft", "reads %.3f GB of the MTP block and %.3f GB of the head", traffic_mtp(&s->traffic, c->top_k) * 1e-9,
                    s->traffic.draft_head * 1e-9);
    if (s->m.dev->weights_in_host || s->m.placement.device > 0)
        report_weights_in(s, r);
}

void subject_close(struct subject *s)
{
    load_close(&s->m);
}

/* ---- bytes */

double subject_draft_bytes(const struct subject *s, int n_drafts)
{
    const struct traffic *t = &s->traffic;
    return s->m.weights.mtp.present ? n_drafts * (traffic_mtp(t, s->m.cfg.top_k) + t->draft_head) : 0;
}
