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
    FORCED_BYTES = 96,                  /* of forced text that are looked at */
    MOST_MORE = 16,                     /* times GRAMMAR_WORK, where nothing was found with that */
};

/* Tables by place, for states without a key.  A newer place replaces the one that has its entry. */
struct mask_entry   { uint32_t place; uint32_t *bits; };
struct forced_entry { uint32_t place; bool known, lead; uint8_t n; int32_t ids[FORCED_IDS]; };
/* whole: the place is free itself, for `chars` characters, else most bytes lead to `free`; slice NULL: neither. */
struct free_entry   { uint32_t place, free; int chars; bool known, whole, key; const struct slice *slice; };

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

/* True if the bytes lo .. hi, which continue a character that has begun as `begun`, and then any `more` bytes lead to that place; but for blanks. */
static bool bytes_lead(struct guide *g, const struct grammar_state *s, int lo, int hi, int more, uint32_t begun, uint32_t to)
{
    uint32_t before = 0;                /* bytes that are followed by the same are looked at once, unless blanks are among these */
    for (int b = lo; b <= hi; b++) {
        const uint32_t cp = begun << 6 | (uint32_t)(b & 0x3F);
        struct grammar_state next;
        if (!more && vocabulary_blank(cp))
            continue;
        copy_state(&next, s);
        if (!grammar_byte(g->grammar, &next, (uint8_t)b) || (!more && next.place != to))
            return false;
        if (more && next.place != before && !bytes_lead(g, &next, 0x80, 0xBF, more - 1, cp, to))
            return false;
        before = next.place;
    }
    return true;
}

/* True if every character beyond ASCII leads to that place, but for blanks. */
static bool characters_lead(struct guide *g, const struct grammar_state *s, uint32_t to)
{
    static const struct { uint8_t lead, last, lo, hi, more, bits; } table[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 0, 0x1F}, {0xE0, 0xE0, 0xA0, 0xBF, 1, 0x0F}, {0xE1, 0xEC, 0x80, 0xBF, 1, 0x0F}, {0xED, 0xED, 0x80, 0x9F, 1, 0x0F},
        {0xEE, 0xEF, 0x80, 0xBF, 1, 0x0F}, {0xF0, 0xF0, 0x90, 0xBF, 2, 0x07}, {0xF1, 0xF3, 0x80, 0xBF, 2, 0x07}, {0xF4, 0xF4, 0x80, 0x8F, 2, 0x07},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint32_t before = 0;            /* leads that are followed by the same are looked at once */
        for (int lead = table[i].lead; lead <= table[i].last; lead++) {
            struct grammar_state next;
            copy_state(&next, s);
            if (!grammar_byte(g->grammar, &next, (uint8_t)lead))
                return false;
            if (next.place != before && !bytes_lead(g, &next, table[i].lo, table[i].hi, table[i].more, (uint32_t)(lead & table[i].bits), to))
                return false;
            before = next.place;
        }
    }
    return true;
}

/* Finds the place that most ASCII bytes lead to, and these bytes; returns the state there by way of one of them, with place 0 if there is none. */
static struct grammar_state usual_next(struct guide *g, const struct grammar_state *s, uint64_t free_bytes[2])
{
    uint32_t place[128], usual = 0;
    struct grammar_state to = {0};
    int n = 0;
    free_bytes[0] = free_bytes[1] = 0;
    for (int b = 0; b < 128; b++) {
        struct grammar_state next;
        copy_state(&next, s);
        place[b] = grammar_byte(g->grammar, &next, (uint8_t)b) ? next.place : 0;
        if (n == 0)                     /* Boyer and Moore's vote */
            usual = place[b];
        n += place[b] == usual ? 1 : -1;
        if (place[b] && place[b] == usual)
            copy_state(&to, &next);
    }
    n = 0;
    for (int b = 0; b < 128; b++)
        if (place[b] && place[b] == usual) {
            free_bytes[b / 64] |= 1ull << (b % 64);
            n++;
        }
    to.place = n > 64 ? usual : 0;
    return to;
}

/* Returns how many characters, of the free bytes or beyond ASCII, may follow at *s in any order; at most `most`. */
static int free_length(struct guide *g, const struct grammar_state *s, const uint64_t free_bytes[2], int most)
{
    struct grammar_state at = *s;
    for (int n = 0; n < most; n++) {
        uint64_t own[2];
        const struct grammar_state next = usual_next(g, &at, own);
        if (!next.place || own[0] != free_bytes[0] || own[1] != free_bytes[1] || !characters_lead(g, &at, next.place))
            return n;
        if (next.place == at.place)
            return most;
        at.place = next.place;
    }
    return most;
}

/* Finds what is free at *s. */
static void find_free_place(struct guide *g, const struct grammar_state *s, struct free_entry *f)
{
    uint64_t free_bytes[2];
    struct grammar_state from = *s;
    *f = (struct free_entry){.place = s->place, .known = true};
    f->chars = grammar_free_chars(g->grammar, s, &f->key);
    if (f->chars) {
        f->whole = true;
        f->slice = vocabulary_strings(g->v);
        return;
    }
    f->chars = TERM_MANY;
    from.n_key = from.n_key > 0;        /* whatever the key is: its end is not among the free bytes */
    const struct grammar_state usual = usual_next(g, &from, free_bytes);
    if (!usual.place)
        return;
    f->whole = free_length(g, &from, free_bytes, SLICE_MAX) >= SLICE_MAX;
    if (!f->whole) {                    /* most of the bytes may lead to a free place, as at the beginning of a key */
        from = usual;
        from.n_key = from.n_key > 0;
        if (usual_next(g, &from, free_bytes).place != from.place || free_length(g, &from, free_bytes, SLICE_MAX) < SLICE_MAX)
            return;
    }
    f->free = from.place;
    f->slice = vocabulary_slice(g->v, free_bytes);
}

static const struct free_entry *free_place_at(struct guide *g, const struct grammar_state *s)
{
    struct free_entry *f = &g->free[s->place % FREE];
    if (!f->known || f->place != s->place)
        find_free_place(g, s, f);
    return f;
}

/* ---- masks ---- */

/* True if the longest token of a ready mask fits into the key that is being written. */
static bool key_has_room(const struct grammar_state *s) { return s->n_key <= GRAMMAR_KEY_MAX - SLICE_MAX - 8; }

/* Sets or clears the bits of single ids by what guide_advance() says of them. */
static void mask_ids(struct guide *g, const struct guide_state *s, const int32_t *ids, int n, uint32_t *bits)
{
    for (int i = 0; i < n; i++) {
        struct guide_state next = *s;
        bits[ids[i] / 32] &= ~(1u << (ids[i] % 32));
        bits[ids[i] / 32] |= (uint32_t)guide_advance(g, &next, ids[i]) << (ids[i] % 32);
    }
}

/* Sets the bits of the tokens in the trie that are admissible at *s.  Below nodes that lead to the free place of `f` these are the tokens of its
 * ready mask; others are left out there.  f NULL: there is no free place. */
static void walk(struct guide *g, const struct trie *t, const struct grammar_state *s, const struct free_entry *f, uint32_t *bits)
{
    g->path[0] = *s;
    for (uint32_t i = 0; i < (uint32_t)t->n;) {
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
        const bool all = f && at->place == f->free && key_has_room(at);
        const uint32_t end = all ? t->nodes[node->next].first : node[1].first;
        for (uint32_t k = node->first; k < end; k++) {
            const uint32_t word = (uint32_t)t->ids[k] / 32, bit = 1u << (t->ids[k] % 32);
            bits[word] |= all ? f->slice->bits[word] & bit : bit;
        }
        i = all ? node->next : i + 1;
    }
}

/* True if the key has room for the token. */
static bool fits_key(const struct grammar_state *s, const struct slice_token *t)
{
    return grammar_key_fits(s->n_key + t->bytes - 1, 'a') && (!t->tail || grammar_key_fits(s->n_key + t->bytes - t->tail, 0xC3));
}

/* Sets the bits of the tokens of a ready mask that are not too long where a string or a key may soon be full. */
static void mask_short(const struct guide *g, const struct grammar_state *s, const struct free_entry *f, uint32_t *bits)
{
    memset(bits, 0, (size_t)g->v->n_words * sizeof *bits);
    for (int i = 0; i < f->slice->n_ids; i++) {
        const struct slice_token *t = &f->slice->tokens[i];
        if (t->chars <= f->chars && (!f->key || fits_key(s, t)))
            bits[t->id / 32] |= 1u << (t->id % 32);
    }
}

/* Sets the bits of all that the grammar admits at *s. */
static void mask_text(struct guide *g, const struct grammar_state *s, uint32_t *bits)
{
    const struct free_entry *f = free_place_at(g, s);
    const size_t size = (size_t)g->v->n_words * sizeof *bits;
    const bool roomy = key_has_room(s), sliced = f->slice && (roomy || f->key);
    if (!sliced || !f->whole)
        memset(bits, 0, size);
    else if (roomy && f->chars >= SLICE_MAX)
        memcpy(bits, f->slice->bits, size);
    else
        mask_short(g, s, f, bits);
    if (sliced)
        walk(g, &f->slice->rest, s, NULL, bits);
    if (!sliced || !f->whole)
        walk(g, &g->v->all, s, sliced ? f : NULL, bits);
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
        walk(g, &g->v->all, s, NULL, bits);
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
