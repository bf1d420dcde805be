#include "guide/guide.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "guide/calls.h"
#include "guide/vocabulary.h"

/* ANY: any text, in which a call may begin; NAME: the same behind a <function=, whose name may be that of a tool; TEXT: one of the grammar; ENDED. */
enum stage { REASONING, ANY, NAME, TEXT, ENDED };

#define OPENING CALLS_TAG "\n" CALLS_FUNCTION
enum { N_TAG = sizeof CALLS_TAG - 1, N_OPENING = sizeof OPENING - 1, N_FUNCTION = sizeof CALLS_FUNCTION - 1 };

enum {
    LEAD = 2,                           /* line ends after </think>: the model writes an empty line */
    MASKS = 32, FORCED = 256, FREE = 256,       /* entries of the tables */
    FORCED_IDS = 8,                     /* of an entry */
    FEW_BYTES = 32,                     /* are not worth a slice */
    MOST_PLACES = 40,                   /* that free characters lead to: with a bound of length one for each character of a token */
    FORCED_BYTES = 96,                  /* of forced text that are looked at */
    MOST_MORE = 16,                     /* times GRAMMAR_WORK, where nothing was found with that */
};

/* Tables by place, for states without a key.  A newer place replaces the one that has its entry. */
struct mask_entry   { uint32_t place; uint32_t *bits; };
struct forced_entry { uint32_t place; bool known, lead; uint8_t n; int32_t ids[FORCED_IDS]; };
/* Any tokens of the slice may come at the place `free`, if they have at most `chars` characters; slice NULL: there is no such place.  It is this
 * place, or `leads` lead to it, the first bytes of most characters.  least: bytes that a key must have room for behind the tokens. */
struct free_entry   { uint32_t place, free; int chars, least; bool known, key; uint64_t leads[4]; const struct slice *slice; };

struct guide {
    atomic_int references;
    struct grammar *grammar;
    struct guide_vocabulary *v;
    enum guide_kind kind;
    int32_t tag;                        /* the mark <tool_call>, -1: there is none */
    struct grammar_state tagged, opened;        /* behind <tool_call>; behind <function= */
    struct grammar_state *path;         /* [trie.depth + 1] states along the path to a node */
    struct grammar_state **watched;     /* [n_watched] */
    int n_watched, cap_watched;
    struct mask_entry   masks[MASKS];
    struct forced_entry forced[FORCED];
    struct free_entry   free[FREE];
};

static bool talks(const struct guide *g) { return g->kind >= GUIDE_TALK; }

/* Finds the places where a call begins, which stay valid. */
static void find_beginnings(struct guide *g)
{
    const struct guide_vocabulary *v = g->v;
    for (int i = 0; i < v->n_marks; i++) {
        const struct vocabulary_token *t = &v->tokens[v->marks[i]];
        if (t->n == N_TAG && !memcmp(v->bytes + t->at, CALLS_TAG, N_TAG))
            g->tag = v->marks[i];
    }
    g->tagged = g->opened = grammar_begin(g->grammar);
    CHECK(grammar_text(g->grammar, &g->tagged, text_of(CALLS_TAG)) == N_TAG);
    CHECK(grammar_text(g->grammar, &g->opened, text_of(OPENING)) == N_OPENING);
    struct grammar_state *const kept[] = {&g->tagged, &g->opened};
    for (int i = 0; i < 2; i++) {
        g->watched = memory_grow(g->watched, g->n_watched, &g->cap_watched, sizeof *g->watched);
        g->watched[g->n_watched++] = kept[i];
    }
}

struct guide *guide_new(struct grammar *grammar, struct guide_vocabulary *v, enum guide_kind kind)
{
    struct guide *g = memory_zeroed(1, sizeof *g);
    g->references = 1;
    g->grammar = grammar_retain(grammar);
    g->v = guide_vocabulary_retain(v);
    g->kind = kind;
    g->tag = -1;
    g->path = memory_alloc(((size_t)v->all.depth + 1) * sizeof *g->path);
    if (kind != GUIDE_TEXT)
        find_beginnings(g);
    return g;
}

struct guide *guide_retain(struct guide *g)
{
    g->references++;
    return g;
}

/* Empties the tables by place. */
static void forget_places(struct guide *g)
{
    for (int i = 0; i < MASKS; i++)
        free(g->masks[i].bits);
    memset(g->masks, 0, sizeof g->masks);
    memset(g->forced, 0, sizeof g->forced);
    memset(g->free, 0, sizeof g->free);
}

void guide_release(struct guide *g)
{
    if (!g || --g->references > 0)
        return;
    forget_places(g);
    grammar_release(g->grammar);
    guide_vocabulary_release(g->v);
    free(g->path);
    free(g->watched);
    free(g);
}

/* ---- places ---- */

void guide_watch(struct guide *g, struct guide_state *s)
{
    g->watched = memory_grow(g->watched, g->n_watched, &g->cap_watched, sizeof *g->watched);
    g->watched[g->n_watched++] = &s->at;
}

void guide_unwatch(struct guide *g, const struct guide_state *s)
{
    for (int i = 0; i < g->n_watched; i++)
        if (g->watched[i] == &s->at)
            g->watched[i--] = g->watched[--g->n_watched];
}

void guide_settle(struct guide *g, int made)
{
    const bool full = grammar_full(g->grammar);
    if (grammar_trim(g->grammar, g->watched, g->n_watched, made) || full)
        forget_places(g);
    grammar_allow(g->grammar, GRAMMAR_WORK);
}

bool guide_is_optional(const struct guide *g) { return talks(g); }

struct guide_state guide_begin(const struct guide *g, bool reasons)
{
    const bool rests = reasons && g->v->think_end >= 0;
    return (struct guide_state){.at = grammar_begin(g->grammar), .stage = rests ? REASONING : talks(g) ? ANY : TEXT, .line = true};
}

/* Returns how many bytes at the end of pattern[0..n) and `byte` a text that is the pattern may begin with. */
static uint8_t matching(const char *pattern, uint8_t n, char byte)
{
    for (uint8_t k = (uint8_t)(n + 1); k > 0; k--)
        if (pattern[k - 1] == byte && !memcmp(pattern, pattern + (n + 1 - k), k - 1u))
            return k;
    return 0;
}

/* Begins a call, or rather continues one, at that place of the grammar. */
static void begin_call(struct guide_state *s, const struct grammar_state *at)
{
    s->at = *at;
    s->stage = TEXT;
    s->matched = s->bare = 0;
    s->called = true;
}

/* Ends a call where any text may follow. */
static void end_call(const struct guide *g, struct guide_state *s)
{
    s->at = grammar_begin(g->grammar);
    s->stage = g->kind == GUIDE_TALK ? ANY : ENDED;
    s->line = true;
}

/* Advances over a byte of any text, which may be the last one that begins a call. */
static void advance_any(const struct guide *g, struct guide_state *s, char byte)
{
    const bool at_line = s->line, talk = s->stage == ANY;
    if (byte != ' ' && byte != '\t')
        s->line = byte == '\n';
    s->matched = matching(OPENING, s->matched, byte);
    s->bare = talk && (s->bare || (at_line && byte == '<')) ? matching(CALLS_FUNCTION, s->bare, byte) : 0;
    if (s->matched == N_OPENING) {
        begin_call(s, &g->opened);
    } else if (s->bare == N_FUNCTION) {
        s->stage = NAME;
        s->at = g->opened;
    }
}

/* Advances over a byte of the name behind a bare <function=; the text goes on as any text if that is none. */
static void advance_name(struct guide *g, struct guide_state *s, char byte)
{
    if (grammar_byte(g->grammar, &s->at, (uint8_t)byte)) {
        if (byte == '>')
            begin_call(s, &s->at);
        return;
    }
    s->at = grammar_begin(g->grammar);
    s->stage = ANY;
    s->matched = s->bare = 0;
    advance_any(g, s, byte);
}

/* Advances over a byte of a text of the grammar. */
static bool advance_text(struct guide *g, struct guide_state *s, char byte)
{
    if (s->lead && byte == '\n') {
        s->lead--;
        return true;
    }
    if (!grammar_byte(g->grammar, &s->at, (uint8_t)byte))
        return false;
    s->lead = 0;
    if (talks(g) && grammar_may_end(g->grammar, &s->at))
        end_call(g, s);
    return true;
}

/* Advances over as many bytes as are admissible; returns their number. */
static size_t advance_bytes(struct guide *g, struct guide_state *s, struct text t)
{
    size_t n = 0;
    for (; n < t.n; n++) {
        if (s->stage == NAME)
            advance_name(g, s, t.p[n]);
        else if (s->stage == ANY || s->stage == REASONING)
            advance_any(g, s, t.p[n]);
        else if (s->stage == ENDED || !advance_text(g, s, t.p[n]))
            break;
    }
    return n;
}

bool guide_rests(const struct guide *g, const struct guide_state *s)
{
    return talks(g) && (s->stage == ANY || s->stage == REASONING) && s->matched < N_TAG;
}

/* Advances where any id is admissible, but for one that begins a call and goes on with what cannot be one. */
static bool advance_freely(struct guide *g, struct guide_state *s, int32_t id, struct text bytes)
{
    const bool rests = guide_rests(g, s);
    if (s->stage == ANY && id == g->tag) {
        begin_call(s, &g->tagged);
        return true;
    }
    if (!s->matched && !s->bare && s->stage != NAME && bytes.n && !memchr(bytes.p, '<', bytes.n)) {
        const char last = bytes.p[bytes.n - 1];         /* most tokens */
        s->line = last == '\n' || (s->line && strspn(bytes.p, " \t") >= bytes.n);
        return true;
    }
    struct guide_state next = *s;
    if (advance_bytes(g, &next, bytes) == bytes.n) {
        *s = next;
    } else if (!rests) {
        return false;
    } else {
        s->matched = s->bare = 0;
        s->line = false;
    }
    return true;
}

bool guide_advance(struct guide *g, struct guide_state *s, int32_t id)
{
    const struct guide_vocabulary *v = g->v;
    const bool known = id >= 0 && id < v->n;
    const struct text bytes = known ? (struct text){v->bytes + v->tokens[id].at, v->tokens[id].n} : (struct text){0};
    if (s->stage == REASONING && id == v->think_end) {
        s->stage = talks(g) ? ANY : TEXT;
        s->lead = talks(g) ? 0 : LEAD;
        s->matched = s->bare = 0;
        s->line = true;
        return true;
    }
    if (s->stage == REASONING && g->kind == GUIDE_TEXT)
        return true;
    if (s->stage == REASONING || s->stage == ANY || s->stage == NAME)
        return advance_freely(g, s, id, bytes);
    const bool begins = g->kind == GUIDE_EITHER && !s->called && id == g->tag && s->at.place == grammar_begin(g->grammar).place;
    if (!bytes.n || (v->mark[id] && !begins && (g->kind == GUIDE_TEXT || (g->kind == GUIDE_EITHER && !s->called))))
        return false;
    struct guide_state next = *s;
    bool ok = advance_bytes(g, &next, bytes) == bytes.n;
    if (!ok && grammar_spent(g->grammar)) {
        grammar_allow(g->grammar, 4 * GRAMMAR_WORK);
        next = *s;
        ok = advance_bytes(g, &next, bytes) == bytes.n;
    }
    if (!ok)
        return false;
    *s = next;
    s->called |= begins;
    return true;
}

/* True while it reasons only if the text may be empty. */
bool guide_may_end(const struct guide *g, const struct guide_state *s)
{
    return talks(g) ? s->stage != TEXT : grammar_may_end(g->grammar, &s->at);
}

bool guide_must_end(struct guide *g, const struct guide_state *s)
{
    if (s->stage != TEXT || !guide_may_end(g, s))
        return s->stage == ENDED;
    for (int b = 0; b < 256; b++) {
        struct grammar_state next = s->at;
        if (grammar_byte(g->grammar, &next, (uint8_t)b) || grammar_full(g->grammar))
            return false;
    }
    return true;
}

bool guide_full(const struct guide *g) { return grammar_full(g->grammar); }

/* ---- free places: where nearly any character may follow, as inside of strings */

/* Copies a state without what is undefined of its key: most have none. */
static inline void copy_state(struct grammar_state *to, const struct grammar_state *from)
{
    to->place = from->place;
    to->n_key = from->n_key;
    if (from->n_key)
        memcpy(to->key, from->key, from->n_key);
}

/* The places that free characters lead to, each with how many of them. */
struct free_places { struct grammar_state at[MOST_PLACES]; uint8_t depth[MOST_PLACES]; int n, most; };

/* Adds a place that is `depth` characters away, unless it is there.  False: there is no room for it. */
static bool add_place(struct free_places *p, const struct grammar_state *s, int depth)
{
    int i = 0;
    while (i < p->n && p->at[i].place != s->place)
        i++;
    if (i == p->most)
        return false;
    if (i == p->n) {
        copy_state(&p->at[p->n], s);
        p->at[i].n_key = s->n_key > 0;          /* whatever the key is: its end is not among the free bytes */
        p->depth[p->n++] = (uint8_t)depth;
    }
    return true;
}

/* True if a blank is among the characters whose value is `begun` and 6 bits for each of `more` bytes. */
static bool has_blank(uint32_t begun, int more)
{
    const uint32_t lo = begun << 6 * more, hi = lo + (1u << 6 * more) - 1;
    return (lo <= 0xA0 && hi >= 0xA0) || (lo <= 0x3000 && hi >= 0x1680) || (lo <= 0xFEFF && hi >= 0xFEFF);
}

/* Adds the places behind the bytes lo .. hi, which continue a character that has begun as `begun`, and then any `more` bytes; but not behind blanks.
 * False if a byte is refused or there are too many places. */
static bool add_bytes(struct guide *g, const struct grammar_state *s, int lo, int hi, int more, uint32_t begun, struct free_places *p, int depth)
{
    uint32_t before = 0;                /* bytes that are followed by the same are looked at once, unless blanks are among these */
    for (int b = lo; b <= hi; b++) {
        const uint32_t cp = begun << 6 | (uint32_t)(b & 0x3F);
        struct grammar_state next;
        if (!more && vocabulary_blank(cp))
            continue;
        copy_state(&next, s);
        if (!grammar_byte(g->grammar, &next, (uint8_t)b))
            return false;
        if (next.place == before)
            continue;
        if (more ? !add_bytes(g, &next, 0x80, 0xBF, more - 1, cp, p, depth) : !add_place(p, &next, depth))
            return false;
        before = has_blank(cp, more) ? 0 : next.place;
    }
    return true;
}

/* Adds the places behind all characters beyond ASCII; returns the bytes 0xC0 + n that these begin with, without those that fail. */
static uint64_t add_characters(struct guide *g, const struct grammar_state *s, struct free_places *p, int depth)
{
    static const struct { uint8_t lead, last, lo, hi, more, bits; } table[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 0, 0x1F}, {0xE0, 0xE0, 0xA0, 0xBF, 1, 0x0F}, {0xE1, 0xEC, 0x80, 0xBF, 1, 0x0F}, {0xED, 0xED, 0x80, 0x9F, 1, 0x0F},
        {0xEE, 0xEF, 0x80, 0xBF, 1, 0x0F}, {0xF0, 0xF0, 0x90, 0xBF, 2, 0x07}, {0xF1, 0xF3, 0x80, 0xBF, 2, 0x07}, {0xF4, 0xF4, 0x80, 0x8F, 2, 0x07},
    };
    uint64_t leads = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint32_t before = 0;
        bool ok = false;
        for (int lead = table[i].lead; lead <= table[i].last; lead++) {
            const uint32_t begun = (uint32_t)(lead & table[i].bits);
            struct grammar_state next;
            copy_state(&next, s);
            if (!grammar_byte(g->grammar, &next, (uint8_t)lead))
                continue;
            if (next.place != before)
                ok = add_bytes(g, &next, table[i].lo, table[i].hi, table[i].more, begun, p, depth);
            leads |= (uint64_t)ok << (lead - 0xC0);
            before = has_blank(begun, table[i].more + 1) ? 0 : next.place;
        }
    }
    return leads;
}

/* True if any characters of these bytes and beyond ASCII, but for blanks, may follow at *s in any order, as many as a token of a slice has.
 * *least: bytes that a key needs behind them. */
static bool is_free(struct guide *g, const struct grammar_state *s, const uint64_t bytes[2], int *least)
{
    enum { FEW = 3 };                   /* places, unless each leads to one: more are those of names */
    const uint64_t all_leads = ((1ull << (0xF4 - 0xC0 + 1)) - 1) & ~3ull;
    struct free_places p = {.n = 0, .most = 1};
    add_place(&p, s, 0);
    *least = 0;
    for (int i = 0; i < p.n; i++) {
        const int depth = p.depth[i] + 1, own = grammar_key_least(g->grammar, &p.at[i]);
        *least = own > *least ? own : *least;
        if (depth > SLICE_MAX)
            continue;
        p.most = p.n == i + 1 && p.n < MOST_PLACES ? p.n + 1 : p.n;
        p.most = p.most > FEW ? p.most : FEW;
        for (int b = 0; b < 128; b++) {
            struct grammar_state next;
            if (!(bytes[b / 64] >> (b % 64) & 1))
                continue;
            copy_state(&next, &p.at[i]);
            if (!grammar_byte(g->grammar, &next, (uint8_t)b) || !add_place(&p, &next, depth))
                return false;
        }
        if (add_characters(g, &p.at[i], &p, depth) != all_leads)
            return false;
    }
    return true;
}

/* The bytes of ASCII that lead to `to`, where most of those do that are admissible, and those that are no controls, quotes and backslashes. */
struct next_bytes { struct grammar_state to; uint64_t usual[2], plain[2]; int n_usual, n_plain; };

static void find_next_bytes(struct guide *g, const struct grammar_state *s, struct next_bytes *b)
{
    struct grammar_state next[128];
    int n = 0, most = 0;
    for (int i = 0; i < 128; i++) {
        copy_state(&next[i], s);
        if (!grammar_byte(g->grammar, &next[i], (uint8_t)i))
            next[i].place = 0;
        if (!next[i].place)
            continue;
        if (n == 0)                     /* Boyer and Moore's vote */
            most = i;
        n += next[i].place == next[most].place ? 1 : -1;
    }
    *b = (struct next_bytes){.n_usual = 0};
    copy_state(&b->to, &next[most]);
    for (int i = 0; i < 128; i++) {
        const bool is_usual = next[i].place && next[i].place == b->to.place, is_plain = next[i].place && i >= ' ' && i != '"' && i != '\\';
        b->usual[i / 64] |= (uint64_t)is_usual << (i % 64);
        b->plain[i / 64] |= (uint64_t)is_plain << (i % 64);
        b->n_usual += is_usual;
        b->n_plain += is_plain;
    }
}

/* Finds the slice of such bytes, if all of its tokens may come at *s.  n: of the bytes. */
static bool find_slice(struct guide *g, const struct grammar_state *s, const uint64_t bytes[2], int n, struct free_entry *f)
{
    f->slice = n > FEW_BYTES && is_free(g, s, bytes, &f->least) ? vocabulary_slice(g->v, bytes) : NULL;
    f->free = s->place;
    return f->slice;
}

/* Finds what is free at *s: most characters, or all behind most of them, as in a key that may be the name of a member. */
static void find_free_place(struct guide *g, const struct grammar_state *s, struct free_entry *f)
{
    struct next_bytes b, next;
    *f = (struct free_entry){.place = s->place, .known = true};
    f->chars = grammar_free_chars(g->grammar, s, &f->key);
    if (f->chars) {
        f->free = s->place;
        f->least = grammar_key_least(g->grammar, s);
        f->slice = vocabulary_strings(g->v);
        return;
    }
    f->chars = TERM_MANY;
    find_next_bytes(g, s, &b);
    const bool usual = b.n_usual >= b.n_plain;
    if (find_slice(g, s, usual ? b.usual : b.plain, usual ? b.n_usual : b.n_plain, f) || b.n_usual <= FEW_BYTES)
        return;
    find_next_bytes(g, &b.to, &next);
    if (b.to.place != s->place && find_slice(g, &b.to, next.usual, next.n_usual, f)) {
        struct free_places p = {.n = 0, .most = 2};     /* characters beyond ASCII may lead to another free place */
        int least;
        add_place(&p, &b.to, 0);
        memcpy(f->leads, b.usual, sizeof b.usual);
        f->leads[3] = add_characters(g, s, &p, 0);
        if (p.n == 2 && is_free(g, &p.at[1], next.usual, &least)) {
            f->least = least > f->least ? least : f->least;
        } else if (p.n == 2) {
            p.n = p.most = 1;
            f->leads[3] = add_characters(g, s, &p, 0);
        }
    } else {
        find_slice(g, s, usual ? b.plain : b.usual, usual ? b.n_plain : b.n_usual, f);
    }
}

static const struct free_entry *free_place_at(struct guide *g, const struct grammar_state *s)
{
    struct free_entry *f = &g->free[s->place % FREE];
    if (!f->known || f->place != s->place)
        find_free_place(g, s, f);
    return f;
}

/* ---- masks ---- */

/* True if the longest token of the ready mask fits into the key that is being written. */
static bool key_has_room(const struct grammar_state *s, const struct free_entry *f)
{
    return s->n_key + SLICE_MAX + f->least <= GRAMMAR_KEY_MAX;
}

/* Sets or clears the bits of single ids by what guide_advance() says of them. */
static void mask_ids(struct guide *g, const struct guide_state *s, const int32_t *ids, int n, uint32_t *bits)
{
    for (int i = 0; i < n; i++) {
        struct guide_state next = *s;
        bits[ids[i] / 32] &= ~(1u << (ids[i] % 32));
        bits[ids[i] / 32] |= (uint32_t)guide_advance(g, &next, ids[i]) << (ids[i] % 32);
    }
}

/* Sets the bits of the tokens below the nodes i .. end-1 of the trie that are admissible at *s.  Below nodes that lead to the free place of `f` these
 * are the tokens of its ready mask; others are left out there.  f NULL: there is no free place. */
static void walk_nodes(struct guide *g, const struct trie *t, uint32_t i, uint32_t end, const struct grammar_state *s, const struct free_entry *f,
                       uint32_t *bits)
{
    g->path[0] = *s;
    while (i < end) {
        const struct trie_node *node = &t->nodes[i];
        struct grammar_state *at = &g->path[node->depth];
        copy_state(at, &g->path[node->depth - 1]);
        if (!grammar_byte(g->grammar, at, node->byte)) {
            i = node->next;
            continue;
        }
        if (talks(g) && grammar_may_end(g->grammar, at)) {      /* the call is closed, and any text may follow */
            const uint32_t first = node->first;
            const struct guide_state from = {.at = *s, .stage = TEXT};
            mask_ids(g, &from, t->ids + first, (int)(t->nodes[node->next].first - first), bits);
            i = node->next;
            continue;
        }
        const bool all = f && at->place == f->free && key_has_room(at, f);
        const uint32_t last = all ? t->nodes[node->next].first : node[1].first;
        for (uint32_t k = node->first; k < last; k++) {
            const uint32_t word = (uint32_t)t->ids[k] / 32, bit = 1u << (t->ids[k] % 32);
            bits[word] |= all ? f->slice->bits[word] & bit : bit;
        }
        i = all ? node->next : i + 1;
    }
}

static void walk(struct guide *g, const struct trie *t, const struct grammar_state *s, uint32_t *bits)
{
    walk_nodes(g, t, 0, (uint32_t)t->n, s, NULL, bits);
}

/* Corrects the bits of tokens whose first character need not lead to the free place, which have those of its ready mask. */
static void mask_strays(struct guide *g, const struct grammar_state *s, const struct free_entry *f, uint32_t *bits)
{
    const struct trie *t = &g->v->all;
    for (uint32_t i = 0; i < (uint32_t)t->n; i = t->nodes[i].next) {
        const struct trie_node *node = &t->nodes[i], *next = &t->nodes[node->next];
        if (f->leads[node->byte / 64] >> (node->byte % 64) & 1)
            continue;
        for (uint32_t k = node->first; k < next->first; k++)
            bits[t->ids[k] / 32] &= ~(1u << (t->ids[k] % 32));
        walk_nodes(g, t, i, node->next, s, f, bits);
    }
}

/* Sets the bits of the tokens of a ready mask that are not too long where a string or a key may soon be full. */
static void mask_short(struct guide *g, const struct grammar_state *s, const struct free_entry *f, uint32_t *bits)
{
    memset(bits, 0, (size_t)g->v->n_words * sizeof *bits);
    for (int i = 0; i < g->v->n_words; i++)
        for (uint32_t left = f->slice->bits[i]; left; left &= left - 1) {
            const struct vocabulary_token *t = &g->v->tokens[32 * i + __builtin_ctz(left)];
            struct grammar_state next = *s;
            bool fits = t->chars <= f->chars;
            if (fits && f->key && s->n_key + (int)t->n + f->least > GRAMMAR_KEY_MAX)         /* unless it is written on the way to the end */
                fits = f->least > 1 && grammar_text(g->grammar, &next, (struct text){g->v->bytes + t->at, t->n}) == t->n;
            bits[i] |= fits ? left & -left : 0;
        }
}

/* Sets the bits of all that the grammar admits at *s. */
static void mask_text(struct guide *g, const struct grammar_state *s, uint32_t *bits)
{
    const struct free_entry *f = free_place_at(g, s);
    const size_t size = (size_t)g->v->n_words * sizeof *bits;
    if (!f->slice || (!f->key && !key_has_room(s, f))) {
        memset(bits, 0, size);
        walk(g, &g->v->all, s, bits);
        return;
    }
    if (key_has_room(s, f) && f->chars >= SLICE_MAX)
        memcpy(bits, f->slice->bits, size);
    else
        mask_short(g, s, f, bits);
    if (f->free != s->place)
        mask_strays(g, s, f, bits);
    walk(g, &f->slice->rest, s, bits);
}

/* Sets the bits of what any text admits: of all ids, but for those that begin a call and go on with what cannot be one. */
static void mask_any(struct guide *g, const struct guide_state *s, uint32_t *bits, int n_words)
{
    memset(bits, -1, (size_t)n_words * sizeof *bits);
    const struct trie *t = &g->v->all;
    for (uint32_t i = 0; i < (uint32_t)t->n && g->kind != GUIDE_TEXT && !guide_rests(g, s); i = t->nodes[i].next) {
        struct grammar_state at = s->at;
        const uint32_t first = t->nodes[i].first;
        const bool continues = s->stage == NAME ? grammar_byte(g->grammar, &at, t->nodes[i].byte) : OPENING[s->matched] == (char)t->nodes[i].byte;
        if (continues)
            mask_ids(g, s, t->ids + first, (int)(t->nodes[t->nodes[i].next].first - first), bits);
    }
}

/* Corrects the tokens that begin with a line end, which may precede the text. */
static void mask_lead(struct guide *g, const struct guide_state *s, uint32_t *bits)
{
    const struct trie *t = &g->v->all;
    for (uint32_t i = 0; i < (uint32_t)t->n && s->lead; i = t->nodes[i].next) {
        if (t->nodes[i].byte != '\n')
            continue;
        const uint32_t first = t->nodes[i].first;
        mask_ids(g, s, t->ids + first, (int)(t->nodes[t->nodes[i].next].first - first), bits);
    }
}

static bool is_zero(const uint32_t *bits, int n)
{
    for (int i = 0; i < n; i++)
        if (bits[i])
            return false;
    return true;
}

/* Returns the bits of the text's place, from the table if it has them; *own becomes true if the caller frees them. */
static uint32_t *bits_of_place(struct guide *g, const struct grammar_state *s, bool *own)
{
    struct mask_entry *m = &g->masks[s->place % MASKS];
    *own = s->n_key > 0;
    if (!*own && m->bits && m->place == s->place)
        return m->bits;
    uint32_t *bits = memory_alloc((size_t)g->v->n_words * sizeof *bits);
    mask_text(g, s, bits);
    for (int more = 4; more <= MOST_MORE && grammar_full(g->grammar) && is_zero(bits, g->v->n_words); more *= 4) {
        grammar_allow(g->grammar, (uint64_t)more * GRAMMAR_WORK);       /* an answer never ends because others wait */
        walk(g, &g->v->all, s, bits);
    }
    *own |= grammar_full(g->grammar);
    if (!*own) {
        free(m->bits);
        *m = (struct mask_entry){s->place, bits};
    }
    return bits;
}

int guide_mask(struct guide *g, const struct guide_state *s, uint32_t *bits, int n_ids)
{
    const int n_words = (n_ids + 31) / 32, known = n_words < g->v->n_words ? n_words : g->v->n_words;
    const size_t size = (size_t)n_words * sizeof *bits;
    int n = 0;
    if (s->stage == ENDED) {
        memset(bits, 0, size);
    } else if (s->stage != TEXT) {
        mask_any(g, s, bits, n_words);
    } else {
        bool own;
        uint32_t *all = bits_of_place(g, &s->at, &own);
        memset(bits, 0, size);
        memcpy(bits, all, (size_t)known * sizeof *bits);
        if (own)
            free(all);
        mask_lead(g, s, bits);
        if (g->kind != GUIDE_TEXT)
            mask_ids(g, s, g->v->marks, g->v->n_marks, bits);
    }
    if (n_ids % 32)
        bits[n_words - 1] &= (1u << (n_ids % 32)) - 1;
    for (int i = 0; i < n_words; i++)
        n += __builtin_popcount(bits[i]);
    return n;
}

/* ---- forced text ---- */

/* Cuts the ids of `text` to those that it has whatever follows: n of them are left.  A few bytes that may follow are tried. */
static int stable(struct guide *g, struct grammar_state *end, struct buf *text, const struct ids *of)
{
    static const char likely[] = "a1 \"}-\n";
    const bool ends = grammar_may_end(g->grammar, end);
    int n = of->n, n_tried = 0;
    for (const char *c = likely; *c && n_tried < 3; c++) {
        struct grammar_state next = *end;
        struct ids longer = {0};
        int same = 0;
        if (!grammar_byte(g->grammar, &next, (uint8_t)*c))
            continue;
        n_tried++;
        buf_add(text, c, 1);
        g->v->hooks.encode(g->v->hooks.arg, (struct text){text->data, text->len}, g->kind != GUIDE_TEXT, &longer);
        text->len--;
        while (same < n && same < longer.n && longer.data[same] == of->data[same])
            same++;
        n = same;
        ids_free(&longer);
    }
    return n_tried || ends ? n : n ? n - 1 : 0;
}

/* Fills the entry of the place. */
static void find_forced(struct guide *g, const struct guide_state *s, struct forced_entry *f)
{
    char bytes[FORCED_BYTES];
    struct buf text = {0};
    struct ids ids = {0};
    struct grammar_state end = s->at;
    size_t n = utf8_complete(bytes, grammar_forced(g->grammar, &s->at, bytes, sizeof bytes));
    n = utf8_valid(bytes, n) ? n : 0;   /* a character that was begun: its ids are not those of a text */
    *f = (struct forced_entry){.place = s->at.place, .known = true, .lead = s->lead == LEAD};
    if (f->lead)
        buf_adds(&text, "\n\n");
    buf_add(&text, bytes, n);
    if (text.len) {
        grammar_text(g->grammar, &end, (struct text){bytes, n});
        g->v->hooks.encode(g->v->hooks.arg, (struct text){text.data, text.len}, g->kind != GUIDE_TEXT, &ids);
        const int fixed = stable(g, &end, &text, &ids);
        f->n = (uint8_t)(fixed < FORCED_IDS ? fixed : FORCED_IDS);
        for (int i = 0; i < f->n; i++)
            f->ids[i] = ids.data[i];
    }
    ids_free(&ids);
    buf_free(&text);
}

int guide_forced(struct guide *g, const struct guide_state *s, int32_t *ids, int most)
{
    struct forced_entry *f = &g->forced[s->at.place % FORCED], own = {0};
    if (s->stage != TEXT || (s->lead && s->lead < LEAD))
        return 0;
    if (s->at.n_key)
        f = &own;
    if (!f->known || f->place != s->at.place || f->lead != (s->lead == LEAD))
        find_forced(g, s, f);
    const int n = f->n < most ? f->n : most;
    for (int i = 0; i < n; i++)
        ids[i] = f->ids[i];
    return n;
}
