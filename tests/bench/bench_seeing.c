/* Conversations with pictures beside each other: how long an answer under way is held up while another conversation's picture is read, and how much
 * faster three conversations with a page each are at once than one after the other.  usage: bench_seeing [DIR [cpu|cuda]] or
 * bench_seeing synthetic 122b LAYERS [TOKENS], random weights on a GPU and answers of so many tokens */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "model/config.h"
#include "model/synthetic.h"
#include "model/vision.h"

enum { AT_ONCE = 3, BEFORE = 16, LONG = 4096, SHORT = 32, WORDS = 64, MOST_SIDE = 60, WAIT_MS = 600000, LONG_CTX = 16384 };

struct bench {
    struct engine *g;
    struct model_config cfg;
    int side;                           /* tokens of a side of the picture */
    int length;                         /* tokens of an answer about a picture */
    uint64_t name;                      /* of the newest conversation */
};

/* A prompt: words, a picture of its own unless `side` is 0, and words. */
struct prompt {
    int32_t *ids;
    struct picture picture;
    struct pixels *pixels;
    struct spans spans;
};

static void make(struct prompt *p, const struct bench *b, int side, unsigned seed)
{
    const int n = 2 * WORDS + side * side;
    *p = (struct prompt){.ids = malloc((size_t)n * sizeof *p->ids), .picture = {WORDS, side * side, side, side, {seed, seed}}};
    for (int i = 0; i < n; i++)
        p->ids[i] = i < WORDS || i >= WORDS + side * side ? (int32_t)((seed * 31 + (unsigned)i * 7) % 200) : b->cfg.vision.image_id;
    p->spans = spans_text(p->ids, n);
    if (!side)
        return;
    const int pixels = side * VISION_SIDE;
    uint8_t *rgb = malloc((size_t)pixels * (size_t)pixels * 3);
    for (size_t i = 0; i < (size_t)pixels * (size_t)pixels * 3; i++)
        rgb[i] = (uint8_t)(i * (seed + 3) >> 3);
    p->pixels = pixels_new(rgb, pixels, pixels);
    free(rgb);
    p->spans = (struct spans){.ids = p->ids, .n = n, .pictures = &p->picture, .n_pictures = 1, .pixels = &p->pixels};
}

static void drop(struct prompt *p)
{
    pixels_release(p->pixels);
    free(p->ids);
}

static uint32_t submit(struct bench *b, const struct prompt *p, int max_tokens)
{
    return engine_submit(b->g, ++b->name, p->spans, p->spans.n - 1, &(struct sampling){.max_tokens = max_tokens, .draft_depth = 0});
}

/* Takes the next events, and calls fn with each.  False: the engine failed. */
static bool next(struct bench *b, void (*fn)(const struct event *ev, void *arg), void *arg)
{
    if (!engine_wait(b->g, WAIT_MS))
        return false;
    const struct event_list l = engine_drain(b->g);
    for (int i = 0; i < l.n; i++) {
        if (l.events[i].kind == EV_FATAL || (l.events[i].kind == EV_DONE && l.events[i].finish == END_FAILED)) {
            fprintf(stderr, "%s\n", l.events[i].message);
            return false;
        }
        fn(&l.events[i], arg);
    }
    return true;
}

static void see_ready(const struct event *ev, void *arg)
{
    *(bool *)arg |= ev->kind == EV_READY;
}

/* ---- held up ---- */

struct watch {
    uint32_t text, picture;             /* serials */
    int     n_tokens;
    bool    looks, over;                /* the picture is being read; the first token after it has come */
    int64_t last_ns, looks_ns;
    double  longest_ms, usual_ms;       /* between two steps of the answer, with and without the picture */
    int     n_usual, n_ended;
};

static void watch_event(const struct event *ev, void *arg)
{
    struct watch *w = arg;
    const int64_t now = clock_ns();
    w->n_ended += ev->kind == EV_DONE;
    if (ev->kind == EV_TOKENS && ev->serial == w->text) {
        const double ms = w->last_ns ? (double)(now - w->last_ns) * 1e-6 : 0;
        if (w->looks && w->longest_ms < ms)
            w->longest_ms = ms;
        if (!w->looks && w->n_tokens > BEFORE / 2) {
            w->usual_ms += ms;
            w->n_usual++;
        }
        w->last_ns = now;
        w->n_tokens += ev->n;
    } else if (ev->serial == w->picture && w->picture && (ev->kind == EV_TOKENS || ev->kind == EV_DONE)) {
        w->over = true;
    }
}

static bool measure_held(struct bench *b)
{
    struct prompt text, page;
    struct watch w = {0};
    make(&text, b, 0, 1);
    make(&page, b, b->side, 2);
    w.text = submit(b, &text, LONG);
    bool ok = true;
    while (ok && w.n_tokens < BEFORE)
        ok = next(b, watch_event, &w);
    w.looks = true;
    w.looks_ns = clock_ns();
    w.picture = ok ? submit(b, &page, 1) : 0;
    while (ok && !w.over)
        ok = next(b, watch_event, &w);
    if (ok)
        printf("a picture of %d tokens takes %.0f ms beside an answer, which is held up at most %.1f ms between two steps (%.1f ms without it)\n",
               b->side * b->side, clock_ms_since(w.looks_ns), w.longest_ms, w.usual_ms / (w.n_usual ? w.n_usual : 1));
    engine_interrupt(b->g, w.text);
    while (ok && w.n_ended < 2)
        ok = next(b, watch_event, &w);
    drop(&text);
    drop(&page);
    return ok;
}

/* ---- at once ---- */

static void count_ends(const struct event *ev, void *arg)
{
    *(int *)arg += ev->kind == EV_DONE;
}

/* Answers n prompts with pictures at a time; returns the seconds, negative if the engine failed. */
static double answer(struct bench *b, int n, unsigned seed)
{
    struct prompt pages[AT_ONCE];
    int n_ended = 0;
    for (int i = 0; i < n; i++)
        make(&pages[i], b, b->side, seed + (unsigned)i);
    const int64_t start = clock_ns();
    bool ok = true;
    for (int i = 0; i < n; i++)
        submit(b, &pages[i], b->length);
    while (ok && n_ended < n)
        ok = next(b, count_ends, &n_ended);
    for (int i = 0; i < n; i++)
        drop(&pages[i]);
    return ok ? clock_ms_since(start) * 1e-3 : -1;
}

static bool measure_at_once(struct bench *b)
{
    const double one = answer(b, 1, 10), all = answer(b, AT_ONCE, 20);
    if (one < 0 || all < 0)
        return false;
    printf("an answer of %d tokens about a picture takes %.2f s, %d of them at once %.2f s: in all %.2f times the rate of one\n", b->length, one,
           AT_ONCE, all, AT_ONCE * one / all);
    return true;
}

int main(int argc, char **argv)
{
    struct bench b = {.length = argc > 4 ? atoi(argv[4]) : SHORT};
    struct err e = {0};
    struct engine_options o = {.model_dir = argc > 1 ? argv[1] : "assets/demo", .backend = argc > 2 ? argv[2] : NULL, .n_sequences = AT_ONCE + 1};
    bool ready = false, ok;
    if (argc > 3 && !strcmp(argv[1], "synthetic")) {
        o = (struct engine_options){.synthetic = argv[2], .n_layers = atoi(argv[3]), .n_ctx = LONG_CTX, .n_sequences = AT_ONCE + 1};
        ok = synthetic_config(&b.cfg, o.synthetic, o.n_layers, &e);
        synthetic_vision(&b.cfg);
    } else
        ok = config_load(&b.cfg, o.model_dir, &e);
    b.g = ok ? engine_open(&o, &e) : NULL;
    ok = b.g;
    while (ok && !ready)
        ok = next(&b, see_ready, &ready);
    const int most = ok ? engine_info(b.g)->picture_tokens : 0;
    if (ok && !most) {
        printf("the model sees no pictures\n");
        engine_close(b.g);
        return 0;
    }
    while (ok && (b.side + 1) * (b.side + 1) <= most && b.side < MOST_SIDE)
        b.side++;
    ok = ok && measure_held(&b) && measure_at_once(&b);
    if (!ok)
        fprintf(stderr, "%s\n", e.msg);
    engine_close(b.g);
    return !ok;
}
