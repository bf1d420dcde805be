#include "guide/document.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static size_t slot_of(const struct document *d, const struct pyjson *schema)
{
    size_t i = ((uintptr_t)schema >> 4) * 0x9E3779B97F4A7C15u >> 20 & (d->n_slots - 1);
    while (d->slot[i] && d->part[d->slot[i] - 1].schema != schema)
        i = (i + 1) & (d->n_slots - 1);
    return i;
}

/* Joins a reference to the URI that it is relative to, without ".." and the like. */
static const char *joined(struct document *d, const char *base, struct text ref)
{
    const char *hash = memchr(ref.p, '#', ref.n), *colon = memchr(ref.p, ':', ref.n);
    const size_t n_ref = hash ? (size_t)(hash - ref.p) : ref.n;
    if (colon && (!hash || colon < hash))
        return arena_strndup(&d->arena, ref.p, ref.n);
    size_t keep = strcspn(base, "#");
    if (n_ref) {
        const char *path = strstr(base, "://");
        path = path ? path + 3 + strcspn(path + 3, "/") : base;
        if (ref.p[0] == '/')
            keep = (size_t)(path - base);
        else
            while (keep > (size_t)(path - base) && base[keep - 1] != '/')
                keep--;
    }
    return arena_printf(&d->arena, "%.*s%.*s", (int)keep, base, (int)ref.n, ref.p);
}

static void add_anchor(struct document *d, const char *uri, const struct pyjson *schema)
{
    d->anchor = arena_grow(&d->arena, d->anchor, d->n_anchors, &d->cap_anchors, sizeof *d->anchor);
    d->anchor[d->n_anchors++] = (struct anchor){uri, schema};
}

/* Lists the anchors of a schema; returns the base URI that holds inside it. */
static const char *identified(struct document *d, const struct pyjson *v, const char *base)
{
    const struct pyjson *id = pyjson_get(v, "$id"), *ref = pyjson_get(v, "$ref");
    if (!id && d->old)
        id = pyjson_get(v, "id");
    if (id && id->kind == PY_STR && !(d->old && ref)) {
        const char *uri = joined(d, base, id->text);
        char *plain = arena_strndup(&d->arena, uri, strcspn(uri, "#"));
        add_anchor(d, uri[strlen(plain)] && uri[strlen(plain) + 1] ? uri : plain, v);
        base = id->text.n && id->text.p[0] == '#' ? base : plain;
    }
    static const char *const names[] = {"$anchor", "$dynamicAnchor"};
    for (int i = 0; i < 2; i++) {
        const struct pyjson *a = pyjson_get(v, names[i]);
        if (a && a->kind == PY_STR)
            add_anchor(d, arena_printf(&d->arena, "%.*s#%.*s", (int)strcspn(base, "#"), base, (int)a->text.n, a->text.p), v);
    }
    return base;
}

/* Records a value and all in it; `data` below keywords whose values are no schemas, where nothing is identified. */
static bool record(struct document *d, const struct pyjson *v, int parent, struct text name, int index, const char *base, bool data, int depth)
{
    if (v->kind != PY_DICT && v->kind != PY_LIST && v->kind != PY_TRUE && v->kind != PY_FALSE)
        return true;
    if (d->n == DOCUMENT_PARTS || depth > 200)
        return false;
    if (v->kind == PY_DICT && !data)
        base = identified(d, v, base);
    d->part = arena_grow(&d->arena, d->part, d->n, &d->cap, sizeof *d->part);
    d->part[d->n] = (struct part){v, parent, name, index, base};
    const int self = d->n++;
    for (size_t i = 0; i < v->n; i++) {
        const struct text key = v->kind == PY_DICT ? v->keys[i] : (struct text){0};
        const bool inner = data || text_is(key, "enum") || text_is(key, "const") || text_is(key, "default") || text_is(key, "examples");
        if (!record(d, &v->items[i], self, key, v->kind == PY_DICT ? -1 : (int)i, base, inner, depth + 1))
            return false;
    }
    return true;
}

bool document_read(struct document *d, struct text schema, struct terms *t, struct err *e)
{
    *d = (struct document){.terms = t};
    if (schema.n > DOCUMENT_BYTES)
        return err_set(e, "the schema has %zu bytes; at most %d can be read", schema.n, DOCUMENT_BYTES);
    if (!pyjson_parse(&d->root, schema, PYJSON_LOADS, &d->arena, e))
        return false;
    if (d->root.kind != PY_DICT && d->root.kind != PY_TRUE && d->root.kind != PY_FALSE)
        return err_set(e, "the schema is neither an object nor true or false");
    const struct pyjson *dialect = pyjson_get(&d->root, "$schema");
    d->old = dialect && dialect->kind == PY_STR && text_find(dialect->text, "/draft-0");
    if (!record(d, &d->root, -1, (struct text){0}, -1, "", false, 0))
        return err_set(e, "the schema has more than %d parts or 200 levels", DOCUMENT_PARTS);
    for (d->n_slots = 64; d->n_slots < (size_t)d->n * 2; d->n_slots *= 2)
        continue;
    d->slot = arena_array(&d->arena, d->n_slots, sizeof *d->slot);
    for (int i = 0; i < d->n; i++)
        d->slot[slot_of(d, d->part[i].schema)] = (uint32_t)i + 1;
    return true;
}

void document_free(struct document *d)
{
    arena_free(&d->arena);
}

/* Appends the path of a part, from the root of the document on. */
static void append_place(const struct document *d, int i, struct buf *out)
{
    const struct part *p = &d->part[i];
    if (p->parent < 0) {
        buf_addc(out, '#');
        return;
    }
    append_place(d, p->parent, out);
    if (p->index >= 0)
        buf_addf(out, "/%d", p->index);
    else
        buf_addf(out, "/%.*s", (int)(p->name.n < 80 ? p->name.n : 80), p->name.p);
}

void document_place(const struct document *d, const struct pyjson *schema, struct buf *out)
{
    const uint32_t slot = d->slot[slot_of(d, schema)];
    if (slot)
        append_place(d, (int)slot - 1, out);
}

/* Follows a JSON pointer with its escapes ~0, ~1 and %XX. */
static const struct pyjson *pointed(const struct pyjson *v, const char *p)
{
    struct buf key = {0};
    while (v && *p == '/') {
        buf_reset(&key);
        for (p++; *p && *p != '/'; p++) {
            unsigned hex;
            if (*p == '~' && (p[1] == '0' || p[1] == '1')) {
                buf_addc(&key, *++p == '0' ? '~' : '/');
            } else if (*p == '%' && sscanf(p + 1, "%2x", &hex) == 1) {
                buf_addc(&key, (char)hex);
                p += 2;
            } else {
                buf_addc(&key, *p);
            }
        }
        if (v->kind == PY_LIST) {
            const long i = strtol(buf_str(&key), NULL, 10);
            v = i >= 0 && (size_t)i < v->n ? &v->items[i] : NULL;
        } else {
            v = pyjson_item(v, (struct text){buf_str(&key), key.len});
        }
    }
    buf_free(&key);
    return *p ? NULL : v;
}

const struct pyjson *document_follow(const struct document *d, const struct pyjson *from, struct text reference)
{
    struct document *m = (struct document *)d;
    const uint32_t slot = d->slot[slot_of(d, from)];
    const char *uri = joined(m, slot ? d->part[slot - 1].base : "", reference);
    const char *hash = strchr(uri, '#'), *fragment = hash ? hash + 1 : "";
    const size_t n = hash ? (size_t)(hash - uri) : strlen(uri);
    for (int i = 0; i < d->n_anchors; i++)
        if (!strcmp(d->anchor[i].uri, uri))
            return d->anchor[i].schema;
    const struct pyjson *root = n == 0 ? &d->root : NULL;
    for (int i = 0; i < d->n_anchors && !root; i++)
        if (strlen(d->anchor[i].uri) == n && !memcmp(d->anchor[i].uri, uri, n))
            root = d->anchor[i].schema;
    return !root ? NULL : !*fragment ? root : *fragment == '/' ? pointed(root, fragment) : NULL;
}
