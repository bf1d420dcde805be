#include "text/vocab.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/err.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "text/jscan.h"
#include "text/pretok.h"

#define MAX_FILE  ((size_t)64 << 20)
#define MAX_ID    ((1 << 22) - 1)
#define MAX_ADDED 4096

struct span { const char *p; size_t n; };

/* State of one reading. */
struct load {
    struct vocab *v;
    struct err   *e;
    const char   *path;
    struct span   vocab, merges;        /* the two big values inside the text */
    uint32_t     *index;                /* bytes -> id + 1, open addressing; 0: free */
    uint32_t      index_mask;
    int16_t       byte_of[324];         /* code point of the printable stand-in -> byte, or -1 */
};

__attribute__((format(printf, 2, 3)))
static bool bad(struct load *l, const char *fmt, ...)
{
    char what[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return err_set(l->e, "%s: %s", l->path, what);
}

/* GPT-2's byte alphabet: printable Latin-1 stands for itself, the other bytes, in order, are U+0100 and up. */
static void alphabet(int16_t byte_of[324])
{
    int next = 256;
    memset(byte_of, -1, 324 * sizeof *byte_of);
    for (int b = 0; b < 256; b++) {
        bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        byte_of[itself ? b : next++] = (int16_t)b;
    }
}

/* Appends the bytes of stand-ins to `out`. */
static bool to_bytes(const struct load *l, const char *s, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        bool ok;
        i += unicode_decode(s + i, n - i, &cp, &ok);
        if (!ok || cp >= 324 || l->byte_of[cp] < 0)
            return false;
        buf_addc(out, (char)l->byte_of[cp]);
    }
    return true;
}

/* Returns the entry of an id; the table grows up to it. */
static struct token *token_at(struct vocab *v, int64_t id)
{
    if (id >= v->cap_ids) {
        int cap = v->cap_ids ? v->cap_ids : 4096;
        while (cap <= id)
            cap *= 2;
        v->tokens = memory_resized(v->tokens, (size_t)cap * sizeof *v->tokens);
        memset(v->tokens + v->cap_ids, 0, (size_t)(cap - v->cap_ids) * sizeof *v->tokens);
        v->cap_ids = cap;
    }
    if (id >= v->n_ids)
        v->n_ids = (int)id + 1;
    return &v->tokens[id];
}

static const char *bytes_of(const struct vocab *v, const struct token *t)
{
    return v->bytes.data + t->at;
}

/* Returns a hash of n bytes, taken in steps of eight. */
static uint32_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = n;
    while (n) {
        uint64_t x = 0;
        size_t k = n < 8 ? n : 8;
        memcpy(&x, s, k);
        h = (h ^ x) * 0x9E3779B97F4A7C15u;
        h ^= h >> 32;
        s += k;
        n -= k;
    }
    return (uint32_t)h;
}

/* Returns the slot of these bytes, or the free slot for them. */
static uint32_t *index_slot(const struct load *l, const char *s, size_t n)
{
    for (uint32_t i = hash_bytes(s, n) & l->index_mask;; i = (i + 1) & l->index_mask) {
        uint32_t *slot = &l->index[i];
        if (!*slot)
            return slot;
        const struct token *t = &l->v->tokens[*slot - 1];
        if (t->len == n && !memcmp(bytes_of(l->v, t), s, n))
            return slot;
    }
}

static int32_t find(const struct load *l, const char *s, size_t n)
{
    return (int32_t)*index_slot(l, s, n) - 1;
}

/* Returns a power of two, at least twice n. */
static uint32_t table_size(uint32_t n)
{
    uint32_t size = 16;
    while (size < 2 * n)
        size *= 2;
    return size;
}

/* Reads one member of model.vocab: "token": id. */
static bool read_vocab_entry(struct load *l, struct jscan *j)
{
    struct vocab *v = l->v;
    const char *s;
    size_t n, at = v->bytes.len;
    int64_t id;
    if (!jscan_string(j, &s, &n) || !n || !to_bytes(l, s, n, &v->bytes) || !jscan_char(j, ':') || !jscan_int(j, &id))
        return bad(l, "model.vocab is damaged before \"%.*s\": expected byte-level tokens, each with its id",
                   (int)(j->end - j->p < 20 ? j->end - j->p : 20), j->p);
    if (id < 0 || id > MAX_ID)
        return bad(l, "model.vocab has id %lld, expected 0 to %d", (long long)id, MAX_ID);
    struct token *t = token_at(v, id);
    if (t->len)
        return bad(l, "model.vocab gives id %lld twice", (long long)id);
    t->at = (uint32_t)at;
    t->len = (uint32_t)(v->bytes.len - at);
    return true;
}

/* Reads model.vocab: tokens and their ids. */
static bool read_vocab(struct load *l, struct jscan *j)
{
    if (!jscan_char(j, '{'))
        return bad(l, "model.vocab is not an object");
    if (jscan_char(j, '}'))
        return true;
    do {
        if (!read_vocab_entry(l, j))
            return false;
    } while (jscan_char(j, ','));
    return jscan_char(j, '}') || bad(l, "model.vocab is cut short or damaged");
}

/* Builds the index of tokens by their bytes.  False if a token is there twice, or a byte has no token. */
static bool index_vocab(struct load *l)
{
    struct vocab *v = l->v;
    uint32_t size = table_size((uint32_t)v->n_ids);
    l->index = memory_zeroed(size, sizeof *l->index);
    l->index_mask = size - 1;
    for (int id = 0; id < v->n_ids; id++) {
        const struct token *t = &v->tokens[id];
        if (!t->len)
            continue;
        uint32_t *slot = index_slot(l, bytes_of(v, t), t->len);
        if (*slot)
            return bad(l, "model.vocab has the same token as id %u and as id %d", *slot - 1, id);
        *slot = (uint32_t)id + 1;
    }
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        v->byte_id[b] = find(l, &c, 1);
        if (v->byte_id[b] < 0)
            return bad(l, "model.vocab has no token for the byte 0x%02X, expected all 256", (unsigned)b);
    }
    return true;
}

/* Reads "left right" or ["left", "right"]: writes the bytes of both to `both`; *n_left is the length of the left part. */
static bool read_merge(struct load *l, struct jscan *j, struct buf *both, size_t *n_left)
{
    const char *s, *space;
    size_t n;
    buf_reset(both);
    if (jscan_char(j, '[')) {
        if (!jscan_string(j, &s, &n) || !to_bytes(l, s, n, both))
            return false;
        *n_left = both->len;
        return jscan_char(j, ',') && jscan_string(j, &s, &n) && to_bytes(l, s, n, both) && jscan_char(j, ']');
    }
    if (!jscan_string(j, &s, &n) || !(space = memchr(s, ' ', n)) || !to_bytes(l, s, (size_t)(space - s), both))
        return false;
    *n_left = both->len;
    return to_bytes(l, space + 1, (size_t)(s + n - space - 1), both);
}

/* Adds a merge of two tokens, whose texts are in `both`, the left one n_left bytes long. */
static bool add_merge(struct load *l, uint32_t *cap, const struct buf *both, size_t n_left)
{
    struct vocab *v = l->v;
    struct merge m = {
        find(l, both->data, n_left),
        find(l, both->data + n_left, both->len - n_left),
        find(l, both->data, both->len),
    };
    if (m.left < 0 || m.right < 0 || m.result < 0)
        return bad(l, "model.merges entry %u names a token that model.vocab does not have", v->n_merges);
    if (v->n_merges == *cap) {
        *cap = *cap ? 2 * *cap : 4096;
        v->merges = memory_resized(v->merges, *cap * sizeof *v->merges);
    }
    v->merges[v->n_merges++] = m;
    return true;
}

/* Reads model.merges, in order of rank. */
static bool read_merges(struct load *l, struct jscan *j)
{
    struct vocab *v = l->v;
    struct buf both = {0};
    uint32_t cap = 0;
    size_t n_left;
    bool ok = true;
    if (!jscan_char(j, '['))
        return bad(l, "model.merges is not an array");
    if (jscan_char(j, ']'))
        return true;
    do {
        if (!read_merge(l, j, &both, &n_left))
            ok = bad(l, "model.merges is damaged at entry %u: expected \"left right\" or [\"left\", \"right\"]", v->n_merges);
        else
            ok = add_merge(l, &cap, &both, n_left);
    } while (ok && jscan_char(j, ','));
    if (ok && !jscan_char(j, ']'))
        ok = bad(l, "model.merges is cut short or damaged behind entry %u", v->n_merges);
    buf_free(&both);
    return ok;
}

/* Builds the index of merges by their pair of ids.  False if a pair is there twice. */
static bool index_merges(struct load *l)
{
    struct vocab *v = l->v;
    uint32_t size = table_size(v->n_merges);
    v->pairs = memory_alloc(size * sizeof *v->pairs);
    memset(v->pairs, 0xFF, size * sizeof *v->pairs);
    v->pair_mask = size - 1;
    for (uint32_t rank = 0; rank < v->n_merges; rank++) {
        const struct merge *m = &v->merges[rank];
        uint32_t i = vocab_pair_hash(m->left, m->right) & v->pair_mask;
        for (; v->pairs[i].left >= 0; i = (i + 1) & v->pair_mask)
            if (v->pairs[i].left == m->left && v->pairs[i].right == m->right)
                return bad(l, "model.merges entry %u repeats entry %u", rank, v->pairs[i].rank);
        v->pairs[i] = (struct pair){ m->left, m->right, rank };
    }
    return true;
}

/* ---- everything else in the file, through jansson ---- */

static const char *string_at(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "nothing";
}

static bool is(const json_t *o, const char *key, const char *value)
{
    return !strcmp(string_at(o, key), value);
}

/* True if a value is absent, null, false, 0 or "". */
static bool is_unset(const json_t *o, const char *key)
{
    const json_t *x = json_object_get(o, key);
    return !x || json_is_null(x) || json_is_false(x) || (json_is_number(x) && json_number_value(x) == 0) ||
           (json_is_string(x) && !json_string_length(x));
}

/* True if the options that would change the algorithm are off; none of them is supported. */
static bool check_model(struct load *l, const json_t *model)
{
    static const char *const off[] = {
        "dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges", "byte_fallback",
    };
    if (!is(model, "type", "BPE"))
        return bad(l, "model.type is %s, expected BPE", string_at(model, "type"));
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (!is_unset(model, off[i]))
            return bad(l, "model.%s is set, which this program does not do", off[i]);
    return true;
}

/* Checks that pre_tokenizer splits text as Qwen3.5's does; Qwen2's pattern is replaced, with a notice. */
static bool check_split(struct load *l, const json_t *pre)
{
    const json_t *steps = json_object_get(pre, "pretokenizers");
    const json_t *split = json_array_get(steps, 0), *bytes = json_array_get(steps, 1);
    if (!is(pre, "type", "Sequence") || json_array_size(steps) != 2 || !is(split, "type", "Split") ||
        !is(bytes, "type", "ByteLevel") || !is(split, "behavior", "Isolated") || !is_unset(split, "invert") ||
        !is_unset(bytes, "add_prefix_space") || !json_is_false(json_object_get(bytes, "use_regex")))
        return bad(l, "pre_tokenizer is not an isolating Split, then a ByteLevel without prefix blank or pattern of its own");
    const char *pattern = string_at(json_object_get(split, "pattern"), "Regex");
    switch (pretok_check(pattern)) {
    case PRETOK_FAMILY:
        return true;
    case PRETOK_RESAVED:
        CHECK(asprintf(&l->v->notice, "%s carries Qwen2's split pattern, as newer programs write it when they save this "
                       "tokenizer; text is split by the pattern that Qwen3.5 was trained with", l->path) > 0);
        return true;
    default:
        return bad(l, "the split pattern is not Qwen3.5's: %.200s", pattern);
    }
}

/* Adds a token of added_tokens.  False if its id or text belongs to another token. */
static bool add_token(struct load *l, int64_t id, const json_t *o)
{
    struct vocab *v = l->v;
    const char *s = json_string_value(json_object_get(o, "content"));
    size_t n = json_string_length(json_object_get(o, "content"));
    if (!n || id < 0 || id > MAX_ID)
        return bad(l, "an added token has id %lld and content \"%.100s\", expected an id from 0 to %d and some text",
                   (long long)id, s ? s : "", MAX_ID);
    /* "normalized" means a search after NFC instead of before; for ASCII names that makes no difference. */
    if (!is_unset(o, "single_word") || !is_unset(o, "lstrip") || !is_unset(o, "rstrip"))
        return bad(l, "the added token %.100s wants single_word, lstrip or rstrip, which this program does not do", s);
    for (int i = 0; i < v->n_added; i++) {
        const struct token *t = &v->tokens[v->added[i]];
        bool same = t->len == n && !memcmp(bytes_of(v, t), s, n);
        if (same && v->added[i] == id)
            return true;
        if (same || v->added[i] == id)
            return bad(l, "the added token %.100s has id %lld, but %.*s has id %d", s, (long long)id,
                       (int)(t->len < 100 ? t->len : 100), bytes_of(v, t), v->added[i]);
    }
    if (v->n_added == MAX_ADDED)
        return bad(l, "there are more than %d added tokens", MAX_ADDED);
    struct token *t = token_at(v, id);
    if (t->len && (t->len != n || memcmp(bytes_of(v, t), s, n)))
        return bad(l, "the added token %.100s has id %lld, which model.vocab gives to another", s, (long long)id);
    t->at = (uint32_t)v->bytes.len;
    t->len = (uint32_t)n;
    t->added = true;
    t->special = json_is_true(json_object_get(o, "special"));
    buf_add(&v->bytes, s, n);
    v->added[v->n_added++] = (int32_t)id;
    return true;
}

/* Reads added_tokens; NULL: there are none. */
static bool add_tokens(struct load *l, const json_t *list)
{
    size_t i;
    json_t *o;
    if (list && !json_is_array(list))
        return bad(l, "added_tokens is not an array");
    json_array_foreach(list, i, o)
        if (!json_is_integer(json_object_get(o, "id")))
            return bad(l, "entry %zu of added_tokens has no id", i);
        else if (!add_token(l, json_integer_value(json_object_get(o, "id")), o))
            return false;
    return true;
}

static bool key_is(const char *key, size_t n, const char *name)
{
    return n == strlen(name) && !memcmp(key, name, n);
}

/* Walks one object, the whole file or its "model", and records the ranges of the two large values. */
static bool find_tables(struct load *l, struct jscan *j, bool in_model)
{
    if (!jscan_char(j, '{'))
        return false;
    if (jscan_char(j, '}'))
        return true;
    do {
        const char *key;
        size_t n;
        if (!jscan_string(j, &key, &n) || !jscan_char(j, ':'))
            return false;
        bool model = !in_model && key_is(key, n, "model");
        struct span *to = !in_model ? NULL : key_is(key, n, "vocab") ? &l->vocab : key_is(key, n, "merges") ? &l->merges : NULL;
        jscan_space(j);
        const char *from = j->p;
        if (!(model && from < j->end && *from == '{' ? find_tables(l, j, true) : jscan_skip(j)))
            return false;
        if (to)
            *to = (struct span){ from, (size_t)(j->p - from) };
    } while (jscan_char(j, ','));
    return jscan_char(j, '}');
}

/* Appends the text with null in place of the two large values, so that its tree stays small. */
static bool cut_tables(struct load *l, const struct buf *text, struct buf *rest)
{
    const char *end = text->data + text->len;
    struct jscan j = { text->data, end };
    bool ok = find_tables(l, &j, false);
    buf_free(&j.unescaped);
    if (!ok)
        return bad(l, "not valid JSON, or cut short, at byte %zu of %zu", (size_t)(j.p - text->data), text->len);
    if (!l->vocab.p || !l->merges.p)
        return bad(l, "has no model.%s", l->vocab.p ? "merges" : "vocab");
    bool vocab_first = l->vocab.p < l->merges.p;
    struct span a = vocab_first ? l->vocab : l->merges, b = vocab_first ? l->merges : l->vocab;
    buf_add(rest, text->data, (size_t)(a.p - text->data));
    buf_adds(rest, "null");
    buf_add(rest, a.p + a.n, (size_t)(b.p - (a.p + a.n)));
    buf_adds(rest, "null");
    buf_add(rest, b.p + b.n, (size_t)(end - (b.p + b.n)));
    return true;
}

/* Reads one of the large tables, which must fill the whole span. */
static bool read_table(struct load *l, struct span s, bool (*read)(struct load *, struct jscan *))
{
    struct jscan j = { s.p, s.p + s.n };
    bool ok = read(l, &j);
    if (ok) {
        jscan_space(&j);
        if (j.p != j.end)
            ok = bad(l, "model is damaged behind one of its tables");
    }
    buf_free(&j.unescaped);
    return ok;
}

/* Parses the tokenizer's file without its large tables.  NULL with the reason; the caller releases it. */
static json_t *parse(struct load *l, const struct buf *text)
{
    json_error_t je;
    json_t *root = json_loadb(buf_str(text), text->len, JSON_REJECT_DUPLICATES, &je);
    if (root && !json_is_object(root)) {
        bad(l, "not a JSON object");
        json_decref(root);
        return NULL;
    }
    if (!root)
        bad(l, "not valid JSON: %s", je.text);
    return root;
}

/* Reads tokenizer.json and checks that normalizer, decoder and splitting are those that this program has. */
static bool read_tokenizer(struct load *l)
{
    struct buf text = {0}, rest = {0};
    json_t *root = NULL;
    bool ok = file_read(&text, l->path, MAX_FILE, l->e) && cut_tables(l, &text, &rest) && (root = parse(l, &rest)) &&
              check_model(l, json_object_get(root, "model"));
    if (ok && !is(json_object_get(root, "normalizer"), "type", "NFC"))
        ok = bad(l, "normalizer is %s, expected NFC", string_at(json_object_get(root, "normalizer"), "type"));
    if (ok && !is(json_object_get(root, "decoder"), "type", "ByteLevel"))
        ok = bad(l, "decoder is %s, expected ByteLevel", string_at(json_object_get(root, "decoder"), "type"));
    /* post_processor and truncation are ignored: the chat template decides what surrounds a text. */
    ok = ok && check_split(l, json_object_get(root, "pre_tokenizer")) && read_table(l, l->vocab, read_vocab) &&
         index_vocab(l) && read_table(l, l->merges, read_merges) && index_merges(l) &&
         add_tokens(l, json_object_get(root, "added_tokens"));
    json_decref(root);
    buf_free(&rest);
    buf_free(&text);
    return ok;
}

/* Reads the tokens that are only in tokenizer_config.json (the audio ones of Qwen3.5):  "added_tokens_decoder": {"248070": {...}}. */
static bool read_config(struct load *l)
{
    struct buf text = {0};
    json_t *root = NULL, *o;
    const char *key;
    bool ok = file_read(&text, l->path, MAX_FILE, l->e) && (root = parse(l, &text));
    json_t *list = json_object_get(root, "added_tokens_decoder");
    if (ok && list && !json_is_object(list))
        ok = bad(l, "added_tokens_decoder is not an object");
    json_object_foreach(list, key, o) {
        char *end;
        long id = strtol(key, &end, 10);
        if (ok && (end == key || *end))
            ok = bad(l, "added_tokens_decoder has the key %.100s, expected an id", key);
        ok = ok && add_token(l, id, o);
    }
    json_decref(root);
    buf_free(&text);
    return ok;
}

static int longer_first(const void *a, const void *b, void *arg)
{
    const struct token *tokens = arg, *x = &tokens[*(const int32_t *)a], *y = &tokens[*(const int32_t *)b];
    return x->len != y->len ? (x->len < y->len ? 1 : -1) : *(const int32_t *)a - *(const int32_t *)b;
}

bool vocab_read(struct vocab *v, const char *dir, struct err *e)
{
    struct load l = { .v = v, .e = e };
    struct buf path = {0}, config = {0};
    buf_addf(&path, "%s/tokenizer.json", dir);
    buf_addf(&config, "%s/tokenizer_config.json", dir);
    alphabet(l.byte_of);
    v->added = memory_zeroed(MAX_ADDED, sizeof *v->added);
    l.path = path.data;
    bool ok = read_tokenizer(&l);
    qsort_r(v->added, (size_t)v->n_added, sizeof *v->added, longer_first, v->tokens);
    v->n_in_text = v->n_added;
    for (int i = 0; i < v->n_added; i++)
        v->added_lead[(unsigned char)*bytes_of(v, &v->tokens[v->added[i]])] = true;
    if (ok && !access(config.data, F_OK)) {
        l.path = config.data;
        ok = read_config(&l);
    }
    free(l.index);
    buf_free(&path);
    buf_free(&config);
    return ok;
}

void vocab_free(struct vocab *v)
{
    buf_free(&v->bytes);
    free(v->tokens);
    free(v->merges);
    free(v->pairs);
    free(v->added);
    free(v->notice);
    *v = (struct vocab){0};
}
