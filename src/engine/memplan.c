#include "engine/memplan.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/least.h"
#include "engine/gallery.h"
#include "engine/restoring.h"
#include "engine/saving.h"
#include "model/cache.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/vision.h"

enum { FEW_SEQUENCES = 4 };             /* by default, wherever they fit: two to go back and forth, one for side requests, one to spare */
enum { LEAST_PICTURE = 256 };           /* tokens; in a smaller one nobody could read a line */

/* ---- words ---- */

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

/* Appends "weights 67.12 GiB, states 144 MiB": the lines of the host's memory, or the others. */
static void add_parts(const struct memory_plan *p, bool host, struct buf *out)
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
    add_parts(p, false, out);
    if (p->host_total) {
        buf_adds(out, "; in the host's memory ");
        add_size(out, p->host_total);
        buf_adds(out, ": ");
        add_parts(p, true, out);
    }
    if (p->stretched_from)
        buf_addf(out, "; the model's %d positions are stretched by YaRN, which short texts may suffer from", p->stretched_from);
    if (p->n_why)
        buf_addf(out, "; %d conversation%s at once: %s", p->n_sequences, p->n_sequences > 1 ? "s" : "", p->n_why);
    if (p->kv_why)
        buf_addf(out, "; --kv auto took %s: %s", p->kv, p->kv_why);
}

/* ---- what it takes ---- */

static void add_line(struct memory_plan *m, struct plan_line line)
{
    CHECK(m->n_lines < PLAN_MAX_LINES);
    m->lines[m->n_lines++] = line;
    *(line.host ? &m->host_total : &m->total) += line.bytes;
}

static void add(struct memory_plan *m, const char *name, size_t bytes)
{
    add_line(m, (struct plan_line){.name = name, .bytes = bytes});
}

static void add_host(struct memory_plan *m, const struct memplan_request *q, const char *name, size_t bytes)
{
    add_line(m, (struct plan_line){.name = name, .bytes = bytes, .host = q->discrete});
}

/* Adds a line of `bytes` for each conversation. */
static void add_each(struct memory_plan *m, const char *name, size_t bytes)
{
    add_line(m, (struct plan_line){.name = name, .bytes = (size_t)m->n_sequences * bytes, .times = m->n_sequences});
}

/* Fills in the lines of a plan for a context of n_ctx tokens. */
static void fill(struct memory_plan *m, const struct memplan_request *q, int n_ctx)
{
    const struct model_config *c = q->model;
    const struct kv_shape shape = {.cfg = c, .recipe = q->kv, .n_ctx = n_ctx + q->spare_positions, .max_rows = q->max_rows, .n_slots = 1};
    const int n = q->n_sequences > 1 ? q->n_sequences : 1;
    const int n_snapshots = q->n_snapshots + (q->more_snapshots && n > 2 ? (n - 2) * (q->n_snapshots / 2) : 0);
    const size_t state_bytes = cache_saved_bytes(c, q->kv);
    *m = (struct memory_plan){
        .n_ctx = n_ctx, .n_sequences = n, .n_snapshots = n_snapshots, .kv_bytes = (size_t)n * kv_bytes(&shape),
        .available = q->available, .margin = q->margin,
        .kv = q->kv->name, .stretched_from = c->yarn_factor > 1 ? c->yarn_original : 0,
    };
    add_line(m, (struct plan_line){.name = "weights", .bytes = q->weight_bytes, .host = q->discrete && q->weights_in_host});
    add(m, "INT8 head", q->made_head_bytes);
    add(m, q->mtp_in_int4 ? "INT4 MTP block" : "FP8 MTP block", q->made_mtp_bytes);
    add_each(m, "KV cache", kv_bytes(&shape));
    add_each(m, "states", cache_state_bytes(c) + cache_step_bytes(c) + q->step_each_bytes);
    add(m, "work space", forward_bytes(c, q->max_rows, q->gpu) + q->scratch_bytes);
    add(m, "steps", q->step_bytes);
    if (c->vision.depth)
        add(m, "pictures", vision_bytes(c, q->gpu, q->picture_tokens * VISION_MERGE, least(q->max_rows, VISION_ROWS))
                           + gallery_bytes(c->hidden, q->picture_tokens));
    add_host(m, q, "snapshots", state_bytes * (size_t)n_snapshots);
    add_host(m, q, "read buffers", q->read_bytes);
    if (q->saves && q->n_snapshots)
        add_host(m, q, "save buffers", saving_bytes(state_bytes, kv_bytes(&shape)) + restoring_bytes(state_bytes, kv_bytes(&shape)));
}

static size_t limit(size_t available, size_t margin)
{
    return available > margin ? available - margin : 0;
}

static bool host_fits(const struct memory_plan *m, const struct memplan_request *q)
{
    return m->host_total <= (q->discrete ? limit(q->host_available, q->host_margin) : SIZE_MAX);
}

static bool fits_with(const struct memplan_request *q, int n_ctx)
{
    struct memory_plan m;
    fill(&m, q, n_ctx);
    return m.total <= limit(q->available, q->margin) && host_fits(&m, q);
}

/* Returns the largest context that fits; 0: no context does. */
static int fitting_ctx(const struct memplan_request *q, int max)
{
    int low = 0, high = max;
    while (low < high) {
        int mid = low + (high - low + 1) / 2;
        if (fits_with(q, mid))
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

/* Returns the option that would make room for n_ctx positions, the least painful first; "" if no option does. */
static const char *remedy(const struct memplan_request *q, int n_ctx, char *out, size_t size)
{
    static const int chunks[] = {8192, 4096, 2048, 1024, 512, 256, 64};
    struct memplan_request r = *q;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        r.max_rows = chunks[i];
        if (chunks[i] < q->max_rows && fits_with(&r, n_ctx)) {
            snprintf(out, size, "--chunk %d", chunks[i]);
            return out;
        }
    }
    r = *q;
    for (r.picture_tokens /= 2; r.picture_tokens >= LEAST_PICTURE && q->model->vision.depth; r.picture_tokens /= 2)
        if (fits_with(&r, n_ctx)) {
            snprintf(out, size, "--picture-tokens %d", r.picture_tokens);
            return out;
        }
    r = *q;
    r.weight_bytes = q->int8_weight_bytes;
    if (q->int8_weight_bytes && q->int8_weight_bytes < q->weight_bytes && fits_with(&r, n_ctx))
        return "--head int8";
    r = *q;
    for (int i = 0; (r.kv = kv_recipe_at(i)); i++)
        if (q->kv_choices >> i & 1 && fits_with(&r, n_ctx)) {
            snprintf(out, size, "--kv %s", r.kv->name);
            return out;
        }
    r = *q;
    for (r.n_sequences--; r.n_sequences > 0; r.n_sequences--)
        if (fits_with(&r, n_ctx)) {
            snprintf(out, size, "--conversations %d", r.n_sequences);
            return out;
        }
    r = *q;
    for (r.n_snapshots /= 2; r.n_snapshots > 0; r.n_snapshots /= 2)
        if (fits_with(&r, n_ctx)) {
            snprintf(out, size, "--snapshots %d", r.n_snapshots);
            return out;
        }
    return "";
}

/* Sets the reason why the plan does not fit; always false. */
static bool refuse_plan(const struct memory_plan *m, const struct memplan_request *q, int fits, struct err *e)
{
    struct buf lines = {0};
    char text[32];
    bool host = !host_fits(m, q);
    const char *option = remedy(q, m->n_ctx, text, sizeof text);
    const char *where = host ? " of the host's memory" : q->discrete ? " of GPU memory" : "";
    size_t total = host ? m->host_total : m->total, available = host ? q->host_available : q->available, margin = host ? q->host_margin : q->margin;
    add_parts(m, host, &lines);
    if (fits >= MEMPLAN_MIN_CTX)
        err_set(e, "a context of %d tokens needs %.2f GiB%s (%s), but %.2f GiB are available, %.2f of them to be left free: --ctx %d fits%s%s",
                m->n_ctx, gib(total), where, buf_str(&lines), gib(available), gib(margin), fits / MEMPLAN_MIN_CTX * MEMPLAN_MIN_CTX,
                *option ? ", or all of it with " : "", option);
    else
        err_set(e, "the model needs %.2f GiB%s (%s) even with %d tokens of context, but %.2f GiB are available, %.2f of them to be left "
                "free: %s%s", gib(total), where, buf_str(&lines), m->n_ctx, gib(available), gib(margin),
                *option ? option : "end other programs or take a smaller model", *option ? " fits" : "");
    buf_free(&lines);
    return false;
}

/* Returns how many conversations there are by default, and why. */
static int fitting_sequences(const struct memplan_request *q, int n_ctx, const char **why)
{
    static const char no_room[] = "two do not fit with the same context", no_more[] = "another one does not fit with the same context",
                      most_by_default[] = "the most by default",
                      half[] = "another one would take more than half of what two leave free";
    struct memory_plan two, m;
    struct memplan_request some = *q;
    some.n_sequences = 2;
    *why = no_room;
    if (!fits_with(&some, n_ctx))
        return 1;
    fill(&two, &some, n_ctx);
    const size_t left = limit(q->available, q->margin) - two.total;
    const size_t host_left = q->discrete ? limit(q->host_available, q->host_margin) - two.host_total : 0;
    for (*why = most_by_default; some.n_sequences < MEMPLAN_SEQUENCES; some.n_sequences++) {
        struct memplan_request next = some;
        next.n_sequences++;
        fill(&m, &next, n_ctx);
        const size_t parts = next.n_sequences > FEW_SEQUENCES ? 2 : 1;
        if (m.total - two.total > left / parts || (q->discrete && m.host_total - two.host_total > host_left / parts)) {
            *why = parts == 1 ? no_more : half;
            break;
        }
    }
    return some.n_sequences;
}

bool memplan_make(struct memory_plan *m, const struct memplan_request *q, struct err *e)
{
    int max = q->model->max_pos;
    if (q->n_ctx < 0 || q->n_ctx > max)
        return err_set(e, "--ctx is %d, expected 1 to the model's %d", q->n_ctx, max);

    int wanted = q->n_ctx ? q->n_ctx : q->default_ctx < max ? q->default_ctx : max;
    int fits = fitting_ctx(q, max);
    bool enough = fits >= wanted || (!q->n_ctx && fits >= MEMPLAN_MIN_CTX);
    if (!enough) {
        fill(m, q, fits >= MEMPLAN_MIN_CTX || wanted < MEMPLAN_MIN_CTX ? wanted : MEMPLAN_MIN_CTX);
        return refuse_plan(m, q, fits, e);
    }
    const int n_ctx = wanted < fits ? wanted : fits;
    struct memplan_request some = *q;
    const char *why = NULL;
    some.n_sequences = q->n_sequences ? q->n_sequences : fitting_sequences(q, n_ctx, &why);
    fill(m, &some, n_ctx);
    m->n_why = why;
    return true;
}

/* True if the plan may choose this KV recipe. */
static bool can_choose(const struct memplan_request *q, const struct kv_recipe *r)
{
    for (int i = 0; kv_recipe_at(i); i++)
        if (kv_recipe_at(i) == r)
            return q->kv_choices >> i & 1;
    return false;
}

const char *memplan_choose_kv(struct memplan_request *q)
{
    static const char stays[] = "the default makes the cheapest steps in this context", fits[] = "the context does not fit with the default";
    const struct kv_recipe *usual = q->kv;
    const char *why = stays;
    struct memory_plan m;
    q->kv_forced = false;
    if (memplan_make(&m, q, NULL)) {
        const struct kv_recipe *cheapest = kv_recipe_auto(!q->gpu ? KV_HOST : q->discrete ? KV_OWN : KV_SHARED, m.n_ctx, &why);
        if (!cheapest || !can_choose(q, cheapest))
            return stays;
        q->kv = cheapest;
        return why;
    }
    for (int i = 0; (q->kv = kv_recipe_at(i)); i++)
        if (can_choose(q, q->kv) && memplan_make(&m, q, NULL)) {
            q->kv_forced = true;
            return fits;
        }
    q->kv = usual;
    return stays;
}

size_t memplan_available(void)
{
    size_t kib = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");
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
