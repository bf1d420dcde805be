#include "engine/plan.h"

#include "base/buf.h"

static double gib(size_t bytes)
{
    return (double)bytes / (1024.0 * 1024 * 1024);
}

static void add_size(struct buf *out, size_t bytes)
{
    if (bytes >= (size_t)1 << 30)
        buf_addf(out, "%.2f GiB", gib(bytes));
    else
        buf_addf(out, "%.*f MiB", bytes < (10 << 20) ? 1 : 0, 1024 * gib(bytes));
}

void plan_parts(const struct memory_plan *p, bool host, struct buf *out)
{
    const char *between = "";
    for (int i = 0; i < p->n_lines; i++)
        if (p->lines[i].bytes && p->lines[i].host == host) {
            const int times = p->lines[i].times;
            buf_addf(out, "%s%s ", between, p->lines[i].name);
            if (times > 1)
                buf_addf(out, "%d x ", times);
            add_size(out, p->lines[i].bytes / (size_t)(times > 1 ? times : 1));
            between = ", ";
        }
}

void plan_say(const struct memory_plan *p, struct buf *out)
{
    if (!p->n_lines)
        return;
    add_size(out, p->total);
    buf_addf(out, " of %.2f GiB, of which %.2f stay free: ", gib(p->available), gib(p->margin));
    plan_parts(p, false, out);
    if (p->host_total) {
        buf_adds(out, "; in the host's memory ");
        add_size(out, p->host_total);
        buf_adds(out, ": ");
        plan_parts(p, true, out);
    }
    if (p->stretched_from)
        buf_addf(out, "; the model's %d positions are stretched by YaRN, which short texts may suffer from", p->stretched_from);
    if (p->kv_why)
        buf_addf(out, "; --kv auto took %s: %s", p->kv, p->kv_why);
}
