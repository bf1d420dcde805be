#include "engine/spans.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/least.h"
#include "base/memory.h"
#include "config/limits.h"
#include "model/cache.h"

bool spans_valid(struct spans s)
{
    int64_t free_from = 0;
    if (s.n_pictures > LIMIT_PICTURES)
        return false;
    for (int i = 0; i < s.n_pictures; i++) {
        const struct picture *p = &s.pictures[i];
        if (p->first < free_from || p->first >= s.n || p->h <= 0 || p->w <= 0 || (int64_t)p->h * p->w != p->n || p->n > INT32_MAX - p->first)
            return false;
        free_from = p->first + p->n;
    }
    return true;
}

bool spans_picture(struct spans s, int from, int to)
{
    bool has = false;
    for (int i = 0; i < s.n_pictures; i++)
        has = has || (s.pictures[i].first < to && s.pictures[i].first + s.pictures[i].n > from);
    return has;
}

struct spans spans_head(struct spans s, int n)
{
    s.n = n;
    while (s.n_pictures && s.pictures[s.n_pictures - 1].first >= n)
        s.n_pictures--;
    return s;
}

int spans_common(struct spans a, struct spans b)
{
    const int n = least(a.n, b.n);
    int common = 0, i = 0;
    while (common < n && a.ids[common] == b.ids[common])
        common++;
    while (i < a.n_pictures && i < b.n_pictures && !memcmp(&a.pictures[i], &b.pictures[i], sizeof *a.pictures))
        i++;
    /* The first picture that the other one lacks ends the prefix. */
    if (i < a.n_pictures)
        common = least(common, a.pictures[i].first);
    if (i < b.n_pictures)
        common = least(common, b.pictures[i].first);
    return common;
}

struct rope_position *spans_positions(struct spans s, int *n, int *offset)
{
    const struct picture *last = s.n_pictures ? &s.pictures[s.n_pictures - 1] : NULL;
    int i = 0, pos = 0;
    *n = *offset = 0;
    if (!last)
        return NULL;
    *n = last->first + last->n;
    struct rope_position *at = memory_alloc((size_t)*n * sizeof *at);
    for (const struct picture *p = s.pictures; p <= last; p++) {
        for (; i < p->first; i++, pos++)
            at[i] = (struct rope_position){pos, pos, pos};
        for (int k = 0; k < p->n; k++)
            at[i++] = (struct rope_position){pos, pos + k / p->w, pos + k % p->w};
        pos += most(p->h, p->w);
    }
    *offset = pos - i;
    return at;
}

void pictures_add(struct pictures *l, struct spans s, int from, int to)
{
    for (int i = 0; i < s.n_pictures; i++)
        if (s.pictures[i].first >= from && s.pictures[i].first < to) {
            l->all = memory_grow(l->all, l->n, &l->cap, sizeof *l->all);
            l->all[l->n++] = s.pictures[i];
        }
}

void pictures_cut(struct pictures *l, int n)
{
    while (l->n && l->all[l->n - 1].first >= n)
        l->n--;
}

void pictures_free(struct pictures *l)
{
    free(l->all);
    *l = (struct pictures){0};
}

struct pixels *pixels_new(const uint8_t *rgb, int h, int w)
{
    const size_t bytes = (size_t)h * (size_t)w * 3;
    struct pixels *p = memory_alloc(sizeof *p + bytes);
    atomic_init(&p->refs, 1);
    p->h = h;
    p->w = w;
    memcpy(p->rgb, rgb, bytes);
    return p;
}

struct pixels *pixels_retain(struct pixels *p)
{
    if (p)
        atomic_fetch_add(&p->refs, 1);
    return p;
}

void pixels_release(struct pixels *p)
{
    if (p && atomic_fetch_sub(&p->refs, 1) == 1)
        free(p);
}

struct spans spans_of(const struct span_buf *b)
{
    return (struct spans){b->ids.data, b->ids.n, b->pictures.all, b->pictures.n, b->pixels};
}

void span_buf_add(struct span_buf *b, struct spans s, int to)
{
    const int from = b->ids.n, n = b->pictures.n;
    CHECK(from <= to && to <= s.n);
    ids_append(&b->ids, s.ids + from, to - from);
    pictures_add(&b->pictures, s, from, to);
    for (int i = n; i < b->pictures.n; i++) {
        int of = 0;
        while (s.pictures[of].first != b->pictures.all[i].first)
            of++;
        b->pixels = memory_grow(b->pixels, i, &b->cap_pixels, sizeof(*b->pixels));
        b->pixels[i] = s.pixels ? pixels_retain(s.pixels[of]) : NULL;
    }
}

void span_buf_cut(struct span_buf *b, int n)
{
    const int had = b->pictures.n;
    b->ids.n = least(b->ids.n, n);
    pictures_cut(&b->pictures, n);
    for (int i = b->pictures.n; i < had; i++)
        pixels_release(b->pixels[i]);
}

void span_buf_free(struct span_buf *b)
{
    span_buf_cut(b, 0);
    ids_free(&b->ids);
    pictures_free(&b->pictures);
    free(b->pixels);
    *b = (struct span_buf){0};
}
