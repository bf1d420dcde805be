#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "text/pretok.h"
#include "text/vocab.h"

struct tokenizer {
    struct vocab v;
};

struct tokenizer *tokenizer_open(const char *dir, struct err *e)
{
    struct tokenizer *t = memory_zeroed(1, sizeof *t);
    if (!vocab_read(&t->v, dir, e)) {
        tokenizer_close(t);
        return NULL;
    }
    return t;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    vocab_free(&t->v);
    free(t);
}

/* ---- encode ---- */

/* A direct-mapped cache of the words of this call, since most words of a text recur.  The ids of a word are read from the output.
 * Longer words are not cached. */
#define CELL_BYTES 24
struct cell {
    union { char bytes[CELL_BYTES]; uint64_t parts[3]; } word;  /* padded with zeros */
    int32_t at;                         /* out->data[at .. at+n) */
    uint8_t len, n;                     /* len 0: free */
};

struct symbol { int32_t id; uint32_t prev, next; };

/* State of one call of tokenizer_encode. */
struct encoder {
    const struct vocab *v;
    struct ids    *out;
    struct buf     nfc;
    struct cell   *cells;
    size_t         cell_mask;
    struct symbol *symbols;
    uint64_t      *heap;                /* rank << 32 | position of the left symbol: lowest rank first, then leftmost */
    size_t         n_heap, cap;
};

static void heap_push(struct encoder *x, uint64_t key)
{
    size_t i = x->n_heap++;
    for (; i && x->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        x->heap[i] = x->heap[(i - 1) / 2];
    x->heap[i] = key;
}

/* Removes the smallest key from the heap and returns it. */
static uint64_t heap_pop(struct encoder *x)
{
    uint64_t top = x->heap[0], key = x->heap[--x->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < x->n_heap; i = child) {
        if (child + 1 < x->n_heap && x->heap[child + 1] < x->heap[child])
            child++;
        if (x->heap[child] >= key)
            break;
        x->heap[i] = x->heap[child];
    }
    x->heap[i] = key;
    return top;
}

static void offer_pair(struct encoder *x, uint32_t left, uint32_t right)
{
    uint32_t rank = vocab_rank(x->v, x->symbols[left].id, x->symbols[right].id);
    if (rank != VOCAB_NO_RULE)
        heap_push(x, (uint64_t)rank << 32 | left);
}

/* Merges neighbours by the rule of lowest rank, leftmost first, until no rule applies.  O(n log n). */
static void merge_word(struct encoder *x, const char *s, uint32_t n)
{
    if (n > x->cap) {
        x->cap = 2 * (size_t)n;
        x->symbols = memory_resized(x->symbols, x->cap * sizeof *x->symbols);
        x->heap = memory_resized(x->heap, 3 * x->cap * sizeof *x->heap);      /* n-1 pairs, then two more for each merge */
    }
    struct symbol *y = x->symbols;
    for (uint32_t i = 0; i < n; i++)
        y[i] = (struct symbol){ x->v->byte_id[(unsigned char)s[i]], i - 1, i + 1 };
    for (uint32_t i = 0; i + 1 < n; i++)
        offer_pair(x, i, i + 1);
    while (x->n_heap) {
        uint64_t key = heap_pop(x);
        const struct merge *m = &x->v->merges[key >> 32];
        uint32_t left = (uint32_t)key, right = y[left].next;
        if (y[left].id != m->left || right >= n || y[right].id != m->right)
            continue;                   /* one of the two was merged with another since */
        y[left].id = m->result;
        y[left].next = y[right].next;
        y[right].id = -1;
        if (left)
            offer_pair(x, y[left].prev, left);
        if (y[left].next < n) {
            y[y[left].next].prev = left;
            offer_pair(x, left, y[left].next);
        }
    }
    for (uint32_t i = 0; i < n; i = y[i].next)
        ids_add(x->out, y[i].id);
}

/* Appends the ids of a word, from the cache of short words if it has them. */
static void encode_word(struct encoder *x, const char *s, size_t n)
{
    if (n > CELL_BYTES) {
        CHECK(n < UINT32_MAX);
        merge_word(x, s, (uint32_t)n);
        return;
    }
    struct cell w = { .len = (uint8_t)n };
    memcpy(w.word.bytes, s, n);
    uint64_t h = ((w.word.parts[0] * 0x9E3779B97F4A7C15u ^ w.word.parts[1]) * 0x9E3779B97F4A7C15u ^ w.word.parts[2]) *
                 0x9E3779B97F4A7C15u;
    struct cell *c = &x->cells[(h >> 32 ^ h >> 48) & x->cell_mask];
    if (c->len == n && !memcmp(&c->word, &w.word, sizeof w.word)) {
        for (int i = 0; i < c->n; i++)
            ids_add(x->out, x->out->data[c->at + i]);
        return;
    }
    w.at = x->out->n;
    merge_word(x, s, (uint32_t)n);
    w.n = (uint8_t)(x->out->n - w.at);
    *c = w;
}

/* Encodes text without added tokens. */
static void encode_plain(struct encoder *x, const char *s, size_t n)
{
    if (!unicode_nfc_quick(s, n)) {
        buf_reset(&x->nfc);
        unicode_nfc(&x->nfc, s, n);
        s = x->nfc.data;
        n = x->nfc.len;
    }
    while (n) {
        size_t k = pretok_next(s, n);
        encode_word(x, s, k);
        s += k;
        n -= k;
    }
}

/* Returns the id of the longest added token that s[0..n) begins with, or -1. */
static int32_t added_at(const struct vocab *v, const char *s, size_t n)
{
    for (int i = 0; i < v->n_in_text; i++) {
        const struct token *t = &v->tokens[v->added[i]];
        if (t->len <= n && !memcmp(v->bytes.data + t->at, s, t->len))
            return v->added[i];
    }
    return -1;
}

void tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, bool specials, struct ids *out)
{
    struct encoder x = { .v = &t->v, .out = out };
    size_t n_cells = 64;
    while (n_cells < 16384 && n_cells * 16 < len)
        n_cells *= 2;
    x.cells = memory_zeroed(n_cells, sizeof *x.cells);
    x.cell_mask = n_cells - 1;
    size_t from = 0;
    for (size_t i = 0; specials && i < len;) {
        int32_t id = t->v.added_lead[(unsigned char)text[i]] ? added_at(&t->v, text + i, len - i) : -1;
        if (id < 0) {
            i++;
            continue;
        }
        encode_plain(&x, text + from, i - from);
        ids_add(out, id);
        i += t->v.tokens[id].len;
        from = i;
    }
    encode_plain(&x, text + from, len - from);
    free(x.cells);
    free(x.symbols);
    free(x.heap);
    buf_free(&x.nfc);
}

/* ---- ids ---- */

static const struct token *token(const struct tokenizer *t, int32_t id)
{
    static const struct token nothing;
    return id >= 0 && id < t->v.n_ids ? &t->v.tokens[id] : &nothing;
}

int32_t tokenizer_special(const struct tokenizer *t, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < t->v.n_added; i++) {
        const struct token *k = token(t, t->v.added[i]);
        if (k->len == n && !memcmp(t->v.bytes.data + k->at, name, n))
            return t->v.added[i];
    }
    return -1;
}

int tokenizer_n_ids(const struct tokenizer *t)
{
    return t->v.n_ids;
}

const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *len)
{
    const struct token *k = token(t, id);
    *len = k->len;
    return k->len ? t->v.bytes.data + k->at : NULL;
}

bool tokenizer_is_added(const struct tokenizer *t, int32_t id)
{
    return token(t, id)->added;
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return token(t, id)->special;
}

const char *tokenizer_notice(const struct tokenizer *t)
{
    return t->v.notice;
}

/* ---- decode ---- */

void detok_push(struct detok *d, const struct tokenizer *t, int32_t id, bool skip_special, struct buf *out)
{
    size_t n, complete;
    const char *bytes = tokenizer_bytes(t, id, &n);
    if (!bytes || (skip_special && tokenizer_is_special(t, id)))
        return;
    struct buf raw = {0};
    buf_add(&raw, d->held, (size_t)d->n_held);
    buf_add(&raw, bytes, n);
    complete = unicode_complete(raw.data, raw.len);
    unicode_replace(out, raw.data, complete);
    d->n_held = (int)(raw.len - complete);
    memcpy(d->held, raw.data + complete, raw.len - complete);
    buf_free(&raw);
}

void detok_flush(struct detok *d, struct buf *out)
{
    unicode_replace(out, (const char *)d->held, (size_t)d->n_held);
    d->n_held = 0;
}
