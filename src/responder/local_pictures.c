#include "responder/local_pictures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

enum {
    MOST_BYTES = 64 << 20,              /* of pixels that are kept although no prompt has them */
    THREADS = 2,
};

/* A picture as the tower gets it, or on its way there. */
struct view {
    struct fingerprint file;
    enum { VIEW_WAITS, VIEW_WORKS, VIEW_THERE, VIEW_FAILED } state;
    struct buf name, bytes;             /* of the file, until it is decoded */
    int w, h;                           /* sides of the upright picture, once it is there */
    struct picture picture;             /* without its place */
    struct pixels *pixels;
    struct err why;
    bool large;                         /* the threads do not decode it beside another large one */
    bool looked_at;                     /* views_look() decodes it, and no thread of the worker */
    atomic_bool unwanted;               /* no prompt has it any more while it is decoded */
    uint64_t used, round;
    int refs;                           /* prompts that have it, and the list of views */
};

/* ---- decoding ---- */

/* Decodes and resizes a picture for the model.  False with the reason. */
static bool look(struct view *to, struct text file, const char *name, const struct image_wish *wish, const struct image_limits *limits, struct err *e)
{
    struct image im = {0};
    bool ok = image_decode(&im, file.p, file.n, name, wish, e);
    to->w = im.w;
    to->h = im.h;
    if ((ok = ok && image_fit(&im, limits, e))) {
        const struct image_grid g = image_grid(&im);
        to->picture = (struct picture){.n = g.tokens, .h = g.h / 2, .w = g.w / 2, .hash = image_hash(&im)};
        to->pixels = pixels_new(im.rgb, im.h, im.w);
    }
    image_free(&im);
    return ok;
}

static size_t bytes_of(const struct view *v)
{
    return v->pixels ? (size_t)v->pixels->h * (size_t)v->pixels->w * 3 : 0;
}

/* Returns the picture whose round comes next, but no second large one, beside which the small ones go on; NULL: there is none. */
static struct view *next_of(const struct views *v)
{
    struct view *next = NULL;
    bool busy = false;
    for (int i = 0; i < v->n; i++)
        busy = busy || (v->all[i]->large && v->all[i]->state == VIEW_WORKS && !v->all[i]->looked_at);
    for (int i = 0; i < v->n; i++)
        if (v->all[i]->state == VIEW_WAITS && !(busy && v->all[i]->large) && (!next || v->all[i]->round < next->round))
            next = v->all[i];
    return next;
}

/* Decodes the next picture; the lock is released meanwhile. */
static int64_t decode_next(void *arg)
{
    struct views *v = arg;
    struct view *next = next_of(v);
    if (!next)
        return WORKER_IDLE;
    const struct image_wish wish = {.stop = &next->unwanted};
    next->state = VIEW_WORKS;
    v->round = next->round;
    worker_wake(&v->worker);            /* there may be another one for the other thread */
    worker_unlock(&v->worker);
    const bool ok = look(next, (struct text){next->bytes.data, next->bytes.len}, next->name.len ? next->name.data : "the picture", &wish, &v->limits,
                         &next->why);
    worker_lock(&v->worker);
    next->state = ok ? VIEW_THERE : VIEW_FAILED;
    v->bytes += bytes_of(next);
    buf_free(&next->bytes);
    buf_free(&next->name);
    eventfd_write(v->fd, 1);
    return WORKER_AGAIN;
}

bool views_open(struct views *v, struct image_limits limits, struct err *e)
{
    *v = (struct views){.limits = limits, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (v->fd >= 0 && worker_start(&v->worker, THREADS, decode_next, v))
        return true;
    err_set(e, "no thread for the decoding of pictures: %s", strerror(errno));
    if (v->fd >= 0)
        close(v->fd);
    *v = (struct views){0};
    return false;
}

bool views_changed(struct views *v)
{
    eventfd_t n;
    return v->worker.step && !eventfd_read(v->fd, &n);
}

void views_notice(struct views *v)
{
    eventfd_write(v->fd, 1);
}

/* ---- what is kept ---- */

/* Gives up a reference to a picture; the last one frees it. */
static void release(struct view *one)
{
    if (!one || --one->refs)
        return;
    pixels_release(one->pixels);
    buf_free(&one->name);
    buf_free(&one->bytes);
    free(one);
}

static void drop(struct views *v, int i)
{
    v->bytes -= bytes_of(v->all[i]);
    release(v->all[i]);
    v->all[i] = v->all[--v->n];
}

/* Drops views that no prompt has: those that failed or wait, and the least recently used ones while there are too many bytes.  Those that are being
 * decoded fail soon. */
static void trim(struct views *v)
{
    for (int i = v->n - 1; i >= 0; i--)
        if (v->all[i]->refs == 1 && v->all[i]->state == VIEW_WORKS)
            atomic_store(&v->all[i]->unwanted, true);
        else if (v->all[i]->refs == 1 && (v->all[i]->state == VIEW_FAILED || v->all[i]->state == VIEW_WAITS))
            drop(v, i);
    for (bool more = true; v->bytes > MOST_BYTES && more;) {
        int oldest = -1;
        for (int i = 0; i < v->n; i++)
            if (v->all[i]->refs == 1 && v->all[i]->state == VIEW_THERE && (oldest < 0 || v->all[i]->used < v->all[oldest]->used))
                oldest = i;
        if ((more = oldest >= 0))
            drop(v, oldest);
    }
}

static struct fingerprint file_hash(const struct media *m)
{
    struct fingerprinter *f = fingerprint_begin();
    fingerprint_add(f, m->bytes.p, m->bytes.n);
    return fingerprint_end(f);
}

/* Returns the view of a file; NULL: there is none. */
static struct view *find(const struct views *v, struct fingerprint file)
{
    for (int i = 0; i < v->n; i++)
        if (v->all[i]->file.low == file.low && v->all[i]->file.high == file.high && !v->all[i]->unwanted)
            return v->all[i];
    return NULL;
}

static struct view *new_view(struct views *v, struct fingerprint file)
{
    struct view *one = memory_zeroed(1, sizeof *one);
    *one = (struct view){.file = file, .refs = 1, .used = ++v->clock};
    v->all = memory_grow(v->all, v->n, &v->cap, sizeof(struct view *));
    return v->all[v->n++] = one;
}

/* Has the worker decode a picture.  The pictures of all prompts are decoded in rounds, one of each prompt. */
static void await(struct view *one, const struct media *m, uint64_t round)
{
    one->state = VIEW_WAITS;
    one->round = round;
    one->large = (int64_t)m->w * m->h > IMAGE_LARGE;
    buf_add(&one->name, m->name.p ? m->name.p : "", m->name.n);
    buf_add(&one->bytes, m->bytes.p, m->bytes.n);
}

void views_close(struct views *v)
{
    if (!v->worker.step) {
        *v = (struct views){0};
        return;
    }
    worker_lock(&v->worker);
    for (int i = 0; i < v->n; i++)
        atomic_store(&v->all[i]->unwanted, true);
    worker_unlock(&v->worker);
    worker_stop(&v->worker);
    while (v->n)
        drop(v, 0);
    close(v->fd);
    free(v->all);
    *v = (struct views){0};
}

/* ---- a look ahead of the prompt ---- */

/* Ends a look whose picture is not there.  Prompts that got the view meanwhile have it decoded by the worker. */
static void give_up(struct views *v, struct view *one, const struct media *m)
{
    one->looked_at = false;
    if (one->refs > 2)
        await(one, &(struct media){.bytes = m->bytes, .w = one->w, .h = one->h}, v->round);
    for (int i = 0; one->refs == 2 && i < v->n; i++)
        if (v->all[i] == one) {
            drop(v, i);
            break;
        }
}

/* Waits until another thread has decoded a picture.  False: nobody wants it any more. */
static bool await_other(struct views *v, const struct view *one, const struct image_wish *wish)
{
    enum { CHECK_NS = 20000000 };
    while ((one->state == VIEW_WAITS || one->state == VIEW_WORKS) && !atomic_load(wish->stop))
        worker_wait(&v->worker, clock_ns() + CHECK_NS);
    return !atomic_load(wish->stop);
}

bool views_look(struct views *v, struct media *m, const struct image_wish *wish, struct err *e)
{
    const struct fingerprint file = file_hash(m);
    worker_lock(&v->worker);
    struct view *one = find(v, file);
    bool ok;
    if (one) {
        one->refs++;
        ok = await_other(v, one, wish) && one->state == VIEW_THERE;
        if (!ok)
            err_set(e, "%s", *one->why.msg ? one->why.msg : "it is not needed any more");
    } else {
        one = new_view(v, file);
        one->refs++;
        one->looked_at = true;
        one->state = VIEW_WORKS;
        worker_unlock(&v->worker);
        ok = look(one, m->bytes, "it", wish, &v->limits, e);
        worker_lock(&v->worker);
        one->state = ok ? VIEW_THERE : VIEW_FAILED;
        v->bytes += bytes_of(one);
        if (!ok)
            give_up(v, one, m);
        eventfd_write(v->fd, 1);
    }
    m->w = one->w;
    m->h = one->h;
    one->used = ++v->clock;
    release(one);
    trim(v);
    worker_wake(&v->worker);
    worker_unlock(&v->worker);
    return ok;
}

/* ---- the pictures of a prompt ---- */

static void lock(struct views *v)
{
    if (v->worker.step)
        worker_lock(&v->worker);
}

static void unlock(struct views *v)
{
    if (v->worker.step)
        worker_unlock(&v->worker);
}

/* Releases them; the lock is held. */
static void forget(struct sights *s)
{
    for (int i = 0; i < s->n; i++) {
        pixels_release(s->pixels[i]);
        release(s->views[i]);
    }
    s->n = 0;
}

static int tokens_of(const struct image_limits *limits, const struct media *m)
{
    int h, w;
    return image_target(m->h, m->w, limits, &h, &w, NULL) ? h / IMAGE_FACTOR * (w / IMAGE_FACTOR) : 1;
}

/* Appends a picture of a message; it is decoded on the worker, and has a count of tokens until then. */
static void add(struct sights *s, struct views *v, const struct media *m)
{
    struct view *one = NULL;
    int caps[2] = {s->cap, s->cap};
    if (v->worker.step) {
        const struct fingerprint file = file_hash(m);
        if (!(one = find(v, file)))
            await(one = new_view(v, file), m, v->round + (uint64_t)s->n);
        one->refs++;
        one->used = ++v->clock;
    }
    s->pictures = memory_grow(s->pictures, s->n, &caps[0], sizeof *s->pictures);
    s->pixels = memory_grow(s->pixels, s->n, &caps[1], sizeof(struct pixels *));
    s->views = memory_grow(s->views, s->n, &s->cap, sizeof(struct view *));
    s->pictures[s->n] = (struct picture){.n = tokens_of(&v->limits, m)};
    s->pixels[s->n] = NULL;
    s->views[s->n++] = one;
}

bool sights_take(struct sights *s, struct views *v, const struct message *messages, int n, struct err *e)
{
    bool ok = true;
    if (!v->limits.max_pixels)          /* no message has a picture: the model could not see it */
        return true;
    lock(v);
    struct sights before = *s;          /* views of both stay */
    *s = (struct sights){0};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < messages[i].n_media && ok; k++)
            if ((ok = messages[i].pictures || err_set(e, "a picture of the conversation is not there")))
                add(s, v, &messages[i].pictures[k]);
    forget(&before);
    trim(v);
    if (v->worker.step)
        worker_wake(&v->worker);
    unlock(v);
    free(before.views);
    free(before.pictures);
    free(before.pixels);
    return ok;
}

enum sights_state sights_update(struct sights *s, struct views *v, struct err *e)
{
    enum sights_state state = SIGHTS_THERE;
    if (!s->n || !v->worker.step)
        return state;
    worker_lock(&v->worker);
    for (int i = 0; i < s->n && state != SIGHTS_FAILED; i++) {
        const struct view *one = s->views[i];
        if (one->state == VIEW_THERE && !s->pixels[i]) {
            s->pictures[i] = one->picture;
            s->pixels[i] = pixels_retain(one->pixels);
        } else if (one->state == VIEW_FAILED) {
            err_set(e, "%s", one->why.msg);
            state = SIGHTS_FAILED;
        } else if (one->state != VIEW_THERE) {
            state = SIGHTS_AWAITED;
        }
    }
    worker_unlock(&v->worker);
    return state;
}

void sights_free(struct sights *s, struct views *v)
{
    lock(v);
    forget(s);
    trim(v);
    unlock(v);
    free(s->views);
    free(s->pictures);
    free(s->pixels);
    *s = (struct sights){0};
}

void sights_abandon(struct sights *s, struct views *v)
{
    lock(v);
    for (int i = 0; i < s->n; i++)
        if (!s->pixels[i]) {
            release(s->views[i]);
            s->views[i] = NULL;
        }
    trim(v);
    unlock(v);
}

int sights_measure(const struct image_limits *limits, const struct message *messages, int n)
{
    int extra = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < messages[i].n_media && messages[i].pictures; k++)
            extra += tokens_of(limits, &messages[i].pictures[k]) - 1;
    return extra;
}

int sights_extra(const struct sights *s, const int32_t *ids, int n, int32_t pad)
{
    int extra = 0, k = 0;
    for (int i = 0; i < n && k < s->n; i++)
        if (ids[i] == pad)
            extra += s->pictures[k++].n - 1;
    return extra;
}

bool sights_place(const struct sights *s, const struct ids *ids, int32_t pad, bool head, struct placed *out, struct err *e)
{
    int k = 0, n_pads = 0;
    *out = (struct placed){.pictures = memory_zeroed((size_t)s->n + 1, sizeof *out->pictures)};
    for (int i = 0; i < ids->n; i++) {
        const bool picture = ids->data[i] == pad && s->n;
        n_pads += picture;
        if (!picture || k == s->n) {
            ids_add(&out->ids, ids->data[i]);
            continue;
        }
        out->pictures[k] = s->pictures[k];
        out->pictures[k].first = out->ids.n;
        for (int j = 0; j < s->pictures[k].n; j++)
            ids_add(&out->ids, pad);
        k++;
    }
    out->spans = (struct spans){.ids = out->ids.data, .n = out->ids.n, .pictures = out->pictures, .n_pictures = k, .pixels = s->pixels};
    return n_pads == s->n || (head && n_pads < s->n) || err_set(e, "the prompt has %d places for %d pictures", n_pads, s->n);
}

void placed_free(struct placed *p)
{
    ids_free(&p->ids);
    free(p->pictures);
    *p = (struct placed){0};
}
