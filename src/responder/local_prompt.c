#include "responder/local_prompt.h"

#include <string.h>

#include "base/unicode.h"
#include "text/template.h"

/* Finds the part of `all` after the held text.  False if `all` begins with another text, or a control token would be cut. */
static bool rest_after(const struct segments *all, const struct buf *held, struct segments *rest, struct arena *a)
{
    size_t done = 0;
    int i = 0;
    for (; i < all->n && done < held->len; i++) {
        const struct segment *s = &all->items[i];
        size_t left = held->len - done, n = s->text.n < left ? s->text.n : left;
        if (memcmp(s->text.p, held->data + done, n) || (n < s->text.n && (s->control || s->ids)))
            return false;
        done += n;
        if (n == s->text.n)
            continue;
        rest->items = arena_array(a, (size_t)(all->n - i), sizeof *rest->items);
        rest->n = all->n - i;
        memcpy(rest->items, s, (size_t)rest->n * sizeof *s);
        rest->items[0].text = (struct text){s->text.p + n, s->text.n - n};
        return true;
    }
    rest->items = all->items + i;
    rest->n = all->n - i;
    return done == held->len;
}

bool prompt_make(struct prompt *p, const struct conversation *c, const struct made *made, const struct tokenizer *tok, struct err *e)
{
    struct arena tmp = {0};
    struct segments all = {0}, rest = {0};
    bool ok = template_render(c, &all, &tmp, e);
    p->ids.n = 0;
    p->spliced = 0;
    if (ok && p->held.n && rest_after(&all, &p->held_text, &rest, &tmp)) {
        ids_append(&p->ids, p->held.data, p->held.n);           /* snapshot_pos stays: it lies in the first request */
        p->spliced = p->held.n;
        ok = segments_encode(&rest, tok, &p->ids, NULL, e);
    } else if (ok && made) {
        ids_append(&p->ids, made->ids->data, made->ids->n);
        p->snapshot_pos = made->snapshot_pos;
    } else if (ok) {
        ok = segments_encode(&all, tok, &p->ids, &p->snapshot_pos, e);
    }
    if (ok) {
        buf_reset(&p->held_text);
        segments_text(&all, &p->held_text);
    }
    arena_free(&tmp);
    return ok;
}

/* Encodes the prompt as if its last message were `last`. */
static bool encode_with(const struct conversation *given, const char *last, const struct tokenizer *tok, struct ids *ids)
{
    struct arena tmp = {0};
    struct segments all = {0};
    struct conversation c = *given;
    c.messages = arena_array(&tmp, (size_t)c.n_messages, sizeof *c.messages);
    memcpy(c.messages, given->messages, (size_t)c.n_messages * sizeof *c.messages);
    c.messages[c.n_messages - 1].content = text_of(last);
    bool ok = template_render(&c, &all, &tmp, NULL) && segments_encode(&all, tok, ids, NULL, NULL);
    arena_free(&tmp);
    return ok;
}

/* Makes the ids that two prompts have in common, one for each of these last messages. */
static bool encode_common(const struct conversation *c, const char *one, const char *two, const struct tokenizer *tok, struct ids *out)
{
    struct ids other = {0};
    out->n = 0;
    bool ok = encode_with(c, one, tok, out) && encode_with(c, two, tok, &other);
    int n = 0;
    while (ok && n < out->n && n < other.n && out->data[n] == other.data[n])
        n++;
    out->n = n;
    ids_free(&other);
    return n > 0;
}

bool prompt_beginning(const struct conversation *c, const struct tokenizer *tok, struct ids *out)
{
    return encode_common(c, "x", ". 1", tok, out);      /* two messages that begin differently */
}

/* Returns the last position of `id`, -1 if it is not there. */
static int last_of(const struct ids *ids, int32_t id)
{
    int i = ids->n - 1;
    while (i >= 0 && ids->data[i] != id)
        i--;
    return i;
}

/* Only the message is encoded: it begins with a control token, and no other token spans that one. */
bool prompt_typed(const struct ids *head, const struct message *typed, const struct tokenizer *tok, struct ids *out)
{
    struct message user = *typed;
    const struct conversation c = {.messages = &user, .n_messages = 1};
    struct ids message = {0};
    struct buf one = {0}, other = {0};
    buf_addf(&one, "%s x", typed->content.p);
    buf_addf(&other, "%s\n.", typed->content.p);
    bool ok = encode_common(&c, one.data, other.data, tok, &message);
    int32_t start = tokenizer_special(tok, "<|im_start|>");
    int before = last_of(head, start), from = last_of(&message, start);
    out->n = 0;
    ok = ok && before >= 0 && from >= 0;
    if (ok) {
        ids_append(out, head->data, before);
        ids_append(out, message.data + from, message.n - from);
    }
    ids_free(&message);
    buf_free(&one);
    buf_free(&other);
    return ok && out->n > head->n && !memcmp(out->data, head->data, (size_t)head->n * sizeof *head->data);
}

void prompt_answered(struct prompt *p, const struct ids *sampled, const struct tokenizer *tok)
{
    p->held.n = 0;
    ids_append(&p->held, p->ids.data, p->ids.n);
    ids_append(&p->held, sampled->data, sampled->n);
    for (int i = 0; i < sampled->n; i++) {
        size_t n;
        const char *bytes = tokenizer_bytes(tok, sampled->data[i], &n);
        if (bytes)
            buf_add(&p->held_text, bytes, n);
    }
}

void prompt_forget(struct prompt *p)
{
    p->held.n = 0;
    buf_reset(&p->held_text);
}

void prompt_free(struct prompt *p)
{
    ids_free(&p->ids);
    ids_free(&p->held);
    buf_free(&p->held_text);
}

/* --- why tokens were computed again ------------------------------------------------------------------------------- */

enum { N_SHOWN = 8 };                   /* tokens of the prompt on each side: a few words */

/* Appends the text of tokens from..to-1 in quotes, as one line. */
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

void refill_describe(const struct refill *r, const struct ids *ids, const struct tokenizer *tok, struct buf *out)
{
    if (!r->resident) {
        if (r->pos)
            buf_addf(out, "only the first %d tokens of the conversation were cached, in memory or in a checkpoint", r->pos);
        else
            buf_adds(out, "no part of the conversation was cached, in memory or in a checkpoint");
        return;
    }
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
