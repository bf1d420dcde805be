#include "responder/local_refill.h"

#include "base/unicode.h"

enum { N_SHOWN = 8 };                   /* tokens of the prompt on each side: a few words */

/* The text of tokens from..to-1 in a line, in quotes. */
static void add_words(const struct ids *ids, int from, int to, const struct tokenizer *tok, struct buf *out)
{
    struct buf raw = {0}, valid = {0};
    for (int i = from < 0 ? 0 : from; i < to && i < ids->n; i++) {
        size_t n = 0;
        const char *bytes = tokenizer_bytes(tok, ids->data[i], &n);
        if (bytes)
            buf_add(&raw, bytes, n);
    }
    unicode_replace(&valid, buf_str(&raw), raw.len);
    const size_t n = valid.len ? unicode_plain(valid.data, valid.len, ' ') : 0;
    buf_addc(out, '"');
    buf_add(out, buf_str(&valid), n);
    buf_addc(out, '"');
    buf_free(&raw);
    buf_free(&valid);
}

static void say_parting(const struct refill *r, const struct ids *ids, const struct tokenizer *tok, struct buf *out)
{
    if (r->common < ids->n) {
        buf_addf(out, "the prompt differs from the cached one from token %d on: ", r->common);
        if (r->common) {
            buf_adds(out, "after ");
            add_words(ids, r->common - N_SHOWN, r->common, tok, out);
            buf_adds(out, ", ");
        }
        buf_adds(out, "it has ");
        add_words(ids, r->common, r->common + N_SHOWN, tok, out);
    } else {
        buf_addf(out, "the prompt ends in the middle of the cached one, at token %d", ids->n);
    }
    if (r->pos)
        buf_addf(out, "; the nearest snapshot is at %d, %s", r->pos, r->from_file ? "from the checkpoint on the disk" : "in memory");
    else
        buf_adds(out, "; no snapshot is before that");
}

void refill_say(const struct refill *r, const struct ids *ids, const struct tokenizer *tok, struct buf *out)
{
    if (r->resident)
        say_parting(r, ids, tok, out);
    else if (r->pos)
        buf_addf(out, "only the first %d tokens of the conversation were cached, in memory or in a checkpoint", r->pos);
    else
        buf_adds(out, "no part of the conversation was cached, in memory or in a checkpoint");
}
