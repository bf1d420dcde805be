/* The format of /q35chat/answer, for an attached q35chat: the prompt and the answer as token ids, in lines of JSON.  The other program parses the
 * text, finds stop strings, and sends all of its sampling. */
#include "serve/format.h"

#include "config/limits.h"
#include "serve/response.h"
#include "serve/server_state.h"
#include "text/pyjson.h"

/* ---- the request ---- */

/* True if the body has every value of sampling: no default of this program is used. */
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

/* Reads a request of an attached chat: a prompt of ids with all sampling values. */
static bool read_request(struct question *q, struct text body, const struct options *o, struct err *e)
{
    struct pyjson top;
    if (!question_read_top(q, body, &top, o, e) || !has_sampling(&top, e))
        return false;
    struct sampling *s = &q->given;
    q->plain = q->complete = q->streams = q->wants_progress = true;
    q->n_alternatives = -1;
    q->n_stops = 0;                     /* stop strings are the client's */
    return attached_read_name(&top, &q->name, e) && attached_read_prompt(q, &top, e) && attached_read_guide(q, &top, e) &&
           question_whole(&top, "answer_prefix", 0, q->ids.n - 1, &q->n_answer_prefix, e) &&
           question_whole(&top, "draft_depth", -1, LIMIT_DRAFTS, &s->draft_depth, e) && question_flag(&top, "lookup", &s->lookup, e) &&
           question_whole(&top, "likely", 0, LIMIT_ALTERNATIVES, &s->n_alternatives, e);
}

/* ---- the reply ---- */

struct own {
    int n_counted;                      /* number of tokens when figures were sent last */
};

static void progress(struct response *r, const struct news *it)
{
    const struct own *own = r->own;
    if (!own->n_counted)                /* else a paused answer continues */
        buf_addf(&r->out, "{\"reading\": [%zu,%zu,%zu]}\n", it->done, it->total, it->cached);
}

/* Sends a token with its alternatives, and once a step the figures. */
static void token(struct response *r, const struct news *it)
{
    struct own *own = r->own;
    struct buf *out = &r->out;
    buf_addf(out, "{\"token\": [%d,%d,%.9g]", it->token.id, it->token.source, (double)it->token.prob);
    if (it->alternatives && it->alternatives->n) {
        buf_adds(out, ", \"likely\": [");
        for (int i = 0; i < it->alternatives->n; i++)
            buf_addf(out, "%s[%d,%.9g]", i ? "," : "", it->alternatives->ids[i], (double)it->alternatives->probs[i]);
        buf_addc(out, ']');
    }
    if (it->stats && it->stats->n_tokens != own->n_counted) {   /* once a step */
        own->n_counted = it->stats->n_tokens;
        buf_adds(out, ", \"stats\": ");
        stats_write(it->stats, out);
    }
    buf_adds(out, "}\n");
}

static void add_done(struct response *r, const struct news *last)
{
    buf_addf(&r->out, "{\"done\": \"%s\", \"why\": ", end_word(last->end));
    pyjson_quote(last->text.p ? last->text : text_of(""), &r->out);
    buf_adds(&r->out, ", \"stats\": ");
    stats_write(last->stats, &r->out);
    buf_adds(&r->out, "}\n");
}

static void end(struct response *r, enum response_finish finish, const struct news *last)
{
    (void)finish;
    add_done(r, last);
}

static void fail(struct response *r, const struct refusal *f, const struct news *last)
{
    (void)f;
    if (last)
        add_done(r, last);
}

const struct format format_tokens = {
    .attached = true, .id = "", .stream_type = "application/x-ndjson", .own_bytes = sizeof(struct own), .read = read_request, .progress = progress,
    .token = token, .end = end, .fail = fail, .error = openai_error,
};
