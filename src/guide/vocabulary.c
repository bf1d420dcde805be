#include "guide/vocabulary.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

enum { SLICES = 16 };

struct slices {
    pthread_mutex_t lock;               /* guards the rest */
    struct slice    all[SLICES];
    int             n;
};

/* ---- tries ---- */

/* A token to be sorted. */
struct entry {
    uint64_t head;                      /* its first eight bytes, the first one highest */
    const char *p;
    uint32_t n;
    int32_t  id;
};

static int by_bytes(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    const uint32_t n = x->n < y->n ? x->n : y->n;
    const int order = memcmp(x->p, y->p, n);
    return order ? order : x->n != y->n ? (x->n < y->n ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

static uint64_t head_of(const char *p, uint32_t n)
{
    uint64_t head = 0;
    for (uint32_t i = 0; i < 8; i++)
        head = head << 8 | (i < n ? (uint8_t)p[i] : 0);
    return head;
}

static uint32_t shared_bytes(const struct entry *a, const struct entry *b)
{
    const uint32_t most = a->n < b->n ? a->n : b->n;
    uint32_t n = 0;
    while (n < most && a->p[n] == b->p[n])
        n++;
    return n;
}

/* Makes the trie of n sorted tokens, whose list it takes over.  shared: the bytes that each has in common with the one before it. */
static struct trie trie_of(const struct guide_vocabulary *v, int32_t *ids, const uint16_t *shared, int n)
{
    struct trie t = {.ids = ids, .n_ids = n};
    size_t n_nodes = 1;
    for (int i = 0; i < n; i++) {
        const int size = (int)v->tokens[ids[i]].n;
        n_nodes += (size_t)size - shared[i];
        t.depth = size > t.depth ? size : t.depth;
    }
    t.nodes = memory_alloc(n_nodes * sizeof *t.nodes);
    uint32_t *open = memory_alloc(((size_t)t.depth + 1) * sizeof *open), depth = 0;    /* the nodes on the path to the token at hand */
    for (int i = 0; i < n; i++) {
        const struct vocabulary_token *token = &v->tokens[ids[i]];
        while (depth > shared[i])
            t.nodes[open[depth--]].next = (uint32_t)t.n;
        while (depth < token->n) {
            const uint8_t byte = (uint8_t)v->bytes[token->at + depth++];
            open[depth] = (uint32_t)t.n;
            t.nodes[t.n++] = (struct trie_node){.first = (uint32_t)i, .depth = (uint16_t)depth, .byte = byte};
        }
    }
    while (depth > 0)
        t.nodes[open[depth--]].next = (uint32_t)t.n;
    t.nodes[t.n] = (struct trie_node){.next = (uint32_t)t.n, .first = (uint32_t)n};
    free(open);
    return t;
}

static void trie_free(struct trie *t)
{
    free(t->nodes);
    free(t->ids);
}

/* ---- slices ---- */

bool vocabulary_blank(uint32_t cp)
{
    return cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000 || cp == 0xFEFF;
}

/* Notes which characters a token of n bytes has. */
static void look_at(struct vocabulary_token *t, const uint8_t *p, uint32_t n)
{
    t->plain = n && n <= SLICE_MAX;
    for (uint32_t i = 0, cp, size; i < n && t->plain; i += size, t->chars++) {
        size = p[i] < 128 ? 1 : (uint32_t)utf8_decode((const char *)p + i, n - i, &cp, &t->plain);
        if (p[i] < 128)
            t->ascii[p[i] / 64] |= 1ull << (p[i] % 64);
        else
            t->plain &= !vocabulary_blank(cp);
    }
}

/* Splits the tokens of the whole trie, whose order stays. */
static struct slice slice_of(const struct guide_vocabulary *v, const uint64_t free_bytes[2])
{
    struct slice s = {.free = {free_bytes[0], free_bytes[1]}, .bits = memory_zeroed((size_t)v->n_words, sizeof *s.bits)};
    int32_t *rest = memory_alloc((size_t)v->all.n_ids * sizeof *rest);
    uint16_t *shared = memory_alloc((size_t)v->all.n_ids * sizeof *shared), least = 0;
    int n = 0;
    for (int i = 0; i < v->all.n_ids; i++) {
        const int32_t id = v->all.ids[i];
        const struct vocabulary_token *t = &v->tokens[id];
        least = t->shared < least ? t->shared : least;
        if (t->plain && !(t->ascii[0] & ~free_bytes[0]) && !(t->ascii[1] & ~free_bytes[1])) {
            s.bits[id / 32] |= 1u << (id % 32);
        } else {
            shared[n] = least;
            rest[n++] = id;
            least = UINT16_MAX;
        }
    }
    s.rest = trie_of(v, rest, shared, n);
    free(shared);
    return s;
}

const struct slice *vocabulary_slice(struct guide_vocabulary *v, const uint64_t free_bytes[2])
{
    struct slices *l = v->slices;
    const struct slice *found = NULL;
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->n && !found; i++)
        if (l->all[i].free[0] == free_bytes[0] && l->all[i].free[1] == free_bytes[1])
            found = &l->all[i];
    if (!found && l->n < SLICES) {
        l->all[l->n] = slice_of(v, free_bytes);
        found = &l->all[l->n++];
    }
    pthread_mutex_unlock(&l->lock);
    return found;
}

/* ---- a vocabulary ---- */

/* Sorts all tokens but the marks. */
static void make_trie(struct guide_vocabulary *v)
{
    struct entry *list = memory_alloc((size_t)v->n * sizeof *list);
    int32_t *ids = memory_alloc((size_t)v->n * sizeof *ids);
    uint16_t *shared = memory_zeroed((size_t)v->n, sizeof *shared);
    int n = 0;
    for (int32_t id = 0; id < v->n; id++) {
        const char *p = v->bytes + v->tokens[id].at;
        const uint32_t size = v->tokens[id].n;
        if (v->mark[id])
            v->marks[v->n_marks++] = id;
        else if (size)
            list[n++] = (struct entry){.head = head_of(p, size), .p = p, .n = size, .id = id};
    }
    qsort(list, (size_t)n, sizeof *list, by_bytes);
    for (int i = 0; i < n; i++) {
        ids[i] = list[i].id;
        v->tokens[ids[i]].shared = shared[i] = (uint16_t)(i ? shared_bytes(&list[i - 1], &list[i]) : 0);
    }
    v->all = trie_of(v, ids, shared, n);
    free(shared);
    free(list);
}

const struct slice *vocabulary_strings(struct guide_vocabulary *v)
{
    uint64_t free_bytes[2] = {0};
    for (int b = ' '; b < 128; b++)
        if (b != '"' && b != '\\')
            free_bytes[b / 64] |= 1ull << (b % 64);
    return vocabulary_slice(v, free_bytes);
}

struct guide_vocabulary *guide_vocabulary_new(const struct guide_token *tokens, int n, int32_t think_end,
                                              const struct guide_vocabulary_hooks *hooks)
{
    struct guide_vocabulary *v = memory_zeroed(1, sizeof *v);
    size_t bytes = 0, at = 0;
    for (int i = 0; i < n; i++)
        bytes += tokens[i].bytes.n;
    *v = (struct guide_vocabulary){
        .references = 1, .hooks = *hooks, .n = n, .n_words = (n + 31) / 32, .bytes = memory_alloc(bytes), .think_end = think_end,
        .tokens = memory_zeroed((size_t)n, sizeof *v->tokens),
        .mark = memory_zeroed((size_t)n, sizeof *v->mark), .marks = memory_zeroed((size_t)n, sizeof *v->marks),
        .slices = memory_zeroed(1, sizeof *v->slices),
    };
    pthread_mutex_init(&v->slices->lock, NULL);
    for (int i = 0; i < n; i++) {
        const struct text t = tokens[i].bytes;
        const bool usable = t.n && t.n < UINT16_MAX;
        v->mark[i] = usable && tokens[i].mark;
        v->tokens[i] = (struct vocabulary_token){.at = (uint32_t)at, .n = usable ? (uint32_t)t.n : 0};
        look_at(&v->tokens[i], (const uint8_t *)t.p, v->tokens[i].n);
        if (t.n)
            memcpy(v->bytes + at, t.p, t.n);
        at += t.n;
    }
    make_trie(v);
    const uint64_t raw[2] = {~(1ull << '\n' | 1ull << '<'), ~0ull};
    vocabulary_strings(v);              /* every schema needs it, every tool the other one */
    vocabulary_slice(v, raw);
    return v;
}

struct guide_vocabulary *guide_vocabulary_retain(struct guide_vocabulary *v)
{
    v->references++;
    return v;
}

void guide_vocabulary_release(struct guide_vocabulary *v)
{
    if (!v || --v->references > 0)
        return;
    for (int i = 0; i < v->slices->n; i++) {
        free(v->slices->all[i].bits);
        trie_free(&v->slices->all[i].rest);
    }
    pthread_mutex_destroy(&v->slices->lock);
    trie_free(&v->all);
    free(v->slices);
    free(v->bytes);
    free(v->tokens);
    free(v->mark);
    free(v->marks);
    free(v);
}

/* ---- the vocabulary of a tokenizer ---- */

static void encode_text(const void *arg, struct text t, bool marks, struct ids *out)
{
    tokenizer_encode(arg, t.p, t.n, marks, out);
}

struct guide_vocabulary *guide_vocabulary_of(const struct tokenizer *t)
{
    static const char *const marks[] = {"<tool_call>", "</tool_call>"};
    const int n = tokenizer_n_ids(t);
    struct guide_token *tokens = memory_zeroed((size_t)n, sizeof *tokens);
    for (int32_t id = 0; id < n; id++) {
        struct guide_token *k = &tokens[id];
        for (int i = 0; i < 2; i++)
            k->mark |= tokenizer_special(t, marks[i]) == id;
        if (k->mark || !tokenizer_is_added(t, id))
            k->bytes.p = tokenizer_bytes(t, id, &k->bytes.n);
    }
    struct guide_vocabulary *v = guide_vocabulary_new(tokens, n, tokenizer_special(t, "</think>"),
                                                      &(struct guide_vocabulary_hooks){encode_text, t});
    free(tokens);
    return v;
}
