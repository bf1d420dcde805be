#include "engine/memplan.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "engine/sampler.h"
#include "model/forward.h"

static void add(struct memplan *m, const char *name, size_t bytes)
{
    m->lines[m->n_lines++] = (struct memplan_line){name, bytes};
    m->total += bytes;
}

static void fill(struct memplan *m, const struct memplan_request *q, int n_ctx)
{
    const struct model_config *c = q->model;
    size_t vocab = (size_t)c->vocab, step = (size_t)q->max_step;
    *m = (struct memplan){.n_ctx = n_ctx};
    add(m, "weights", q->weight_bytes);
    add(m, "INT8 head", q->int8_head ? vocab * ((size_t)c->hidden + 2) : 0);
    add(m, "KV cache", cache_kv_bytes(c, q->kv, n_ctx));
    add(m, "states", cache_state_bytes(c));
    add(m, "snapshots", cache_state_bytes(c) * (size_t)q->n_snapshots);
    add(m, "work space", forward_bytes(c, q->max_rows > q->max_step ? q->max_rows : q->max_step));
    add(m, "steps", cache_stage_bytes(c, q->max_step) + (step + 2) * (size_t)c->hidden * sizeof(float));
    add(m, "sampling", step * vocab * sizeof(float) + sampler_bytes(c->vocab));
}

/* The largest context that fits into `limit` bytes; 0: none. */
static int fitting_ctx(const struct memplan_request *q, int max, size_t limit)
{
    struct memplan m;
    int low = 0, high = max;
    while (low < high) {
        int mid = low + (high - low + 1) / 2;
        fill(&m, q, mid);
        if (m.total <= limit)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

static double gib(size_t bytes)
{
    return (double)bytes / (1024.0 * 1024 * 1024);
}

static bool refuse(const struct memplan *m, const struct memplan_request *q, int fits, struct err *e)
{
    struct buf lines = {0};
    for (int i = 0; i < m->n_lines; i++)
        if (m->lines[i].bytes)
            buf_addf(&lines, "%s%s %.2f", lines.len ? ", " : "", m->lines[i].name, gib(m->lines[i].bytes));
    if (fits >= MEMPLAN_MIN_CTX)
        err_set(e, "a context of %d tokens needs %.2f GiB (%s), but %.2f GiB are available, %.2f of them to be left free: --ctx %d fits",
                m->n_ctx, gib(m->total), buf_str(&lines), gib(q->available), gib(q->margin), fits / 256 * 256);
    else
        err_set(e, "the model needs %.2f GiB (%s) even with %d tokens of context, but %.2f GiB are available, %.2f of them to be left "
                "free: end other programs or take a smaller model",
                gib(m->total), buf_str(&lines), m->n_ctx, gib(q->available), gib(q->margin));
    buf_free(&lines);
    return false;
}

bool memplan_make(struct memplan *m, const struct memplan_request *q, struct err *e)
{
    int max = q->model->max_pos;
    size_t limit = q->available > q->margin ? q->available - q->margin : 0;
    if (q->n_ctx < 0 || q->n_ctx > max)
        return err_set(e, "--ctx is %d, expected 1 to the model's %d", q->n_ctx, max);

    int wanted = q->n_ctx ? q->n_ctx : q->default_ctx < max ? q->default_ctx : max;
    int fits = fitting_ctx(q, max, limit);
    bool enough = fits >= wanted || (!q->n_ctx && fits >= MEMPLAN_MIN_CTX);
    if (!enough) {
        fill(m, q, fits >= MEMPLAN_MIN_CTX || wanted < MEMPLAN_MIN_CTX ? wanted : MEMPLAN_MIN_CTX);
        return refuse(m, q, fits, e);
    }
    fill(m, q, wanted < fits ? wanted : fits);
    return true;
}

size_t memplan_available(void)
{
    size_t kib = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib ? kib * 1024 : SIZE_MAX;         /* no such file: nothing to plan with */
}

size_t memplan_weight_bytes(const char *dir)
{
    size_t total = 0;
    struct buf path = {0};
    struct dirent *entry;
    struct stat st;
    DIR *d = opendir(dir);
    while (d && (entry = readdir(d))) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".safetensors"))
            continue;
        buf_reset(&path);
        buf_addf(&path, "%s/%s", dir, entry->d_name);
        if (stat(path.data, &st) == 0)
            total += (size_t)st.st_size;
    }
    if (d)
        closedir(d);
    buf_free(&path);
    return total;
}
