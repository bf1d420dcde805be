/* A scripted engine with the same interface, chosen at link time (these definitions replace those of the archive).  Answers are texts with
 * control tokens; they are encoded with the small tokenizer of tests/data/chat. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/ids.h"
#include "base/err.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

enum { FAKE_MAX = 96 };

struct fake_answer {
    const char *text;                   /* without the stop id */
    enum end finish;
    bool hangs;                         /* after the text, waits for an interrupt */
    int  from, to;                      /* only these tokens of the text; to 0: up to the end */
};

static struct {
    struct fake_answer answers[FAKE_MAX];
    int  n_answers, n_submits, n_interrupts;
    int  batch;                         /* tokens per event */
    bool not_ready;                     /* until fake_ready() */
    bool limits;                        /* an answer ends at its greatest number of tokens; otherwise only its script counts */
    bool reads;                         /* reading a prompt stops half way, until fake_read() */
    int  n_read;                        /* tokens of each prompt, as stats tell them; 0: 10 */
    double bytes;                       /* that the steps moved */
    int  n_looked_up;                   /* of the drafts in second place, none of which was right */
    int  n_ctx;
    float gen_temperature;
    double joules;                      /* used so far */
    struct ids prompts[FAKE_MAX];       /* as submitted */
    struct sampling samplings[FAKE_MAX];
    int  snapshot_pos[FAKE_MAX];
    uint64_t sequence[FAKE_MAX];
    struct pictures pictures[FAKE_MAX]; /* of the prompts */
    int  picture_tokens;                /* the model sees pictures of so many tokens; 0: none */
    struct ids ahead;                   /* the last prompt given to read ahead */
    int  n_aheads;
    uint64_t ahead_sequence;
    int  n_saves, n_restores, n_keeps;  /* of checkpoints */
    char saved[256], restored[256], home[256];     /* the files of the last ones */
    uint64_t saved_sequence, restored_sequence, home_sequence;
    struct refill refill;               /* of the next answers */
    const char *trouble;                /* what the engine says of the next save or restore */
    struct tokenizer *tok;
    int32_t end;                        /* the id that ends an answer */
    bool remembers;                     /* prompts have the tokens counted that an earlier prompt and its answer begin with */
    struct ids held[FAKE_MAX];          /* prompts and answers, if it remembers */
} fake;

struct engine {
    int fd;
    bool ready, dead;
    struct model_info info;
    struct ids left;                    /* of the running answer */
    int  done, n_alternatives;
    enum end finish;
    bool running, hangs, told;          /* told: the progress of reading was reported */
    int  n_prompt, n_cached;
    uint32_t serial;
    struct event out[8];
    const char *fatal;
    bool saves, restores;               /* to be told */
};

static struct engine *fake_engine;      /* the open one */

static void fake_reset(void)
{
    if (!fake.tok) {
        struct err e = {0};
        fake.tok = tokenizer_open("tests/data/chat", &e);
        CHECK(fake.tok);
    }
    for (int i = 0; i < FAKE_MAX; i++)
        ids_free(&fake.prompts[i]), pictures_free(&fake.pictures[i]);
    ids_free(&fake.ahead);
    struct tokenizer *tok = fake.tok;
    memset(&fake, 0, sizeof fake);
    fake.tok = tok;
    fake.end = 258;
    fake.batch = 3;
    fake.n_ctx = 100000;
    fake.gen_temperature = -1;
}

static inline void fake_say(const char *text)
{
    fake.answers[fake.n_answers++] = (struct fake_answer){text, END_STOP, false};
}

static inline void fake_end(const char *text, enum end finish, bool hangs)
{
    fake.answers[fake.n_answers++] = (struct fake_answer){text, finish, hangs};
}

static void wake(struct engine *g)
{
    eventfd_write(g->fd, 1);
}

static inline void fake_ready(void)
{
    fake.not_ready = false;
    wake(fake_engine);
}

static inline void fake_read(void)
{
    fake.reads = false;
    wake(fake_engine);
}

static inline void fake_dies(const char *why)
{
    fake_engine->fatal = why;
    wake(fake_engine);
}

struct engine *engine_open(const struct engine_options *o, struct err *e)
{
    (void)o, (void)e;
    struct engine *g = calloc(1, sizeof *g);
    CHECK(g);
    g->fd = eventfd(0, EFD_NONBLOCK);
    g->info = (struct model_info){
        .model = "scripted", .backend = "none", .kv = "tq4", .kv_token_bytes = 6240, .n_ctx = fake.n_ctx,
        .n_vocab = tokenizer_n_ids(fake.tok), .ends = {fake.remembers ? fake.end : 256}, .n_ends = 1,
        .memory = "3.00 GiB of 8.00 GiB, of which 0.50 stay free: weights 3.00 GiB",
        .picture_tokens = fake.picture_tokens, .temperature = fake.gen_temperature, .top_p = fake.gen_temperature < 0 ? -1 : 0.9f, .top_k = -1,
    };
    wake(g);
    return fake_engine = g;
}

/* Returns how many tokens the prompt has in common with one of the first k and its answer. */
static int fake_held(struct spans prompt, int k)
{
    int most = 0;
    for (int i = 0; i < k; i++) {
        const int n = spans_common(prompt, spans_text(fake.held[i].data, fake.held[i].n));
        most = n > most ? n : most;
    }
    return most;
}

uint32_t engine_submit(struct engine *g, uint64_t sequence, struct spans prompt, int snapshot_pos, const struct sampling *s)
{
    int k = fake.n_submits++;
    CHECK(k < fake.n_answers && !g->running);
    CHECK(s->n_ids == tokenizer_n_ids(fake.tok));       /* never an id that means nothing */
    const struct fake_answer *a = &fake.answers[k];
    ids_append(&fake.prompts[k], prompt.ids, prompt.n);
    pictures_add(&fake.pictures[k], prompt, 0, prompt.n);
    for (int i = 0; i < prompt.n_pictures; i++) {
        const struct picture *p = &prompt.pictures[i];
        CHECK(prompt.pixels[i]->h == 32 * p->h && prompt.pixels[i]->w == 32 * p->w && p->n == p->h * p->w);
    }
    fake.samplings[k] = *s;
    fake.snapshot_pos[k] = snapshot_pos;
    fake.sequence[k] = sequence;
    g->left.n = 0;
    tokenizer_encode(fake.tok, a->text, strlen(a->text), true, &g->left);
    if (a->finish == END_STOP)
        ids_add(&g->left, fake.end);
    if (a->to)
        g->left.n = a->to;
    const bool over = fake.limits && s->max_tokens && g->left.n - a->from > s->max_tokens;
    if (over)
        g->left.n = a->from + s->max_tokens;
    g->done = a->from;
    g->n_alternatives = s->n_alternatives;
    g->finish = over ? END_LENGTH : a->finish;
    g->hangs = a->hangs;
    g->running = true;
    g->told = false;
    g->n_prompt = prompt.n;
    g->n_cached = fake.remembers ? fake_held(prompt, k) : 0;
    if (fake.remembers) {
        ids_append(&fake.held[k], prompt.ids, prompt.n);
        ids_append(&fake.held[k], g->left.data, g->left.n);
    }
    wake(g);
    return ++g->serial;
}

void engine_read_ahead(struct engine *g, uint64_t sequence, struct spans prompt, int snapshot_pos)
{
    (void)snapshot_pos;
    CHECK(!g->running);
    fake.ahead_sequence = sequence;
    fake.n_aheads++;
    fake.ahead.n = 0;
    ids_append(&fake.ahead, prompt.ids, prompt.n);
}

void engine_save(struct engine *g, uint64_t sequence, const char *path)
{
    fake.n_saves++;
    fake.saved_sequence = sequence;
    snprintf(fake.saved, sizeof fake.saved, "%s", path);
    g->saves = true;
    wake(g);
}

void engine_restore(struct engine *g, uint64_t sequence, const char *path)
{
    fake.n_restores++;
    fake.restored_sequence = sequence;
    snprintf(fake.restored, sizeof fake.restored, "%s", path);
    g->restores = true;
    wake(g);
}

void engine_keep(struct engine *g, uint64_t sequence, const char *path)
{
    (void)g;
    fake.n_keeps++;
    fake.home_sequence = path ? sequence : 0;
    snprintf(fake.home, sizeof fake.home, "%s", path ? path : "");
}

void engine_interrupt(struct engine *g, uint32_t serial)
{
    if (!g->running || serial != g->serial)
        return;
    fake.n_interrupts++;
    g->left.n = g->done;
    g->finish = END_INTERRUPTED;
    g->hangs = false;
    wake(g);
}

int engine_fd(const struct engine *g)
{
    return g->fd;
}

static int read_of(const struct engine *g)
{
    return fake.remembers ? g->n_prompt : fake.n_read ? fake.n_read : 10;
}

struct event_list engine_drain(struct engine *g)
{
    eventfd_t n;
    struct event_list l = {g->out, 0};
    eventfd_read(g->fd, &n);
    memset(g->out, 0, sizeof g->out);
    if (!g->ready) {
        g->out[l.n++] = (struct event){.kind = EV_LOADING, .done = 1, .total = 2};
        if (!fake.not_ready) {
            g->ready = true;
            g->out[l.n++] = (struct event){.kind = EV_READY};
        }
    }
    if (g->saves || g->restores) {
        struct event *ev = &g->out[l.n++];
        *ev = (struct event){.kind = g->saves ? EV_SAVED : EV_RESTORED, .sequence = g->saves ? fake.saved_sequence : fake.restored_sequence,
                             .done = 1000, .total = 2000};
        snprintf(ev->message, sizeof ev->message, "%s", fake.trouble ? fake.trouble : "");
        *(g->saves ? &g->saves : &g->restores) = false;
        fake.trouble = NULL;
        wake(g);
    }
    if (g->fatal && !g->dead) {
        g->dead = true;
        g->out[l.n] = (struct event){.kind = EV_FATAL};
        snprintf(g->out[l.n++].message, sizeof g->out->message, "%s", g->fatal);
    }
    if (g->running && fake.reads && g->finish != END_INTERRUPTED) {
        if (!g->told)
            g->out[l.n++] = (struct event){.kind = EV_PREFILL, .serial = g->serial, .done = (size_t)g->n_prompt / 2, .total = (size_t)g->n_prompt};
        g->told = true;
        return l;
    }
    for (int k = 0; k < 2 && g->running && !g->dead; k++) {
        struct event *ev = &g->out[l.n];
        *ev = (struct event){.kind = EV_TOKENS, .serial = g->serial};
        while (ev->n < fake.batch && g->done < g->left.n) {
            int32_t id = g->left.data[g->done++];
            ev->logprobs[ev->n] = (struct logprobs){.prob = -1};
            if (g->n_alternatives)      /* the letter behind it is the other one */
                ev->logprobs[ev->n] = (struct logprobs){.prob = 0.5f, .n = 2, .ids = {id, (id + 1) % 256}, .probs = {0.5f, 0.25f}};
            ev->ids[ev->n++] = id;
        }
        ev->stats = (struct stats){.n_prompt = read_of(g), .n_cached = g->n_cached, .n_tokens = g->done, .n_steps = g->done,
                                   .n_timed = g->done ? g->done - 1 : 0, .drafts = {{{10, 7}}}, .prefill_ms = 5, .decode_ms = 10 * g->done};
        if (ev->n) {
            l.n++;
            continue;
        }
        if (g->hangs)
            break;
        ev->kind = EV_DONE;
        ev->finish = g->finish;
        ev->stats = (struct stats){.n_prompt = read_of(g), .n_cached = g->n_cached, .n_tokens = g->done, .n_steps = g->done,
                                   .n_timed = g->done ? g->done - 1 : 0,
                                   .drafts = {{{10, 8}, {5 - fake.n_looked_up, 1}}, {{0, 0}, {fake.n_looked_up, 0}}}, .bytes = fake.bytes,
                                   .prefill_ms = 5, .decode_ms = 100, .refill = fake.refill};
        if (g->finish == END_FAILED)
            snprintf(ev->message, sizeof ev->message, "scripted error");
        g->running = false;
        l.n++;
    }
    if (g->running && !g->dead && !(g->hangs && g->done == g->left.n))
        wake(g);
    return l;
}

bool engine_wait(struct engine *g, int timeout_ms)
{
    (void)g, (void)timeout_ms;
    return true;
}

const struct model_info *engine_info(const struct engine *g)
{
    return g->ready ? &g->info : NULL;
}

void engine_machine(struct engine *g, struct machine_figures *m)
{
    (void)g;
    *m = (struct machine_figures){.memory_used = 1, .memory_total = 2, .joules = fake.joules += 1.5, .snapshots = 3, .snapshots_max = 8,
                                 .resident = 1, .resident_max = 2};
}

void engine_close(struct engine *g)
{
    close(g->fd);
    ids_free(&g->left);
    free(g);
    fake_engine = NULL;
}
