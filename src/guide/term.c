#include "guide/term.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/utf8.h"

enum kind { NONE, EMPTY, SET, ONE_OF, CAT, ALT, AND, NOT, REPEAT, UNTIL, MULTIPLE, STRING, LIVE, LAZY, TAKER };

/* Flags of a term: the empty string is in it; AND or NOT is in it; its first byte may belong to a key; a search found it (not) empty; a byte was
 * looked up in it. */
enum { MAY_END = 1, NEGATED = 2, KEY_BEGINS = 4, IN_KEY = 8, TAKES = 16, FOUND_LIVE = 32, FOUND_NONE = 64, VISITED = 128 };

enum { IS_KEY = 1, AT_START = 2 };                                          /* STRING: b */
enum { PLAIN, ESCAPE, HEX, LOW_ESCAPE = 6, LOW_U, LOW_HEX };                /* STRING: c; HEX + digits, LOW_HEX + digits */
enum { NO_DIGIT, DIGITS, ZERO, POINT };                                     /* MULTIPLE: d; POINT + decimals */
enum { UNTIL_FOUND, UNTIL_NEVER };                                          /* UNTIL: c */

enum {
    N_ROWS = 16384,             /* rows of the table of transitions, 1 KiB each */
    N_TERMS = 4 << 20,
    N_SEARCH = 16384,           /* terms that a search for one string looks at; it may take an eighth of the work that is allowed, or */
    N_SEARCH_WORK = 400000,     /* and all of them together half of it, so that what is known to have a string is found, too */
    N_WITHIN = 64,              /* terms that a comparison looks at */
    NO_LEAST = 129,             /* no string of fewer than 128 bytes was found */
    N_ZEROS = 12,               /* zeros behind the decimals of a multiple */
};

struct node {
    uint8_t  kind, flags;
    uint8_t  bytes;             /* a lower bound for the bytes of a string; 255: that or more */
    uint8_t  least;             /* STRING: 1 + its shortest rest once that is known, or NO_LEAST */
    uint32_t a, b, c, d;
    uint32_t row;               /* 1 + its row */
    uint32_t body;              /* LAZY: 1 + its expansion; FOUND_LIVE, least: 1 + a derivative on the way to a string */
};

struct list { struct text *item; int n; uint64_t hash; size_t bytes; };

struct terms {
    struct term_hooks hooks;
    struct node *node;
    uint32_t    *table;         /* [n_table] ids by hash */
    struct list *list;
    uint32_t    *list_slot;     /* [n_list_slots] 1 + index of a list, by hash */
    uint64_t   (*set)[4];
    uint32_t   (*row)[256];
    size_t       n_table, n_list_slots, list_bytes, list_kept;        /* list_kept: bytes after the last collection */
    int          n, cap, n_list, cap_list, n_set, cap_set, n_row, cap_row;
    uint32_t     most;
    uint64_t     work, most_work;           /* derivatives that were taken; that may be */
    uint64_t     most_search, searches;     /* of these: in one search; what is left for all searches */
    int          n_sealed, n_kept;          /* n_kept: terms after the last collection */
    bool         full, unsure, starved;     /* starved: a search was given up for want of `searches` */
    uint32_t     any_char;
};

static struct node *at(const struct terms *t, uint32_t id) { return &t->node[id]; }

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint64_t node_hash(const struct node *n)
{
    return mix(mix(mix(mix(n->kind, n->a), n->b), n->c), n->d);
}

static void table_put(struct terms *t, uint32_t id)
{
    size_t i = node_hash(at(t, id)) & (t->n_table - 1);
    while (t->table[i])
        i = (i + 1) & (t->n_table - 1);
    t->table[i] = id;
}

/* Doubles the table of ids once it is half full. */
static void table_fit(struct terms *t)
{
    if ((size_t)t->n * 2 < t->n_table)
        return;
    free(t->table);
    t->n_table *= 2;
    t->table = memory_zeroed(t->n_table, sizeof *t->table);
    for (int i = 2; i < t->n; i++)
        table_put(t, (uint32_t)i);
}

static int at_most_255(int n) { return n < 255 ? n : 255; }

/* Returns a lower bound for the bytes of a string of the term, from those of its parts. */
static int least_bytes(const struct terms *t, const struct node *n)
{
    const struct node *a = at(t, n->a), *b = at(t, n->b);
    switch ((enum kind)n->kind) {
    case CAT:    return a->bytes + b->bytes;
    case ALT:    return a->bytes < b->bytes ? a->bytes : b->bytes;
    case AND:    return a->bytes > b->bytes ? a->bytes : b->bytes;
    case REPEAT: return a->bytes * at_most_255((int)n->b);
    case LIVE:   return a->bytes;
    case STRING: return n->b & IS_KEY ? a->bytes + 1 : 1;
    case ONE_OF: return n->c - n->b == 1 ? (int)(t->list[n->a].item[n->b].n - n->d) : !(n->flags & MAY_END);
    case NONE: case EMPTY: case SET: case NOT: case UNTIL: case MULTIPLE: case LAZY: case TAKER: break;
    }
    return !(n->flags & MAY_END);
}

/* Returns the id of the term with these parts, made if there is no such term. */
static uint32_t intern(struct terms *t, enum kind kind, unsigned flags, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const struct node n = {.kind = (uint8_t)kind, .flags = (uint8_t)flags, .a = a, .b = b, .c = c, .d = d};
    size_t i = node_hash(&n) & (t->n_table - 1);
    for (; t->table[i]; i = (i + 1) & (t->n_table - 1)) {
        const struct node *m = at(t, t->table[i]);
        if (m->kind == n.kind && m->a == a && m->b == b && m->c == c && m->d == d)
            return t->table[i];
    }
    if ((uint32_t)t->n >= t->most || t->work > t->most_work) {
        t->full = true;
        return TERM_NONE;
    }
    t->node = memory_grow(t->node, t->n, &t->cap, sizeof *t->node);
    t->node[t->n] = n;
    t->node[t->n].bytes = (uint8_t)at_most_255(least_bytes(t, &n));
    t->table[i] = (uint32_t)t->n++;
    const uint32_t id = (uint32_t)t->n - 1;
    table_fit(t);
    return id;
}

struct terms *terms_new(const struct term_hooks *hooks)
{
    struct terms *t = memory_zeroed(1, sizeof *t);
    t->hooks = *hooks;
    t->most = N_TERMS;
    t->most_work = UINT64_MAX;
    t->most_search = N_SEARCH_WORK;
    t->searches = UINT64_MAX;
    t->n_table = 1024;
    t->table = memory_zeroed(t->n_table, sizeof *t->table);
    for (int kind = NONE; kind <= EMPTY; kind++) {
        t->node = memory_grow(t->node, t->n, &t->cap, sizeof *t->node);
        t->node[t->n++] = (struct node){.kind = (uint8_t)kind, .flags = kind == EMPTY ? MAY_END : 0};
    }
    t->any_char = term_char(t, 0, 0x10FFFF);
    return t;
}

void terms_free(struct terms *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->n_list; i++)
        free(t->list[i].item);
    free(t->list);
    free(t->list_slot);
    free(t->set);
    free(t->row);
    free(t->table);
    free(t->node);
    free(t);
}

size_t terms_bytes(const struct terms *t)
{
    return sizeof *t + (size_t)t->cap * sizeof *t->node + t->n_table * sizeof *t->table + (size_t)t->cap_row * sizeof *t->row + t->list_bytes +
           (size_t)t->cap_set * sizeof *t->set + (size_t)t->cap_list * sizeof *t->list + t->n_list_slots * sizeof *t->list_slot;
}

int terms_count(const struct terms *t) { return t->n; }
bool terms_full(const struct terms *t) { return t->full; }
bool terms_starved(const struct terms *t) { return t->full || t->starved; }

/* Drops all rows of the table of transitions. */
static void drop_rows(struct terms *t)
{
    for (int i = 0; i < t->n; i++)
        t->node[i].row = 0;
    t->n_row = 0;
}

void terms_allow(struct terms *t, uint32_t n)
{
    t->most = n < N_TERMS ? (uint32_t)t->n + n : N_TERMS;
    t->full = false;
}

void terms_allow_work(struct terms *t, uint64_t n)
{
    t->most_work = n < UINT64_MAX - t->work ? t->work + n : UINT64_MAX;
    t->most_search = n / 8 < N_SEARCH_WORK ? n / 8 : N_SEARCH_WORK;
    t->searches = n / 2;
    if (t->starved)                     /* rows may lack what a search would have found */
        drop_rows(t);
    t->starved = false;
    t->full = (uint32_t)t->n >= t->most;
}

void terms_spend(struct terms *t, uint64_t n)
{
    t->work += n;
    t->full |= t->work > t->most_work;
}

uint64_t terms_work(const struct terms *t) { return t->work; }

bool terms_unsure(struct terms *t)
{
    const bool unsure = t->unsure;
    t->unsure = false;
    return unsure;
}

void terms_seal(struct terms *t)
{
    t->n_sealed = t->n_kept = t->n;
}

/* --- Collection --- */

/* Stores the terms that a term is made of, and returns how many.  All of them were made before it, so their ids are lesser. */
static int parts_of(struct node *n, uint32_t *part[2])
{
    const enum kind kind = (enum kind)n->kind;
    const bool two = kind == CAT || kind == ALT || kind == AND;
    part[0] = &n->a;
    part[1] = &n->b;
    return two ? 2 : kind == NOT || kind == REPEAT || kind == STRING || kind == LIVE;
}

/* Returns the slot of the list with that hash and number of texts: a free one if there is none. */
static size_t list_slot(const struct terms *t, uint64_t hash, int n)
{
    size_t i = hash & (t->n_list_slots - 1);
    for (; t->list_slot[i]; i = (i + 1) & (t->n_list_slots - 1)) {
        const struct list *l = &t->list[t->list_slot[i] - 1];
        if (l->hash == hash && l->n == n)
            break;
    }
    return i;
}

/* Fills the slots of all lists, of which at most half are taken. */
static void place_lists(struct terms *t)
{
    while (t->n_list_slots <= 2 * (size_t)t->n_list)
        t->n_list_slots = t->n_list_slots ? 2 * t->n_list_slots : 64;
    free(t->list_slot);
    t->list_slot = memory_zeroed(t->n_list_slots, sizeof *t->list_slot);
    for (int i = 0; i < t->n_list; i++)
        t->list_slot[list_slot(t, t->list[i].hash, t->list[i].n)] = (uint32_t)i + 1;
}

static bool has_list(const struct node *n) { return n->kind == ONE_OF || n->kind == UNTIL; }

/* Drops the lists that are not marked, and replaces the marks by new indexes. */
static void sweep_lists(struct terms *t, uint32_t *moved)
{
    int n = 0;
    for (int i = 0; i < t->n_list; i++) {
        if (moved[i]) {
            t->list[n] = t->list[i];
            moved[i] = (uint32_t)n++;
        } else {
            t->list_bytes -= t->list[i].bytes;
            free(t->list[i].item);
        }
    }
    t->n_list = n;
    t->list_kept = t->list_bytes;
    place_lists(t);
}

/* Returns 1 + the derivative that keeps the term alive; 0 if there is none, or none is needed. */
static uint32_t way_of(const struct node *n) { return n->kind == LAZY ? 0 : n->body; }

/* Marks all that the n terms on the stack, which are marked, are made of. */
static void mark_parts(struct terms *t, uint32_t *stack, int n, uint32_t *moved, uint32_t *list)
{
    while (n > 0) {
        struct node *of = at(t, stack[--n]);
        uint32_t *part[3], way = way_of(of) - 1;
        int n_parts = parts_of(of, part);
        if (way_of(of))
            part[n_parts++] = &way;
        for (int k = 0; k < n_parts; k++)
            if (!moved[*part[k]]) {
                moved[*part[k]] = 1;
                stack[n++] = *part[k];
            }
        if (has_list(of))
            list[of->a] = 1;
        else if (of->kind == LAZY || of->kind == TAKER)
            t->hooks.keep(t->hooks.arg, of->kind == TAKER, of->kind == LAZY ? of->a : of->b, of->kind == LAZY ? of->b : of->a);
    }
}

/* Moves from the least id up, which keeps their order, so that parts are moved before what is made of them. */
bool terms_collect(struct terms *t, uint32_t *const *place, int n_places, int made)
{
    if ((uint32_t)t->n < t->most && (size_t)(t->n - t->n_kept) + (t->list_bytes - t->list_kept) / sizeof *t->node < (size_t)made)
        return false;
    uint32_t *moved = memory_zeroed((size_t)t->n, sizeof *moved), *list = memory_zeroed((size_t)t->n_list + 1, sizeof *list), *part[2];
    uint32_t *stack = memory_alloc((size_t)t->n * sizeof *stack);
    int n_stack = 0;
    for (int i = 0; i < t->n_sealed + n_places; i++) {
        const uint32_t id = i < t->n_sealed ? (uint32_t)i : *place[i - t->n_sealed];
        if (!moved[id])
            stack[n_stack++] = id;
        moved[id] = 1;
    }
    mark_parts(t, stack, n_stack, moved, list);
    free(stack);
    sweep_lists(t, list);
    t->hooks.sweep(t->hooks.arg);
    t->n_kept = 0;
    for (int i = 0; i < t->n; i++) {
        struct node n = t->node[i];
        if (!moved[i])
            continue;
        for (int k = parts_of(&n, part); k-- > 0;)
            *part[k] = moved[*part[k]];
        if (has_list(&n))
            n.a = list[n.a];
        else if (n.kind == LAZY)
            n.b = t->hooks.moved(t->hooks.arg, false, n.a, n.b);
        else if (n.kind == TAKER)
            n.a = t->hooks.moved(t->hooks.arg, true, n.b, n.a);
        n.row = 0;
        n.body = way_of(&n);
        t->node[t->n_kept] = n;
        moved[i] = (uint32_t)t->n_kept++;
    }
    for (int i = 0; i < n_places; i++)
        *place[i] = moved[*place[i]];
    for (int i = 0; i < t->n_kept; i++)
        if (t->node[i].body)
            t->node[i].body = 1 + moved[t->node[i].body - 1];
    t->n = t->n_kept;
    t->n_row = 0;
    t->full = false;
    memset(t->table, 0, t->n_table * sizeof *t->table);
    for (int i = 2; i < t->n; i++)
        table_put(t, (uint32_t)i);
    free(list);
    free(moved);
    return true;
}

/* --- Constructors --- */

static bool has(const uint64_t set[4], int byte) { return set[byte >> 6] >> (byte & 63) & 1; }
static void put(uint64_t set[4], int byte) { set[byte >> 6] |= 1ull << (byte & 63); }

uint32_t term_bytes_of(struct terms *t, const uint64_t set[4])
{
    if (!(set[0] | set[1] | set[2] | set[3]))
        return TERM_NONE;
    int i = 0;
    while (i < t->n_set && memcmp(t->set[i], set, sizeof t->set[i]))
        i++;
    if (i == t->n_set) {
        t->set = memory_grow(t->set, t->n_set, &t->cap_set, sizeof *t->set);
        memcpy(t->set[t->n_set++], set, sizeof *t->set);
    }
    return intern(t, SET, 0, (uint32_t)i, 0, 0, 0);
}

uint32_t term_range(struct terms *t, int lo, int hi)
{
    uint64_t set[4] = {0};
    for (int b = lo; b <= hi; b++)
        put(set, b);
    return term_bytes_of(t, set);
}

static int compare_texts(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    const int order = memcmp(x->n ? x->p : "", y->n ? y->p : "", x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* Returns a hash of n texts. */
static uint64_t list_hash(const struct text *item, int n)
{
    uint64_t h = (uint64_t)n;
    for (int i = 0; i < n; i++) {
        h = mix(h, item[i].n);
        for (size_t k = 0; k < item[i].n; k++)
            h = mix(h, (uint8_t)item[i].p[k]);
    }
    return h;
}

/* Returns the index of a list with these sorted texts, copied in one piece if there is no such list. */
static uint32_t intern_list(struct terms *t, const struct text *item, int n)
{
    const uint64_t hash = list_hash(item, n);
    if (t->n_list_slots <= 2 * (size_t)t->n_list)
        place_lists(t);
    const size_t slot = list_slot(t, hash, n);
    if (t->list_slot[slot])
        return t->list_slot[slot] - 1;
    size_t bytes = (size_t)n * sizeof *item;
    for (int i = 0; i < n; i++)
        bytes += item[i].n;
    struct list l = {memory_alloc(bytes), n, hash, bytes};
    char *p = (char *)(l.item + n);
    for (int i = 0; i < n; i++) {
        l.item[i] = (struct text){p, item[i].n};
        if (item[i].n)
            memcpy(p, item[i].p, item[i].n);
        p += item[i].n;
    }
    t->list_bytes += bytes;
    t->list = memory_grow(t->list, t->n_list, &t->cap_list, sizeof *t->list);
    t->list[t->n_list] = l;
    t->list_slot[slot] = (uint32_t)t->n_list + 1;
    return (uint32_t)t->n_list++;
}

/* Returns the term of the texts lo .. hi-1 of a list behind their first `pos` bytes, which they share. */
static uint32_t one_of(struct terms *t, uint32_t list, int lo, int hi, uint32_t pos)
{
    if (lo == hi)
        return TERM_NONE;
    const struct text *item = t->list[list].item;
    const bool ends = item[lo].n == pos;
    if (ends && hi == lo + 1)
        return TERM_EMPTY;
    return intern(t, ONE_OF, ends ? MAY_END : 0, list, (uint32_t)lo, (uint32_t)hi, pos);
}

uint32_t term_one_of(struct terms *t, const struct text *list, int n)
{
    t->full |= t->work > t->most_work;
    if (t->full)
        return TERM_NONE;
    struct text *sorted = memory_alloc((size_t)(n + 1) * sizeof *sorted);
    if (n)
        memcpy(sorted, list, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_texts);
    int k = 0;
    for (int i = 0; i < n; i++)
        if (!k || compare_texts(&sorted[k - 1], &sorted[i]))
            sorted[k++] = sorted[i];
    const uint32_t id = k ? one_of(t, intern_list(t, sorted, k), 0, k, 0) : TERM_NONE;
    free(sorted);
    return id;
}

uint32_t term_literal(struct terms *t, struct text bytes) { return term_one_of(t, &bytes, 1); }

uint32_t term_cat(struct terms *t, uint32_t a, uint32_t b)
{
    if (a == TERM_NONE || b == TERM_NONE)
        return TERM_NONE;
    if (a == TERM_EMPTY)
        return b;
    if (b == TERM_EMPTY)
        return a;
    if (at(t, a)->kind == CAT) {
        const uint32_t head = at(t, a)->a, tail = term_cat(t, at(t, a)->b, b);
        return tail == TERM_NONE ? TERM_NONE : term_cat(t, head, tail);
    }
    const unsigned f = at(t, a)->flags, g = at(t, b)->flags;
    unsigned flags = (f & (KEY_BEGINS | IN_KEY | TAKES)) | (f & g & MAY_END) | ((f | g) & NEGATED);
    if (f & MAY_END)
        flags |= g & (KEY_BEGINS | IN_KEY | TAKES);
    return intern(t, CAT, flags, a, b, 0, 0);
}

static int compare_ids(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Returns the union or the intersection of n terms, none of them of that kind itself: sorted, each once. */
static uint32_t join(struct terms *t, enum kind kind, uint32_t *list, int n)
{
    qsort(list, (size_t)n, sizeof *list, compare_ids);
    t->work += (uint64_t)n;
    int k = 0;
    for (int i = 0; i < n; i++)
        if (!k || list[k - 1] != list[i])
            list[k++] = list[i];
    uint32_t id = list[k - 1];
    for (int i = k - 2; i >= 0; i--) {
        const unsigned f = at(t, list[i])->flags, g = at(t, id)->flags;
        const unsigned either = (f | g) & (NEGATED | KEY_BEGINS | IN_KEY | TAKES);
        id = kind == ALT ? intern(t, ALT, either | ((f | g) & MAY_END), list[i], id, 0, 0)
                         : intern(t, AND, NEGATED | (f & g & MAY_END), list[i], id, 0, 0);
    }
    return id;
}

struct ids { uint32_t *id; int n, cap; uint32_t few[32]; };

/* Appends an id; the first 32 take no memory of the heap. */
static void ids_put(struct ids *l, uint32_t id)
{
    if (l->n < 32) {
        l->few[l->n++] = id;
        l->id = l->few;
        return;
    }
    if (l->id == l->few) {
        l->cap = 64;
        l->id = memcpy(memory_alloc(64 * sizeof id), l->few, sizeof l->few);
    }
    l->id = memory_grow(l->id, l->n, &l->cap, sizeof id);
    l->id[l->n++] = id;
}

static void ids_free(struct ids *l)
{
    if (l->id != l->few)
        free(l->id);
}

/* Appends the parts of a term of this kind to `l`, or the term itself if it is of another kind. */
static void put_parts(const struct terms *t, struct ids *l, enum kind kind, uint32_t id)
{
    for (; at(t, id)->kind == kind; id = at(t, id)->b)
        ids_put(l, at(t, id)->a);
    ids_put(l, id);
}

/* --- Unions and intersections --- */

static bool is_star(const struct terms *t, uint32_t id)
{
    const struct node *n = at(t, id);
    return n->kind == REPEAT && n->b == 0 && (int32_t)n->c == TERM_INFINITE;
}

/* True if each byte of a set is one of the texts of `a`. */
static bool has_bytes(const struct terms *t, uint32_t a, const uint64_t set[4])
{
    for (; at(t, a)->kind == ALT; a = at(t, a)->b)
        if (has_bytes(t, at(t, a)->a, set))
            return true;
    const uint64_t *own = at(t, a)->kind == SET ? t->set[at(t, a)->a] : NULL;
    for (int i = 0; i < 4 && own; i++)
        if (set[i] & ~own[i])
            return false;
    return own;
}

/* True if all texts of `a` are of the star of a term, as far as the parts of `a` show. */
static bool within(const struct terms *t, uint32_t a, uint32_t star, int *steps)
{
    const struct node n = *at(t, a), *s = at(t, star);
    if (a == star || a == s->a || a == TERM_EMPTY)
        return true;
    if (--*steps < 0)
        return false;
    switch ((enum kind)n.kind) {
    case SET: return has_bytes(t, s->a, t->set[n.a]);
    case CAT: case ALT: return within(t, n.a, star, steps) && within(t, n.b, star, steps);
    case AND: return within(t, n.a, star, steps) || within(t, n.b, star, steps);
    case REPEAT: case LIVE: return within(t, n.a, star, steps);
    default: return false;
    }
}

static bool is_within(struct terms *t, uint32_t a, uint32_t star)
{
    int steps = N_WITHIN;
    const bool result = within(t, a, star, &steps);
    t->work += (uint64_t)(N_WITHIN - steps);
    return result;
}

/* Drops the terms of a union that a star among them has, and the stars of an intersection that have another term of it.  Returns how many stay; of
 * an intersection with the opposite of such a star 0, since nothing is in it. */
static int without_known(struct terms *t, enum kind kind, uint32_t *list, int n)
{
    for (int i = 0; i < n; i++) {
        const bool opposite = kind == AND && at(t, list[i])->kind == NOT;
        const uint32_t star = opposite ? at(t, list[i])->a : list[i];
        bool stays = true;
        for (int k = 0; k < n && stays && (opposite || is_star(t, star)); k++) {
            if (k == i || !(list[k] == star || (is_star(t, star) && is_within(t, list[k], star))))
                continue;
            if (opposite)
                return 0;
            if (kind == AND)
                stays = false;
            else
                list[k] = star;
        }
        if (!stays) {
            list[i] = list[--n];
            i = -1;
        }
    }
    return n;
}

struct headed { uint32_t head, id; };

static int compare_heads(const void *a, const void *b)
{
    const struct headed *x = a, *y = b;
    return x->head != y->head ? (x->head > y->head) - (x->head < y->head) : (x->id > y->id) - (x->id < y->id);
}

/* Joins the concatenations of a union that begin with the same term: their tails become one union.  Returns how many terms are left. */
static int factored(struct terms *t, uint32_t *list, int n)
{
    struct headed few[32], *h = n > 32 ? memory_alloc((size_t)n * sizeof *h) : few;
    uint32_t *tails = NULL;
    int kept = 0;
    for (int i = 0; i < n; i++)
        h[i] = (struct headed){at(t, list[i])->kind == CAT ? at(t, list[i])->a : 0, list[i]};
    qsort(h, (size_t)n, sizeof *h, compare_heads);
    for (int i = 0, end; i < n; i = end) {
        int n_tails = 0;
        for (end = i + 1; h[i].head && end < n && h[end].head == h[i].head;)
            end++;
        list[kept++] = h[i].id;
        if (end == i + 1)
            continue;
        if (!tails)
            tails = memory_alloc((size_t)n * sizeof *tails);
        for (int k = i; k < end; k++)
            tails[n_tails++] = at(t, h[k].id)->b;
        list[kept - 1] = term_cat(t, h[i].head, term_alts(t, tails, n_tails));
    }
    free(tails);
    if (h != few)
        free(h);
    return kept;
}

static bool is_all(const struct terms *t, uint32_t id) { return at(t, id)->kind == NOT && at(t, id)->a == TERM_NONE; }

uint32_t term_alts(struct terms *t, uint32_t *list, int n)
{
    struct ids l = {0};
    uint32_t all = TERM_NONE;
    bool ends = false, empty = false;
    for (int i = 0; i < n; i++) {
        if (list[i] == TERM_NONE)
            continue;
        if (is_all(t, list[i]))
            all = list[i];
        if (list[i] == TERM_EMPTY) {
            empty = true;
            continue;
        }
        ends |= at(t, list[i])->flags & MAY_END;
        put_parts(t, &l, ALT, list[i]);
    }
    if (empty && !ends)
        ids_put(&l, TERM_EMPTY);
    l.n = without_known(t, ALT, l.id, l.n);
    l.n = l.n > 1 ? factored(t, l.id, l.n) : l.n;
    const uint32_t id = all ? all : l.n ? join(t, ALT, l.id, l.n) : TERM_NONE;
    ids_free(&l);
    return id;
}

uint32_t term_alt(struct terms *t, uint32_t a, uint32_t b)
{
    return term_alts(t, (uint32_t[]){a, b}, 2);
}

/* Returns the intersection of n terms; the list is scratch. */
static uint32_t ands(struct terms *t, uint32_t *list, int n)
{
    struct ids l = {0};
    bool empty = false, ends = true;
    for (int i = 0; i < n; i++) {
        if (list[i] == TERM_NONE) {
            ids_free(&l);
            return TERM_NONE;
        }
        empty |= list[i] == TERM_EMPTY;
        ends &= at(t, list[i])->flags & MAY_END;
        if (!is_all(t, list[i]))
            put_parts(t, &l, AND, list[i]);
    }
    uint32_t id = empty ? (ends ? TERM_EMPTY : TERM_NONE) : list[0];
    if (!empty && l.n) {
        const int left = without_known(t, AND, l.id, l.n);
        id = left ? join(t, AND, l.id, left) : TERM_NONE;
    }
    ids_free(&l);
    return id;
}

uint32_t term_and(struct terms *t, uint32_t a, uint32_t b)
{
    return ands(t, (uint32_t[]){a, b}, 2);
}

uint32_t term_not(struct terms *t, uint32_t a)
{
    if (at(t, a)->kind == NOT)
        return at(t, a)->a;
    return intern(t, NOT, NEGATED | (at(t, a)->flags & MAY_END ? 0 : MAY_END), a, 0, 0, 0);
}

uint32_t term_repeat(struct terms *t, uint32_t a, int min, int max)
{
    if (max == 0 || a == TERM_EMPTY || (a == TERM_NONE && min == 0))
        return TERM_EMPTY;
    if (a == TERM_NONE || (min == 1 && max == 1))
        return a;
    const unsigned f = at(t, a)->flags;
    if (f & MAY_END)
        min = 0;
    if (at(t, a)->kind == REPEAT && min == 0 && max == TERM_INFINITE && at(t, a)->b <= 1 && (int32_t)at(t, a)->c == TERM_INFINITE)
        a = at(t, a)->a;
    const unsigned flags = (f & NEGATED) | (min == 0 ? MAY_END : 0);
    return intern(t, REPEAT, flags, a, (uint32_t)min, (uint32_t)max, 0);
}

/* Returns the term of the UTF-8 of the code points lo .. hi, all of which have n bytes. */
static uint32_t same_length(struct terms *t, const uint8_t *lo, const uint8_t *hi, int n)
{
    if (n == 1)
        return term_range(t, lo[0], hi[0]);
    if (lo[0] == hi[0])
        return term_cat(t, term_range(t, lo[0], lo[0]), same_length(t, lo + 1, hi + 1, n - 1));
    static const uint8_t least[3] = {0x80, 0x80, 0x80}, most[3] = {0xBF, 0xBF, 0xBF};
    uint32_t part[3] = {0};
    int first = lo[0], last = hi[0];
    if (memcmp(lo + 1, least, (size_t)n - 1)) {
        part[0] = term_cat(t, term_range(t, first, first), same_length(t, lo + 1, most, n - 1));
        first++;
    }
    if (memcmp(hi + 1, most, (size_t)n - 1)) {
        part[1] = term_cat(t, term_range(t, last, last), same_length(t, least, hi + 1, n - 1));
        last--;
    }
    if (first <= last)
        part[2] = term_cat(t, term_range(t, first, last), same_length(t, least, most, n - 1));
    return term_alts(t, part, 3);
}

uint32_t term_char(struct terms *t, uint32_t lo, uint32_t hi)
{
    static const uint32_t first[] = {0, 0x80, 0x800, 0xE000, 0x10000}, last[] = {0x7F, 0x7FF, 0xD7FF, 0xFFFF, 0x10FFFF};
    uint32_t part[5] = {0};
    for (int i = 0; i < 5; i++) {
        const uint32_t from = lo > first[i] ? lo : first[i], to = hi < last[i] ? hi : last[i];
        if (from > to)
            continue;
        char a[4], b[4];
        const size_t n = utf8_encode(from, a);
        utf8_encode(to, b);
        part[i] = same_length(t, (uint8_t *)a, (uint8_t *)b, (int)n);
    }
    return term_alts(t, part, 5);
}

uint32_t term_any_char(struct terms *t) { return t->any_char; }

static uint32_t until(struct terms *t, uint32_t list, uint32_t pos, uint32_t how)
{
    return intern(t, UNTIL, how == UNTIL_NEVER ? MAY_END : 0, list, pos, how, 0);
}

uint32_t term_until(struct terms *t, struct text end, bool never)
{
    CHECK(end.n);
    return until(t, intern_list(t, &end, 1), 0, never ? UNTIL_NEVER : UNTIL_FOUND);
}

/* --- Multiples --- */

static uint64_t power10(int n)
{
    uint64_t p = 1;
    while (n-- > 0)
        p *= 10;
    return p;
}

/* Returns the term of a place in the digits of a multiple, TERM_NONE if no multiple begins so. */
static uint32_t multiple(struct terms *t, uint32_t of, uint32_t rest, int scale, int d)
{
    unsigned flags = 0;
    if (d >= POINT) {
        const int left = d - POINT < scale ? scale - (d - POINT) : 0;
        const uint64_t x = (uint64_t)rest * (power10(left) % of) % of;
        if ((of - x) % of > power10(left) - 1)
            return TERM_NONE;
        flags = d > POINT && x == 0 ? MAY_END : 0;
    } else if (d != NO_DIGIT) {
        flags = (uint64_t)rest * (power10(scale) % of) % of == 0 ? MAY_END : 0;
    }
    return intern(t, MULTIPLE, flags, of, rest, (uint32_t)scale, (uint32_t)d);
}

uint32_t term_multiple(struct terms *t, uint32_t of, int scale)
{
    CHECK(of > 0 && of <= 1000000000 && scale >= 0 && scale <= 9);
    return multiple(t, of, 0, scale, NO_DIGIT);
}

/* Returns what may follow the byte in a number that is a multiple of n.a; n.b is the remainder so far. */
static uint32_t next_multiple(struct terms *t, struct node n, uint8_t byte)
{
    const int d = (int)n.d, scale = (int)n.c;
    if (byte == '.')
        return d == DIGITS || d == ZERO ? multiple(t, n.a, n.b, scale, POINT) : TERM_NONE;
    if (byte < '0' || byte > '9' || d == ZERO)
        return TERM_NONE;
    const uint32_t rest = (uint32_t)(((uint64_t)n.b * 10 + byte - '0') % n.a);
    if (d < POINT)
        return multiple(t, n.a, rest, scale, d == NO_DIGIT && byte == '0' ? ZERO : DIGITS);
    if (d - POINT < scale)
        return multiple(t, n.a, rest, scale, d + 1);
    return byte == '0' && d - POINT < scale + N_ZEROS ? multiple(t, n.a, n.b, scale, d + 1) : TERM_NONE;
}

/* --- JSON strings --- */

static uint32_t next(struct terms *t, uint32_t id, uint8_t byte);
static uint32_t next_looked_up(struct terms *t, uint32_t id, uint8_t byte);

/* Returns the derivative of a regular term, TERM_NONE if it is empty. */
static uint32_t next_live(struct terms *t, uint32_t a, uint8_t byte)
{
    const uint32_t id = next_looked_up(t, a, byte);
    return term_is_none(t, id) ? TERM_NONE : id;
}

static uint32_t next_code_point(struct terms *t, uint32_t a, uint32_t cp)
{
    char utf8[4];
    const size_t n = utf8_encode(cp, utf8);
    for (size_t i = 0; i < n && a; i++)
        a = next_live(t, a, (uint8_t)utf8[i]);
    return a;
}

static uint32_t string(struct terms *t, uint32_t a, uint32_t how, uint32_t phase, uint32_t value)
{
    if (a == TERM_NONE)
        return TERM_NONE;
    const unsigned flags = how & IS_KEY ? IN_KEY | (how & AT_START ? KEY_BEGINS : 0) : 0;
    return intern(t, STRING, flags, a, how, phase, value);
}

uint32_t term_string(struct terms *t, uint32_t a, bool key)
{
    return term_is_none(t, a) ? TERM_NONE : string(t, a, key ? IS_KEY | AT_START : 0, PLAIN, 0);
}

/* True if the term is of characters of any kind, and another one may come. */
static bool takes_any(const struct terms *t, uint32_t a)
{
    if (at(t, a)->kind == CAT)
        a = at(t, a)->a;
    return at(t, a)->kind == REPEAT && at(t, a)->a == t->any_char;
}

/* True if the term has a string, as far as that is known without a search. */
static bool is_live(const struct terms *t, uint32_t a)
{
    return a != TERM_NONE && (!(at(t, a)->flags & NEGATED) || at(t, a)->flags & (MAY_END | FOUND_LIVE));
}

/* True if some text of the term begins with a character of lo .. hi. */
static bool takes_char(struct terms *t, uint32_t a, uint32_t lo, uint32_t hi)
{
    for (; lo <= hi && lo < 0x80; lo++)
        if (!term_is_none(t, next_looked_up(t, a, (uint8_t)lo)))
            return true;
    const uint32_t begins = term_cat(t, term_char(t, lo, hi), term_not(t, TERM_NONE));
    return lo <= hi && !term_is_none(t, term_and(t, a, begins));
}

static const char short_escapes[] = "\"\\/bfnrt", short_bytes[] = "\"\\/\b\f\n\r\t";

/* True for a control character that has no short escape. */
static bool is_long(uint32_t cp) { return cp < 0x20 && (!cp || !strchr(short_bytes, (int)cp)); }

static bool may_escape(struct terms *t, uint32_t a, bool key)
{
    if (takes_any(t, a))
        return true;
    return key ? takes_char(t, a, 0, 0x1F) || takes_char(t, a, '"', '"') || takes_char(t, a, '\\', '\\') : takes_char(t, a, 0, 0x10FFFF);
}

/* Returns the term of the place behind the first n of the four hex digits of an escape; `value` holds them. */
static uint32_t in_hex(struct terms *t, struct node s, int n, uint32_t value)
{
    const uint32_t lo = value << (16 - 4 * n), hi = lo | ((1u << (16 - 4 * n)) - 1);
    if (n == 4 && (value < 0xD800 || value > 0xDFFF))
        return (s.b & IS_KEY) && !is_long(value) ? TERM_NONE : string(t, next_code_point(t, s.a, value), s.b & ~AT_START, PLAIN, 0);
    bool ok = false;
    if (s.b & IS_KEY) {
        for (uint32_t cp = lo; cp <= hi && cp < 0x20; cp++)
            ok |= is_long(cp) && next_code_point(t, s.a, cp);
    } else if (takes_any(t, s.a)) {
        ok = lo < 0xDC00 || hi > 0xDFFF;
    } else {
        ok = takes_char(t, s.a, lo, hi < 0xD7FF ? hi : 0xD7FF) || takes_char(t, s.a, lo > 0xE000 ? lo : 0xE000, hi);
        const uint32_t first = lo > 0xD800 ? lo : 0xD800, last = hi < 0xDBFF ? hi : 0xDBFF;
        ok |= first <= last && takes_char(t, s.a, 0x10000 + ((first - 0xD800) << 10), 0x10000 + ((last - 0xD800) << 10 | 0x3FF));
    }
    return !ok ? TERM_NONE : n < 4 ? string(t, s.a, s.b & ~AT_START, HEX + (uint32_t)n, value) : string(t, s.a, s.b & ~AT_START, LOW_ESCAPE, value);
}

/* Returns the term of the place behind the first n hex digits of the second half of a pair; `value` is the first half << 16 and those digits. */
static uint32_t in_low(struct terms *t, struct node s, int n, uint32_t value)
{
    const uint32_t high = value >> 16, lo = (value & 0xFFFF) << (16 - 4 * n), hi = lo | ((1u << (16 - 4 * n)) - 1);
    const uint32_t first = lo > 0xDC00 ? lo : 0xDC00, last = hi < 0xDFFF ? hi : 0xDFFF, plane = 0x10000 + ((high - 0xD800) << 10);
    if (first > last || (!takes_any(t, s.a) && !takes_char(t, s.a, plane + first - 0xDC00, plane + last - 0xDC00)))
        return TERM_NONE;
    return n == 4 ? string(t, next_code_point(t, s.a, plane + first - 0xDC00), s.b, PLAIN, 0) : string(t, s.a, s.b, LOW_HEX + (uint32_t)n, value);
}

static int hex_digit(uint8_t byte, bool lower)
{
    return byte >= '0' && byte <= '9' ? byte - '0' : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
         : byte >= 'A' && byte <= 'F' && !lower ? byte - 'A' + 10 : -1;
}

static uint32_t next_escaped(struct terms *t, struct node s, uint8_t byte)
{
    if (byte == 'u')
        return in_hex(t, s, 0, 0);
    const char *p = byte ? strchr(short_escapes, byte) : NULL;
    if (!p || ((s.b & IS_KEY) && byte == '/'))
        return TERM_NONE;
    return string(t, next_live(t, s.a, (uint8_t)short_bytes[p - short_escapes]), s.b & ~AT_START, PLAIN, 0);
}

/* Returns what may follow the byte within a JSON string, escapes included. */
static uint32_t next_string(struct terms *t, struct node s, uint8_t byte)
{
    const bool key = s.b & IS_KEY;
    const int digit = hex_digit(byte, key);
    switch (s.c) {
    case PLAIN:
        if (byte == '"')
            return at(t, s.a)->flags & MAY_END ? TERM_EMPTY : TERM_NONE;
        if (byte == '\\')
            return may_escape(t, s.a, key) ? string(t, s.a, s.b & ~AT_START, ESCAPE, 0) : TERM_NONE;
        return byte < 0x20 ? TERM_NONE : string(t, next_live(t, s.a, byte), s.b & ~AT_START, PLAIN, 0);
    case ESCAPE:     return next_escaped(t, s, byte);
    case LOW_ESCAPE: return byte == '\\' ? string(t, s.a, s.b, LOW_U, s.d) : TERM_NONE;
    case LOW_U:      return byte == 'u' ? string(t, s.a, s.b, LOW_HEX, s.d << 16) : TERM_NONE;
    }
    if (digit < 0)
        return TERM_NONE;
    if (s.c < LOW_ESCAPE)
        return in_hex(t, s, (int)s.c - HEX + 1, s.d << 4 | (uint32_t)digit);
    return in_low(t, s, (int)s.c - LOW_HEX + 1, (s.d & 0xFFFF0000) | ((s.d & 0xFFFF) << 4 | (uint32_t)digit));
}

/* --- Other wrappers --- */

uint32_t term_live(struct terms *t, uint32_t a)
{
    if (!(at(t, a)->flags & NEGATED))
        return a;
    if (term_is_none(t, a))
        return TERM_NONE;
    return intern(t, LIVE, at(t, a)->flags & MAY_END, a, 0, 0, 0);
}

uint32_t term_lazy(struct terms *t, int kind, uint32_t a, uint32_t b) { return intern(t, LAZY, 0, (uint32_t)kind, a, b, 0); }
uint32_t term_taker(struct terms *t, uint32_t a, uint32_t b) { return intern(t, TAKER, IN_KEY | TAKES, a, b, 0, 0); }

static uint32_t body(struct terms *t, uint32_t id)
{
    if (!at(t, id)->body) {
        const struct node n = *at(t, id);
        const uint32_t made = t->hooks.expand(t->hooks.arg, (int)n.a, n.b, n.c);
        if (t->full)
            return TERM_NONE;
        if (t->starved)                 /* it may lack what a search would have found */
            return made;
        at(t, id)->body = 1 + made;
    }
    return at(t, id)->body - 1;
}

/* --- Derivatives --- */

/* Returns the first text of lo .. hi-1 whose byte `pos` is `byte` or greater. */
static int first_with(const struct text *item, int lo, int hi, uint32_t pos, int byte)
{
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        if ((uint8_t)item[mid].p[pos] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Returns what may follow the byte in one of the sorted texts n.b .. n.c - 1, which are the same up to byte n.d. */
static uint32_t next_one_of(struct terms *t, struct node n, uint8_t byte)
{
    const struct text *item = t->list[n.a].item;
    const int lo = first_with(item, (int)n.b + (item[n.b].n == n.d), (int)n.c, n.d, byte);
    return one_of(t, n.a, lo, first_with(item, lo, (int)n.c, n.d, byte + 1), n.d + 1);
}

/* Knuth, Morris and Pratt, with the failure function worked out for the one byte. */
static uint32_t next_until(struct terms *t, struct node n, uint8_t byte)
{
    const struct text end = t->list[n.a].item[0];
    for (size_t k = n.b + 1; k > 0; k--)
        if ((uint8_t)end.p[k - 1] == byte && !memcmp(end.p, end.p + (n.b + 1 - k), k - 1)) {
            if (k == end.n)
                return n.c == UNTIL_NEVER ? TERM_NONE : TERM_EMPTY;
            return until(t, n.a, (uint32_t)k, n.c);
        }
    return until(t, n.a, 0, n.c);
}

/* Returns the alternative of what follows the byte in each part. */
static uint32_t next_alt(struct terms *t, uint32_t id, uint8_t byte)
{
    struct ids parts = {0}, l = {0};
    put_parts(t, &parts, ALT, id);
    for (int i = 0; i < parts.n; i++) {
        const uint32_t part = next_looked_up(t, parts.id[i], byte);
        if (part)
            ids_put(&l, part);
    }
    const uint32_t result = l.n == 1 ? l.id[0] : term_alts(t, l.id, l.n);
    ids_free(&parts);
    ids_free(&l);
    return result;
}

/* Returns the intersection of what follows the byte in each part. */
static uint32_t next_and(struct terms *t, uint32_t id, uint8_t byte)
{
    struct ids parts = {0};
    put_parts(t, &parts, AND, id);
    bool left = true;
    for (int i = 0; i < parts.n && left; i++)
        left = (parts.id[i] = next_looked_up(t, parts.id[i], byte)) != TERM_NONE;
    const uint32_t result = left ? ands(t, parts.id, parts.n) : TERM_NONE;
    ids_free(&parts);
    return result;
}

static uint32_t next_repeat(struct terms *t, struct node n, uint8_t byte)
{
    const uint32_t first = next(t, n.a, byte);
    if (!first)
        return TERM_NONE;
    const int min = (int)n.b, max = (int32_t)n.c;
    return term_cat(t, first, term_repeat(t, n.a, min > 0 ? min - 1 : 0, max == TERM_INFINITE ? max : max - 1));
}

/* Returns the term for what may follow once `byte` has been read; TERM_NONE: the byte is not allowed. */
static uint32_t next(struct terms *t, uint32_t id, uint8_t byte)
{
    const struct node n = *at(t, id);
    if (++t->work > t->most_work)
        t->full = true;
    if (t->full)
        return TERM_NONE;
    switch ((enum kind)n.kind) {
    case SET:      return has(t->set[n.a], byte) ? TERM_EMPTY : TERM_NONE;
    case ONE_OF:   return next_one_of(t, n, byte);
    case CAT: {
        const bool joined = at(t, n.a)->kind == ALT || at(t, n.a)->kind == AND;
        const uint32_t head = term_cat(t, joined ? next_looked_up(t, n.a, byte) : next(t, n.a, byte), n.b);
        return at(t, n.a)->flags & MAY_END ? term_alt(t, head, next_looked_up(t, n.b, byte)) : head;
    }
    case ALT:      return next_alt(t, id, byte);
    case AND:      return next_and(t, id, byte);
    case NOT:      return term_not(t, next_looked_up(t, n.a, byte));
    case REPEAT:   return next_repeat(t, n, byte);
    case UNTIL:    return next_until(t, n, byte);
    case MULTIPLE: return next_multiple(t, n, byte);
    case STRING:   return next_string(t, n, byte);
    case LIVE:     return term_live(t, next(t, n.a, byte));
    case LAZY:     return next_looked_up(t, body(t, id), byte);
    case NONE: case EMPTY: case TAKER: break;
    }
    return TERM_NONE;
}

/* --- Classes of bytes, rows, searches --- */

static void cut_set(const uint64_t set[4], uint64_t cut[4])
{
    for (int b = 1; b < 256; b++)
        if (has(set, b) != has(set, b - 1))
            put(cut, b);
}

static void cut_between(uint64_t cut[4], int lo, int hi)
{
    put(cut, lo);
    if (hi < 255)
        put(cut, hi + 1);
}

/* Cuts out each byte of a text. */
static void cut_each(uint64_t cut[4], const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cut_between(cut, (uint8_t)bytes[i], (uint8_t)bytes[i]);
}

/* Marks the bytes at which the derivative may differ from that of the byte below. */
static void cuts(struct terms *t, uint32_t id, uint64_t cut[4])
{
    for (; at(t, id)->kind == ALT || at(t, id)->kind == AND; id = at(t, id)->b)
        cuts(t, at(t, id)->a, cut);
    const struct node n = *at(t, id);
    t->work++;
    switch ((enum kind)n.kind) {
    case SET:    cut_set(t->set[n.a], cut); break;
    case ONE_OF:
        for (int i = (int)n.b + (t->list[n.a].item[n.b].n == n.d); i < (int)n.c;) {
            const struct text *item = t->list[n.a].item;
            cut_each(cut, item[i].p + n.d, 1);
            i = first_with(item, i, (int)n.c, n.d, (uint8_t)item[i].p[n.d] + 1);
        }
        break;
    case CAT:
        cuts(t, n.a, cut);
        if (at(t, n.a)->flags & MAY_END)
            cuts(t, n.b, cut);
        break;
    case NOT: case REPEAT: case LIVE: cuts(t, n.a, cut); break;
    case UNTIL:    cut_each(cut, t->list[n.a].item[0].p, t->list[n.a].item[0].n); break;
    case MULTIPLE: cut_each(cut, "0123456789.", 11); break;
    case STRING:
        if (n.c == PLAIN) {
            cut_each(cut, "\"\\", 2);
            put(cut, 0x20);
            cuts(t, n.a, cut);
        } else {
            cut_each(cut, "\"\\/bfnrtu0123456789abcdefABCDEF", 31);
        }
        break;
    case LAZY:   cuts(t, body(t, id), cut); break;
    case TAKER:  cut_each(cut, ":", 1); break;
    case NONE: case EMPTY: case ALT: case AND: break;
    }
}

/* The terms that a search has found, each with the one that it came from; those that were not looked at are in lists, by how promising they are. */
enum { N_LISTS = 256 };
struct search { struct found { uint32_t id; int from, depth, before; } *seen; uint32_t *slot; int n, cap, list[N_LISTS]; uint32_t n_slots; };

static uint32_t search_slot(const struct search *s, uint32_t id)
{
    uint32_t k = id * 2654435761u >> 8 & (s->n_slots - 1);
    while (s->slot[k] && s->seen[s->slot[k] - 1].id != id)
        k = (k + 1) & (s->n_slots - 1);
    return k;
}

/* Puts a term into a list, unless the search has it by a way that is as short. */
static void search_put(struct search *s, uint32_t id, int from, int list)
{
    if ((uint32_t)s->n * 2 >= s->n_slots) {
        s->n_slots = s->n_slots ? s->n_slots * 4 : 64;
        free(s->slot);
        s->slot = memory_zeroed(s->n_slots, sizeof *s->slot);
        for (int i = 0; i < s->n; i++)
            s->slot[search_slot(s, s->seen[i].id)] = (uint32_t)i + 1;
    }
    const uint32_t k = search_slot(s, id);
    const int depth = from < 0 ? 0 : s->seen[from].depth + 1;
    if (s->slot[k] && s->seen[s->slot[k] - 1].depth <= depth)
        return;
    list = list < N_LISTS ? list : N_LISTS - 1;
    s->seen = memory_grow(s->seen, s->n, &s->cap, sizeof *s->seen);
    s->seen[s->n++] = (struct found){id, from, depth, s->list[list]};
    s->list[list] = s->n;
    s->slot[k] = (uint32_t)s->n;
}

/* Takes the newest term of the first list that has one, which was not found again by a shorter way; returns its index, -1 if there is none. */
static int search_take(struct search *s)
{
    for (int k = 0; k < N_LISTS; k++)
        while (s->list[k]) {
            const int i = s->list[k] - 1;
            s->list[k] = s->seen[i].before;
            if (s->slot[search_slot(s, s->seen[i].id)] == (uint32_t)i + 1)
                return i;
        }
    return -1;
}

/* Returns how many parts of an intersection may not end. */
static int lacks(const struct terms *t, uint32_t id)
{
    int n = 0;
    for (; at(t, id)->kind == AND; id = at(t, id)->b)
        n += !(at(t, at(t, id)->a)->flags & MAY_END);
    return n + !(at(t, id)->flags & MAY_END);
}

/* Searches for a string.  One that is not found within the bounds is not there, and terms_unsure() says so: the terms on the way to a string that
 * was found are known to have one, so nobody ends where nothing follows. */
bool term_is_none(struct terms *t, uint32_t a)
{
    if (a == TERM_NONE || at(t, a)->flags & FOUND_NONE || is_live(t, a))
        return !is_live(t, a);
    struct search s = {0};
    const uint64_t before = t->work, most = before + (t->most_search < t->searches ? t->most_search : t->searches);
    uint32_t way = TERM_NONE;
    int live = -1, i = 0;
    search_put(&s, a, -1, 0);
    while (live < 0 && s.n < N_SEARCH && t->work < most && !t->full && (i = search_take(&s)) >= 0) {
        uint64_t cut[4] = {1};
        cuts(t, s.seen[i].id, cut);
        for (int b = 0; b < 256 && live < 0; b++) {
            const uint32_t id = has(cut, b) ? next(t, s.seen[i].id, (uint8_t)b) : TERM_NONE;
            if (id == TERM_NONE || at(t, id)->flags & FOUND_NONE)
                continue;
            if (is_live(t, id)) {
                live = i;
                way = id;
            } else {
                search_put(&s, id, i, lacks(t, id));
            }
        }
    }
    const bool whole = i < 0 && !t->full;               /* nothing is left to look at */
    const bool starved = live < 0 && !whole && t->searches < t->most_search;
    for (int k = live; k >= 0; k = s.seen[k].from) {
        at(t, s.seen[k].id)->flags |= FOUND_LIVE;
        at(t, s.seen[k].id)->body = 1 + way;
        way = s.seen[k].id;
    }
    for (int k = 0; k < (whole ? s.n : 1) && live < 0 && !t->full && !starved; k++)
        at(t, s.seen[k].id)->flags |= FOUND_NONE;
    t->unsure |= live < 0 && !whole;
    t->starved |= starved;
    t->searches -= t->work - before < t->searches ? t->work - before : t->searches;
    free(s.slot);
    free(s.seen);
    return live < 0;
}

/* Counts strings until there are `most`; *steps: derivatives that may be taken. */
static int count(struct terms *t, uint32_t a, int depth, int most, int *steps)
{
    uint64_t cut[4] = {1};
    int n = at(t, a)->flags & MAY_END ? 1 : 0;
    uint32_t id = TERM_NONE;
    if (at(t, a)->bytes > depth)
        return 0;
    cuts(t, a, cut);
    for (int b = 0; b < 256 && n < most && depth > 0; b++) {
        if (has(cut, b)) {
            id = *steps > 0 ? next_live(t, a, (uint8_t)b) : TERM_NONE;
            --*steps;
        }
        n += id && n < most ? count(t, id, depth - 1, most - n, steps) : 0;
    }
    return n;
}

int term_count(struct terms *t, uint32_t a, int depth, int most)
{
    int steps = 20000;
    const int n = a ? count(t, a, depth, most, &steps) : 0;
    t->unsure |= n < most && steps <= 0;
    return n;
}

/* Returns least_of_string() as far as it is known without a search, else -1. */
static int known_least(const struct terms *t, uint32_t a)
{
    const struct node *n = at(t, a);
    return n->flags & MAY_END ? 0 : n->least == NO_LEAST ? TERM_MANY : n->least - 1;
}

/* Returns the bytes of a STRING's shortest rest.  It is searched for by how many bytes it has at least (A*: Hart, Nilsson, Raphael 1968); terms on
 * the way know theirs then, and the next one, which stays as long as they do. */
static int least_of_string(struct terms *t, uint32_t a)
{
    int n = known_least(t, a), last = -1, i = 0;
    if (n >= 0)
        return n;
    if (next(t, a, '"') == TERM_EMPTY) {        /* as nearly everywhere */
        at(t, a)->least = 1 + 1;
        return 1;
    }
    struct search s = {0};
    const uint64_t before = t->work, most = t->most_search < t->searches ? t->most_search : t->searches;
    search_put(&s, a, -1, 0);
    while (last < 0 && s.n < N_SEARCH && t->work - before < most && !t->full && (i = search_take(&s)) >= 0) {
        const uint32_t from = s.seen[i].id;
        const int depth = s.seen[i].depth + 1;
        uint64_t cut[4] = {1};
        n = known_least(t, from);
        if (n >= 0) {
            last = i;
            continue;
        }
        cuts(t, from, cut);
        for (int b = 0; b < 256; b++) {
            const uint32_t id = has(cut, b) ? next(t, from, (uint8_t)b) : TERM_NONE;
            const int known = id ? known_least(t, id) : TERM_MANY, all = depth + (known < 0 ? at(t, id)->bytes : known);
            if (all < NO_LEAST - 1)
                search_put(&s, id, i, all);
        }
    }
    const bool whole = i < 0 && !t->full;               /* nothing is left to look at */
    if (last < 0 && whole)
        at(t, a)->least = NO_LEAST;
    t->unsure |= last < 0 && !whole;
    t->starved |= last < 0 && !whole && most < N_SEARCH_WORK;
    for (int k = last < 0 ? -1 : s.seen[last].from; k >= 0; last = k, k = s.seen[k].from) {
        at(t, s.seen[k].id)->least = (uint8_t)(1 + ++n);
        at(t, s.seen[k].id)->body = 1 + s.seen[last].id;
    }
    t->searches -= t->work - before < t->searches ? t->work - before : t->searches;
    free(s.slot);
    free(s.seen);
    return last < 0 ? TERM_MANY : n;
}

int term_least(struct terms *t, uint32_t a)
{
    while (at(t, a)->kind == CAT)
        a = at(t, a)->a;
    int least = TERM_MANY;
    for (; at(t, a)->kind == ALT; a = at(t, a)->b) {
        const int of = term_least(t, at(t, a)->a);
        least = of < least ? of : least;
    }
    const struct node n = *at(t, a);
    const int of = n.kind == STRING && n.flags & IN_KEY ? least_of_string(t, a) : n.kind == TAKER ? 0 : n.kind == CAT ? term_least(t, a) : TERM_MANY;
    return of < least ? of : least;
}

uint32_t term_members(struct terms *t, uint32_t a)
{
    const struct node n = *at(t, a);
    if (!(n.flags & IN_KEY))
        return a;
    return n.kind == CAT ? term_cat(t, term_members(t, n.a), n.b)
         : n.kind == ALT ? term_alt(t, term_members(t, n.a), term_members(t, n.b)) : TERM_NONE;
}

bool term_matches(struct terms *t, uint32_t a, struct text bytes)
{
    for (size_t i = 0; i < bytes.n && a; i++)
        a = next(t, a, (uint8_t)bytes.p[i]);
    return at(t, a)->flags & MAY_END;
}

/* A derivative of a part for the bytes first .. end-1. */
struct span { uint32_t id; int first, end; };

/* Appends the derivatives of a part, one for each class of its bytes, and marks in `cut` where these begin.  Returns how many there are then. */
static int put_spans(struct terms *t, uint32_t part, struct span **span, int n, int *cap, uint64_t cut[4])
{
    uint64_t own[4] = {1};
    cuts(t, part, own);
    for (int b = 0, end; b < 256; b = end) {
        const uint32_t row = at(t, part)->row, id = row ? t->row[row - 1][b] : next(t, part, (uint8_t)b);
        for (end = b + 1; end < 256 && !has(own, end);)
            end++;
        put(cut, b);
        if (!id)
            continue;
        *span = memory_grow(*span, n, cap, sizeof **span);
        (*span)[n++] = (struct span){id, b, end};
    }
    return n;
}

/* Fills the row of a union or an intersection: a part takes a derivative for each class of its own bytes, not of all. */
static void fill_joined(struct terms *t, uint32_t id, uint32_t row[256])
{
    const enum kind kind = (enum kind)at(t, id)->kind;
    struct ids parts = {0}, l = {0};
    struct span *span = NULL;
    uint64_t cut[4] = {1};
    int n = 0, cap = 0;
    put_parts(t, &parts, kind, id);
    for (int i = 0; i < parts.n; i++)
        n = put_spans(t, parts.id[i], &span, n, &cap, cut);
    for (int b = 0; b < 256; b++) {
        if (!has(cut, b)) {
            row[b] = row[b - 1];
            continue;
        }
        ids_free(&l);
        l = (struct ids){0};
        for (int i = 0; i < n; i++)
            if (span[i].first <= b && b < span[i].end)
                ids_put(&l, span[i].id);
        row[b] = kind == ALT ? term_alts(t, l.id, l.n) : l.n == parts.n ? ands(t, l.id, l.n) : TERM_NONE;
    }
    ids_free(&parts);
    ids_free(&l);
    free(span);
}

/* Fills the row of a term, from one derivative for each class of bytes. */
static uint32_t fill_row(struct terms *t, uint32_t id)
{
    uint32_t row[256];
    uint64_t cut[4] = {1};
    if (at(t, id)->kind == ALT || at(t, id)->kind == AND) {
        fill_joined(t, id, row);
    } else {
        cuts(t, id, cut);
        for (int b = 0; b < 256; b++)
            row[b] = has(cut, b) ? next(t, id, (uint8_t)b) : row[b - 1];
    }
    if (t->full)
        return 0;
    if (t->n_row == N_ROWS)
        drop_rows(t);
    t->row = memory_grow(t->row, t->n_row, &t->cap_row, sizeof *t->row);
    memcpy(t->row[t->n_row++], row, sizeof row);
    return at(t, id)->row = (uint32_t)t->n_row;
}

/* The derivative by way of the term's row. */
static uint32_t next_looked_up(struct terms *t, uint32_t a, uint8_t byte)
{
    const struct node *n = at(t, a);
    if (t->full)
        return TERM_NONE;
    if (n->row) {
        t->work++;
        return t->row[n->row - 1][byte];
    }
    if (n->kind <= ONE_OF || !(n->flags & VISITED)) {           /* most places of a text are passed once, which a row is too dear for */
        at(t, a)->flags |= VISITED;
        return next(t, a, byte);
    }
    const uint32_t row = fill_row(t, a);
    return row ? t->row[row - 1][byte] : TERM_NONE;
}

/* Returns what may follow the colon after a key that a TAKER reads. */
static uint32_t next_taken(struct terms *t, uint32_t id, struct text key)
{
    const struct node n = *at(t, id);
    switch ((enum kind)n.kind) {
    case TAKER: return t->hooks.take(t->hooks.arg, n.a, n.b, key);
    case CAT:   return term_cat(t, next_taken(t, n.a, key), n.b);
    case ALT:   break;
    default:    return next(t, id, ':');
    }
    struct ids parts = {0};
    put_parts(t, &parts, ALT, id);
    for (int i = 0; i < parts.n; i++)
        parts.id[i] = next_taken(t, parts.id[i], key);
    const uint32_t result = term_alts(t, parts.id, parts.n);
    ids_free(&parts);
    return result;
}

uint32_t term_next(struct terms *t, uint32_t a, uint8_t byte, struct text key)
{
    if (t->full)
        return TERM_NONE;
    if (at(t, a)->flags & TAKES)
        return byte == ':' ? next_taken(t, a, key) : next(t, a, byte);
    return at(t, a)->row ? t->row[at(t, a)->row - 1][byte] : next_looked_up(t, a, byte);
}

bool term_is_open(const struct terms *t, uint32_t a)
{
    while (at(t, a)->kind == CAT)
        a = at(t, a)->b;
    const struct node *n = at(t, a);
    if (n->kind == ALT || n->kind == AND)
        return term_is_open(t, n->a) && term_is_open(t, n->b);
    return n->kind == REPEAT && n->a == t->any_char && (int32_t)n->c == TERM_INFINITE;
}

bool term_may_end(const struct terms *t, uint32_t a) { return at(t, a)->flags & MAY_END; }
bool term_begins_key(const struct terms *t, uint32_t a) { return at(t, a)->flags & KEY_BEGINS; }
bool term_in_key(const struct terms *t, uint32_t a) { return at(t, a)->flags & IN_KEY; }

/* Returns how many characters of any kind may follow in a string, 0 if it is none of any characters. */
static int free_chars(const struct terms *t, uint32_t a, bool *key)
{
    if (at(t, a)->kind == CAT)
        a = at(t, a)->a;
    const struct node *n = at(t, a), *r = at(t, n->a);
    if (n->kind != STRING || n->c != PLAIN || r->kind != REPEAT || r->a != t->any_char)
        return 0;
    *key = n->b & IS_KEY;
    return (int32_t)r->c == TERM_INFINITE || r->c > TERM_MANY ? TERM_MANY : (int)r->c;
}

int term_free_chars(const struct terms *t, uint32_t a, bool *key)
{
    bool other;
    int most = free_chars(t, at(t, a)->kind == ALT ? at(t, a)->a : a, key);
    while (most && at(t, a)->kind == ALT) {             /* the longest of several strings */
        a = at(t, a)->b;
        const int n = free_chars(t, at(t, a)->kind == ALT ? at(t, a)->a : a, &other);
        most = n && other == *key ? n > most ? n : most : 0;
    }
    return most;
}

uint32_t term_string_class(struct terms *t, uint32_t a, uint8_t *closer)
{
    if (at(t, a)->kind == CAT)
        a = at(t, a)->a;
    const struct node n = *at(t, a);
    if (n.kind == UNTIL && n.b == 0) {
        *closer = (uint8_t)t->list[n.a].item[0].p[0];
        return a;
    }
    *closer = '"';
    if (n.kind != STRING || (n.b & IS_KEY))
        return 0;
    const struct node r = *at(t, n.a);
    if (r.kind != REPEAT || r.a != t->any_char)
        return a;
    return string(t, term_repeat(t, t->any_char, 0, (int32_t)r.c >= 256 ? TERM_INFINITE : (int32_t)r.c), 0, n.c, n.d);
}
