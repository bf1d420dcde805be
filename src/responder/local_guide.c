/* The guide of an answer: the form that a request wants, or its tools, compiled; for the engine of another q35chat as JSON, which it compiles. */
#include "guide/form.h"
#include "guide/guide.h"

#include <stdlib.h>
#include <string.h>

#include "responder/local_state.h"
#include "text/pyjson.h"

/* ---- what is wanted */

/* Finds how the answer is guided.  False if it is not. */
static bool kind_of(const struct request *q, enum guide_kind *kind)
{
    const bool calls = q->n_tools && !q->no_calls, any = q->form.kind == FORM_ANY;
    *kind = q->form.kind == FORM_CALLS ? GUIDE_CALLS : !any ? (calls ? GUIDE_EITHER : GUIDE_TEXT) : q->form.one_call ? GUIDE_TALK_ONCE : GUIDE_TALK;
    return !any || (calls && !q->free_calls);
}

/* True if the request fails where it cannot be guided so; otherwise the calls are left to the model. */
static bool must_be(const struct request *q, enum guide_kind kind)
{
    return (kind != GUIDE_TALK && kind != GUIDE_TALK_ONCE) || q->strict_tools;
}

static void add_texts(struct buf *out, const char *key, const struct text *list, int n)
{
    buf_addf(out, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        buf_adds(out, i ? ", " : "");
        pyjson_quote(list[i], out);
    }
    buf_addc(out, ']');
}

/* Appends all that the guide depends on, as JSON (docs/serve-reference.md, "Between two q35chats"). */
static void add_wish(struct buf *out, const struct request *q)
{
    static const char *const kinds[] = {
#define FORM_KIND(kind, name) [kind] = name,
#include "config/form_kinds.def"
    };
    const struct form *f = &q->form;
    buf_addf(out, "{\"kind\": \"%s\", \"loose\": %s, \"one_call\": %s, \"text\": ", kinds[f->kind], f->loose ? "true" : "false",
             f->one_call ? "true" : "false");
    pyjson_quote(f->text.p ? f->text : text_of(""), out);
    add_texts(out, "choices", f->choices, f->n_choices);
    add_texts(out, "allowed", q->allowed, q->n_allowed);
    buf_adds(out, ", \"tools\": [");
    for (int i = 0; i < (q->no_calls ? 0 : q->n_tools); i++) {
        buf_adds(out, i ? ", " : "");
        buf_add(out, q->tools[i].p, q->tools[i].n);
    }
    buf_adds(out, "]}");
}

/* ---- compiled here */

/* Compiles form and calls.  Appends a line for each tool whose arguments are not guided. */
static struct grammar *grammar_of_request(const struct request *q, enum guide_kind kind, struct buf *notes, struct err *e)
{
    struct buf tools = {0};
    buf_addc(&tools, '[');
    for (int i = 0; i < q->n_tools; i++) {
        buf_adds(&tools, i ? ", " : "");
        buf_add(&tools, q->tools[i].p, q->tools[i].n);
    }
    buf_addc(&tools, ']');
    struct grammar_calls calls = {.tools = {tools.data, tools.len}, .fields = q->tool_fields, .allowed = q->allowed, .n_allowed = q->n_allowed,
                                  .notes = notes, .strict = q->strict_tools,
                                  .several = kind != GUIDE_TALK && kind != GUIDE_TALK_ONCE && !q->form.one_call};
    if (kind == GUIDE_CALLS && q->form.text.n) {
        calls.allowed = &q->form.text;
        calls.n_allowed = 1;
    }
    const bool form = kind == GUIDE_TEXT || kind == GUIDE_EITHER;
    struct grammar *g = form ? form_grammar(&q->form, e) : grammar_of_calls(&calls, e);
    if (g && kind == GUIDE_EITHER && !grammar_or_calls(g, &calls, e)) {
        grammar_release(g);
        g = NULL;
    }
    buf_free(&tools);
    return g;
}

/* Posts the lines as notes. */
static void tell_notes(const struct local *owner, struct buf *notes)
{
    for (char *line = notes->len ? notes->data : NULL, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        responder_tell(&owner->base, &(struct news){.kind = NEWS_NOTE, .text = text_of(line)});
    }
}

/* ---- compiled lately */

void made_guide_release(struct made_guide *m)
{
    if (!m || --m->references > 0)
        return;
    guide_release(m->guide);
    grammar_release(m->grammar);
    buf_free(&m->key);
    buf_free(&m->notes);
    free(m);
}

/* Returns a guide of those that were made lately, or NULL: the answers of a conversation have the same tools.  Under the lock. */
static struct made_guide *find(const struct local *owner, const struct buf *key, enum guide_kind kind)
{
    for (int i = 0; i < LOCAL_GUIDES; i++) {
        struct made_guide *m = owner->made[i];
        if (m && m->kind == kind && m->key.len == key->len && !memcmp(m->key.data, key->data, key->len)) {
            m->references++;
            return m;
        }
    }
    return NULL;
}

/* Keeps a guide in place of the oldest one, and returns it; or the same that another thread has made meanwhile. */
static struct made_guide *keep(struct local *owner, struct made_guide *m)
{
    pthread_mutex_lock(&owner->made_lock);
    struct made_guide *other = find(owner, &m->key, m->kind), *old = m;
    if (!other) {
        struct made_guide **at = &owner->made[owner->next_made++ % LOCAL_GUIDES];
        old = *at;
        *at = m;
        m->references++;
    }
    pthread_mutex_unlock(&owner->made_lock);
    made_guide_release(old);
    return other ? other : m;
}

/* Makes the request's guide, or takes one that was made lately.  Any thread.  NULL with the reason. */
static struct made_guide *guide_of_request(struct local *owner, const struct request *q, enum guide_kind kind, struct err *e)
{
    struct buf key = {0}, notes = {0};
    add_wish(&key, q);
    pthread_mutex_lock(&owner->made_lock);
    struct made_guide *m = find(owner, &key, kind);
    pthread_mutex_unlock(&owner->made_lock);
    struct grammar *g = m ? NULL : grammar_of_request(q, kind, &notes, e);
    if (!g) {
        buf_free(&key);
        buf_free(&notes);
        return m;
    }
    m = memory_zeroed(1, sizeof *m);
    *m = (struct made_guide){.references = 1, .key = key, .notes = notes, .kind = kind, .grammar = g};
    return keep(owner, m);
}

/* Returns the guide for the engine, and reports its notes once. */
static struct guide *usable(struct local *owner, struct made_guide *m)
{
    if (!owner->vocabulary)
        owner->vocabulary = guide_vocabulary_of(owner->tok);
    if (!m->guide) {
        m->guide = guide_new(m->grammar, owner->vocabulary, m->kind);
        tell_notes(owner, &m->notes);
    }
    return guide_retain(m->guide);
}

/* ---- a request */

static struct local *owner_of(struct local *l) { return l->host ? l->host : l; }        /* of the tokenizer */

bool local_compile(struct responder *r, const struct request *q, struct made_guide **to, struct err *e)
{
    enum guide_kind kind;
    struct local *l = (struct local *)r;
    struct err why = {{0}};
    *to = NULL;
    if (!kind_of(q, &kind) || !l->source->ops->guides)
        return true;
    *to = guide_of_request(owner_of(l), q, kind, &why);
    return *to || !must_be(q, kind) || err_set(e, "%s", why.msg);
}

bool local_take_form(struct local *l, const struct request *q, struct err *e)
{
    enum guide_kind kind;
    struct local *owner = owner_of(l);
    const bool guided = kind_of(q, &kind), near = l->source->ops->guides;
    struct err why = {{0}};
    guide_release(l->sampling.guide);
    l->sampling.guide = NULL;
    l->sampling.guide_rests = q->thinking;
    buf_reset(&l->source->wish);
    if (guided && !near)
        add_wish(&l->source->wish, q);
    if (!guided || !near)
        return true;
    struct made_guide *m = q->guide ? NULL : guide_of_request(owner, q, kind, &why);
    if (q->guide || m) {
        l->sampling.guide = usable(owner, q->guide ? q->guide : m);
        made_guide_release(m);
        return true;
    }
    if (must_be(q, kind))
        return err_set(e, "%s", why.msg);
    responder_tell(&owner->base, &(struct news){.kind = NEWS_NOTE, .text = text_of(why.msg)});
    return true;
}

void local_free_guide(struct local *l)
{
    guide_release(l->sampling.guide);
    for (int i = 0; i < LOCAL_GUIDES; i++)
        made_guide_release(l->made[i]);
    guide_vocabulary_release(l->vocabulary);
}
