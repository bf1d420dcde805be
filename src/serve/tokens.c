#include "serve/tokens.h"

#include <string.h>

#include "image/image.h"
#include "serve/question.h"
#include "text/pyjson.h"

enum { MOST_IDS = 1 << 19 };            /* ids of any vocabulary */

size_t tokens_longest(const struct responder *r)
{
    size_t longest = 1;
    for (int32_t id = 0; id < MOST_IDS; id++) {
        const size_t n = r->ops->piece(r, id).n;
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* Returns the place after the closing quote of the string that begins at `at`; `end` if it has none. */
static const char *string_end(const char *at, const char *end)
{
    for (const char *quote = at + 1; (quote = memchr(quote, '"', (size_t)(end - quote))); quote++) {
        const char *slash = quote;
        while (slash[-1] == '\\')
            slash--;
        if ((quote - slash) % 2 == 0)
            return quote + 1;
    }
    return end;
}

bool tokens_too_many(struct text body, size_t most)
{
    const char *at = body.p, *end = at + body.n;
    size_t n = 1;
    while (at < end && n <= most) {
        const char c = *at;
        n += c == ',' || c == '[' || c == '{';
        at = c == '"' ? string_end(at, end) : at + 1;
    }
    return n > most;
}

/* Replaces each picture's pad by as many pads as the picture has tokens. */
static void spread_pads(struct responder *r, const struct request *q, struct ids *ids)
{
    const struct image_limits limits = {r->least_pixels, r->most_pixels};
    struct ids pad = {0}, out = {0};
    int h, w, at = 0;
    r->ops->encode(r, text_of("<|image_pad|>"), true, &pad);
    for (int i = 0; i < q->n_messages; i++)
        for (int k = 0; k < q->messages[i].n_media && q->messages[i].pictures; k++) {
            const struct media *m = &q->messages[i].pictures[k];
            const int n = image_target(m->h, m->w, &limits, &h, &w, NULL) ? h / IMAGE_FACTOR * (w / IMAGE_FACTOR) : 1;
            while (at < ids->n && ids->data[at] != pad.data[0])
                ids_add(&out, ids->data[at++]);
            for (int j = 0; j < n && at < ids->n; j++)
                ids_add(&out, pad.data[0]);
            at++;
        }
    for (; at < ids->n; at++)
        ids_add(&out, ids->data[at]);
    ids_free(&pad);
    ids_free(ids);
    *ids = out;
}

/* Reads the text or the conversation to make tokens of. */
static bool read_ids(struct responder *r, struct text body, const struct pyjson *top, const struct options *o, struct look *l, struct ids *ids,
                     struct err *e)
{
    const struct pyjson *content = pyjson_get(top, "content"), *text = content ? content : pyjson_get(top, "prompt");        /* llama.cpp; vLLM */
    if (text && text->kind == PY_STR) {
        const struct pyjson *parse_special = pyjson_get(top, "parse_special");      /* only llama.cpp's clients switch control tokens off */
        const size_t n_ctx = (size_t)r->ops->info(r)->n_ctx, n = text->text.n;
        if (n > n_ctx && n > n_ctx * tokens_longest(r))
            return err_set(e, "the text has %zu bytes, more than the context can hold in its %zu tokens", n, n_ctx);
        r->ops->encode(r, text->text, !parse_special || pyjson_truth(parse_special), ids);
        return true;
    }
    if (!pyjson_get(top, "messages"))
        return err_set(e, "prompt, content or messages is missing");
    struct question q;
    bool ok = question_read(&q, body, o, e) && seen_look(q.request.messages, q.request.n_messages, l, e) &&
              r->ops->prompt(r, &q.request, ids, NULL, e);
    if (ok && r->can.pictures)
        spread_pads(r, &q.request, ids);
    question_free(&q);
    return ok;
}

bool tokens_of_text(struct responder *r, struct text body, const struct options *o, struct look *l, struct buf *out, struct err *e)
{
    struct arena mem = {0};
    struct pyjson top;
    struct ids ids = {0};
    bool ok = question_object(&top, body, &mem, e) && read_ids(r, body, &top, o, l, &ids, e);
    if (ok) {
        buf_addf(out, "{\"count\": %d, \"max_model_len\": %d, \"tokens\": [", ids.n, r->ops->info(r)->n_ctx);
        for (int i = 0; i < ids.n; i++)
            buf_addf(out, i ? ", %d" : "%d", ids.data[i]);
        buf_adds(out, "]}");
    }
    ids_free(&ids);
    arena_free(&mem);
    return ok;
}

bool text_of_tokens(struct responder *r, struct text body, const struct options *o, struct look *l, struct buf *out, struct err *e)
{
    const int n_ctx = r->ops->info(r)->n_ctx;
    (void)o, (void)l;
    struct arena mem = {0};
    struct pyjson top;
    struct ids ids = {0};
    struct buf text = {0};
    bool ok = question_object(&top, body, &mem, e)
           && (question_ids(pyjson_get(&top, "tokens"), &ids) || err_set(e, "tokens is not a list of tokens"))
           && (ids.n <= n_ctx || err_set(e, "tokens has %d tokens, the context holds %d", ids.n, n_ctx));
    for (int i = 0; ok && i < ids.n; i++) {
        struct text piece = r->ops->piece(r, ids.data[i]);
        buf_add(&text, piece.p, piece.n);
    }
    if (ok) {
        const struct text whole = {buf_str(&text), text.len};
        buf_adds(out, "{\"prompt\": ");
        pyjson_quote(whole, out);
        buf_adds(out, ", \"content\": ");
        pyjson_quote(whole, out);
        buf_adds(out, "}");
    }
    buf_free(&text);
    ids_free(&ids);
    arena_free(&mem);
    return ok;
}
