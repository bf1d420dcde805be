/* Reads bodies: large ones, and those with pictures or with a form to be compiled, on threads of their own. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/worker.h"
#include "serve/server_state.h"
#include "serve/tokens.h"

/* SMALL: bytes of a body that is read at once, since every connection may send one at the same time.  Tokens of a text take longer than its JSON, so
 * that less of it is read at once; the tokens of a small question are made when its turn comes.  THREADS: of those that decode no pictures. */
enum { SMALL = 32 << 10, SMALL_TEXT = 2 << 10, THREADS = 4 };

/* News of a thread: it begins to decode pictures, or the reading has ended. */
struct note {
    struct reading *rd;
    bool ended;
};

/* ---- any thread ---- */

/* Decodes the pictures of the question, unless the model has no eyes for them, and the request is refused later. */
static bool look(struct reading *rd)
{
    const struct request *q = &rd->job->question.request;
    return (rd->ready && !rd->r->can.pictures) || seen_look(q->messages, q->n_messages, &rd->look, &rd->e);
}

/* Compiles form and tools of the question. */
static bool make_guide(struct reading *rd)
{
    struct request *q = &rd->job->question.request;
    if (!rd->r->ops->compile || (q->form.kind == FORM_ANY && !q->n_tools))
        return true;
    rd->later = !rd->notes;
    return rd->later ? err_set(&rd->e, "the form was not compiled") : rd->r->ops->compile(rd->r, q, &q->guide, &rd->e);
}

/* Makes the tokens of the prompt and of the answer's beginning, so that the server need not. */
static bool make_tokens(struct reading *rd)
{
    struct question *q = &rd->job->question;
    if (!rd->ready)
        return true;
    if (!question_prefix(q, rd->r, &rd->e))
        return false;
    if (!q->plain) {
        q->request.made = &q->ids;
        return rd->r->ops->prompt(rd->r, &q->request, &q->ids, &q->request.snapshot_pos, &rd->e);
    }
    if (q->prompt.p)
        rd->r->ops->encode(rd->r, q->prompt, true, &q->ids);
    q->prompt.p = NULL;
    return true;
}

static bool read_question(struct reading *rd)
{
    struct question *q = &rd->job->question;
    if (!rd->format->read(q, rd->text, rd->o, &rd->e))
        return false;
    if (q->asks_nothing)
        return true;
    /* The form first: THREADS bounds what compiles, but not what decodes. */
    if (!make_guide(rd) || !look(rd))
        return false;
    recall_apply(rd->recall, q);
    return make_tokens(rd);
}

/* Reads a body: as a question, or for a reply that is made at once.  Runs on any thread. */
static void read_body(struct reading *rd)
{
    if (tokens_too_many(rd->text, rd->most_values))
        rd->ok = err_set(&rd->e, "the body has more than %zu values, more than the context can hold", rd->most_values);
    else if (rd->format)
        rd->ok = read_question(rd);
    else
        rd->ok = rd->reply(rd->r, rd->text, rd->o, &rd->look, &rd->out, &rd->e);
    if (rd->job)
        rd->job->question.format = rd->format;
}

static void *run(void *arg)
{
    struct reading *rd = arg;
    read_body(rd);
    mailbox_post(rd->notes, &(struct note){rd, .ended = true});
    return NULL;
}

static void begin_look(void *arg)
{
    struct reading *rd = arg;
    mailbox_post(rd->notes, &(struct note){rd, .ended = false});
}

/* ---- the server's thread ---- */

/* Frees a reading with its job and its copy of the options. */
static void reading_free(struct reading *rd)
{
    if (rd->job)
        job_free(rd->job);
    options_close(rd->o);
    buf_free(&rd->body);
    buf_free(&rd->interrupted);
    buf_free(&rd->out);
    free(rd);
}

static struct job *new_job(struct exchange *x)
{
    struct job *j = memory_zeroed(1, sizeof *j);
    j->x = x;
    return j;
}

/* Reads a body on this thread and passes the result on.  False: what is left takes too long. */
static bool read_now(struct readings *l, const struct reading *given, const struct options *o)
{
    struct reading rd = *given;
    rd.text = exchange_body(rd.x);
    rd.o = (struct options *)o;
    if (rd.format)
        rd.ready = false;               /* the lane makes the tokens, of which it may have most */
    rd.job = rd.format ? new_job(rd.x) : NULL;
    read_body(&rd);
    const bool read = !rd.look.later && !rd.later;
    if (read)
        l->fn(l->arg, &rd);
    if (rd.job)
        job_free(rd.job);
    buf_free(&rd.out);
    return read;
}

static void start(struct readings *l)
{
    int n = 0;
    for (struct reading *rd = l->first; rd && n < THREADS; rd = rd->next) {
        n += !rd->looks;
        if (!rd->runs) {
            rd->runs = true;
            CHECK(!quiet_thread(&rd->thread, run, rd));
        }
    }
}

void readings_add(struct readings *l, const struct reading *given, const struct options *o)
{
    if (exchange_body(given->x).n <= (given->reply ? SMALL_TEXT : SMALL) && read_now(l, given, o))
        return;
    struct reading *rd = memory_zeroed(1, sizeof *rd), **end = &l->first;
    *rd = *given;
    rd->notes = &l->notes;
    rd->look = (struct look){.client = (uint64_t)(exchange_key(rd->x) + 1), .r = rd->ready && rd->r->can.pictures ? rd->r : NULL,
                             .begins = begin_look, .arg = rd};
    rd->o = options_copy(o);
    rd->job = rd->format ? new_job(NULL) : NULL;
    exchange_take_body(rd->x, &rd->body);
    rd->text = (struct text){rd->body.data, rd->body.len};
    while (*end)
        end = &(*end)->next;
    *end = rd;
    start(l);
}

static void leave(struct readings *l, struct reading *rd)
{
    struct reading **at = &l->first;
    while (*at != rd)
        at = &(*at)->next;
    *at = rd->next;
    if (rd->runs)
        pthread_join(rd->thread, NULL);
}

void readings_take(struct readings *l)
{
    int n;
    const struct note *all = mailbox_take(&l->notes, &n);
    for (int i = 0; i < n; i++) {
        struct reading *rd = all[i].rd;
        rd->looks = true;
        if (!all[i].ended)
            continue;
        leave(l, rd);
        if (rd->job)
            rd->job->x = rd->x;
        if (rd->x)
            l->fn(l->arg, rd);
        reading_free(rd);
    }
    start(l);
}

static void add_name(struct buf *to, struct text name)
{
    buf_addc(to, 0);
    buf_add(to, name.p, name.n);
    buf_addc(to, 0);
}

void readings_interrupt(struct readings *l, struct text name)
{
    for (struct reading *rd = l->first; rd; rd = rd->next)
        add_name(&rd->interrupted, name);
}

bool reading_was_interrupted(const struct reading *rd)
{
    const struct question *q = &rd->job->question;
    struct buf name = {0};
    add_name(&name, q->name);
    const bool was = q->name.n && rd->interrupted.len && memmem(rd->interrupted.data, rd->interrupted.len, name.data, name.len);
    buf_free(&name);
    return was;
}

bool readings_gone(struct readings *l, const struct exchange *x)
{
    for (struct reading *rd = l->first; rd; rd = rd->next)
        if (rd->x == x) {
            rd->x = NULL;
            atomic_store(&rd->look.unwanted, true);
            if (!rd->runs) {
                leave(l, rd);
                reading_free(rd);
            }
            return true;
        }
    return false;
}

bool readings_init(struct readings *l, reading_done *fn, void *arg)
{
    *l = (struct readings){.fn = fn, .arg = arg};
    return mailbox_init(&l->notes, sizeof(struct note));
}

void readings_free(struct readings *l)
{
    for (struct reading *rd = l->first; rd; rd = rd->next)
        atomic_store(&rd->look.unwanted, true);
    for (struct reading *rd; (rd = l->first); reading_free(rd))
        leave(l, rd);
    mailbox_free(&l->notes);
}
