#include "serve/relay.h"

#include <stdlib.h>
#include <string.h>

#include "config/limits.h"
#include "text/pyjson.h"

/* ---- what is asked ---- */

static bool read_conversation(const struct pyjson *top, uint64_t *to, struct arena *mem, struct err *e)
{
    const struct pyjson *v = pyjson_get(top, "conversation");
    if (!v || v->kind != PY_INT || v->text.n > 20)
        return err_set(e, "conversation is not a whole number");
    *to = strtoull(arena_strndup(mem, v->text.p, v->text.n), NULL, 10);
    return true;
}

/* The prompt's tokens, and to which conversation they belong. */
static bool read_ids(struct question *q, const struct pyjson *top, struct err *e)
{
    if (!question_ids(pyjson_get(top, "prompt"), &q->ids) || !q->ids.n)
        return err_set(e, "prompt is not a list of tokens");
    return read_conversation(top, &q->request.conversation, &q->mem, e)
           && question_whole(top, "snapshot_pos", 0, q->ids.n, &q->request.snapshot_pos, e);
}

static bool read_text(const struct pyjson *top, const char *key, const char *what, struct text *to, struct err *e)
{
    const struct pyjson *v = pyjson_get(top, key);
    *to = v && v->kind == PY_STR ? v->text : text_of("");
    return to->n || err_set(e, "%s is missing: %s", key, what);
}

static bool read_name(const struct pyjson *top, struct text *name, struct err *e)
{
    return read_text(top, "id", "the name of an answer, or of the q35chat that asks", name, e);
}

/* Nothing of how it samples is filled in here. */
static bool has_sampling(const struct pyjson *top, struct err *e)
{
    static const char *const keys[] = {
#define SAMPLING_NUMBER(name, ...) #name,
#include "config/sampling_numbers.def"
        "top_k", "seed", "max_tokens", "draft_depth", "lookup", "likely", "logit_bias",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!pyjson_get(top, keys[i]))
            return err_set(e, "%s is missing: a q35chat sends all of its sampling", keys[i]);
    return true;
}

bool relay_read(struct question *q, struct text body, const struct options *o, struct err *e)
{
    struct pyjson top;
    if (!question_read_top(q, body, &top, o, e) || !has_sampling(&top, e))
        return false;
    struct sampling *s = &q->given;
    q->relayed = q->streams = true;
    q->n_stops = 0;                     /* stop strings are the client's */
    return read_name(&top, &q->name, e) && read_ids(q, &top, e) && question_whole(&top, "answer_prefix", 0, q->ids.n - 1, &q->n_answer_prefix, e) &&
           question_whole(&top, "draft_depth", -1, LIMIT_DRAFTS, &s->draft_depth, e) && question_flag(&top, "lookup", &s->lookup, e) &&
           question_whole(&top, "likely", 0, LIMIT_ALTERNATIVES, &s->n_alternatives, e);
}

bool relay_read_ahead(struct question *q, struct text body, struct err *e)
{
    struct pyjson top;
    *q = (struct question){0};
    return question_object(&top, body, &q->mem, e) && read_ids(q, &top, e);
}

bool relay_read_name(struct text body, struct text *name, struct arena *mem, struct err *e)
{
    struct pyjson top;
    return question_object(&top, body, mem, e) && read_name(&top, name, e);
}

static int64_t protocol_of(const struct pyjson *top)
{
    const struct pyjson *v = pyjson_get(top, "protocol");
    return v && v->kind == PY_INT && v->text.n < 10 ? strtoll(v->text.p, NULL, 10) : 0;
}

bool relay_read_attach(struct text body, struct text *name, struct arena *mem, struct err *e)
{
    struct pyjson top;
    if (!question_object(&top, body, mem, e))
        return false;
    if (protocol_of(&top) != RELAY_PROTOCOL)
        return err_set(e, "the q35chat that asks is of another version: between programs it speaks protocol %d, and the one that has loaded the "
                          "model %d",
                       (int)protocol_of(&top), RELAY_PROTOCOL);
    return read_name(&top, name, e);
}

static bool read_path(const struct pyjson *top, struct text *to, struct err *e)
{
    const struct pyjson *v = pyjson_get(top, "path");
    *to = v && v->kind == PY_STR ? v->text : text_of("");
    return (v && v->kind == PY_STR) || err_set(e, "path is missing: the file of a checkpoint");
}

bool relay_read_file(struct text body, struct relay_file *f, struct arena *mem, struct err *e)
{
    struct pyjson top;
    return question_object(&top, body, mem, e) && read_name(&top, &f->name, e) && read_conversation(&top, &f->conversation, mem, e) &&
           read_path(&top, &f->path, e);
}

/* ---- what is told ---- */

static void tell_token(struct choice *r, const struct news *it)
{
    struct buf *out = &r->out;
    buf_addf(out, "{\"token\": [%d,%d,%.9g]", it->token.id, it->token.source, (double)it->token.prob);
    if (it->alternatives && it->alternatives->n) {
        buf_adds(out, ", \"likely\": [");
        for (int i = 0; i < it->alternatives->n; i++)
            buf_addf(out, "%s[%d,%.9g]", i ? "," : "", it->alternatives->ids[i], (double)it->alternatives->probs[i]);
        buf_addc(out, ']');
    }
    if (it->stats && it->stats->n_tokens != r->n_counted) {     /* once a step */
        r->n_counted = it->stats->n_tokens;
        buf_adds(out, ", \"stats\": ");
        stats_write(it->stats, out);
    }
    buf_adds(out, "}\n");
}

void relay_news(struct choice *r, const struct news *it)
{
    if (it->kind == NEWS_READING && !r->n_counted)
        buf_addf(&r->out, "{\"reading\": [%zu,%zu,%zu]}\n", it->done, it->total, it->cached);
    else if (it->kind == NEWS_TOKEN && !it->replayed)
        tell_token(r, it);
}

void relay_done(struct choice *r, const struct news *it)
{
    buf_addf(&r->out, "{\"done\": \"%s\", \"why\": ", end_word(it->end));
    pyjson_quote(it->text.p ? it->text : text_of(""), &r->out);
    if (it->stats) {
        buf_adds(&r->out, ", \"stats\": ");
        stats_write(it->stats, &r->out);
    }
    buf_adds(&r->out, "}\n");
}

static void add_text(struct buf *out, const char *key, const char *value)
{
    buf_addf(out, "\"%s\": ", key);
    pyjson_quote(text_of(value), out);
    buf_adds(out, ", ");
}

void relay_protocol(struct buf *out)
{
    buf_addf(out, "{\"protocol\": %d}\n", RELAY_PROTOCOL);
}

void relay_ready(const struct responder_info *info, struct buf *out)
{
    const struct chat_info *c = &info->chat;
    buf_adds(out, "{\"ready\": {");
    add_text(out, "model", c->model);
    add_text(out, "backend", c->backend);
    add_text(out, "formats", c->formats);
    add_text(out, "kv", c->kv);
    add_text(out, "memory", c->memory);
    add_text(out, "weights_in", c->weights_in);
    add_text(out, "reads", c->reads);
    buf_addf(out, "\"slow\": %s, ", c->slow ? "true" : "false");
    buf_addf(out, "\"n_ctx\": %d, \"draft_depth\": %d, \"n_threads\": %d, \"load_ms\": %.3f, \"kv_token_bytes\": %zu, \"temperature\": %.9g, "
                  "\"top_p\": %.9g, "
             "\"top_k\": %d", c->n_ctx, c->draft_depth, c->n_threads, c->load_ms, c->kv_token_bytes, (double)info->temperature, (double)info->top_p,
             info->top_k);
    buf_adds(out, ", \"ends\": [");
    for (int i = 0; i < info->n_ends; i++)
        buf_addf(out, i ? ",%d" : "%d", info->ends[i]);
    buf_adds(out, "]}}\n");
}

void relay_machine(const struct chat_machine *m, struct buf *out)
{
    buf_adds(out, "{\"machine\": {");
    if (m->throttled)
        add_text(out, "throttled", m->throttled);
    buf_addf(out, "\"memory_used\": %.0f, \"memory_total\": %.0f, \"celsius\": %d, \"watts\": %.9g, \"joules\": %.12g, \"snapshots\": %d, "
                  "\"snapshots_max\": %d, "
             "\"resident\": %d, \"resident_max\": %d}}\n", m->memory_used, m->memory_total, m->celsius, m->watts, m->joules, m->snapshots,
             m->snapshots_max, m->resident, m->resident_max);
}

/* The conversation's number as a text: readers of JSON take none above 2^63. */
void relay_filed(const struct news *it, struct buf *out)
{
    buf_addf(out, "{\"%s\": {\"conversation\": \"%llu\", \"done\": %zu, \"total\": %zu, \"why\": ", it->kind == NEWS_SAVED ? "saved" : "restored",
             (unsigned long long)it->conversation, it->done, it->total);
    pyjson_quote(it->text.p ? it->text : text_of(""), out);
    buf_adds(out, "}}\n");
}
