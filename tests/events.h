/* The deltas of a stream as one line, in order: R[reasoning] C[content] F[name {arguments}], T[name {arguments}] for a truncated call.
 * Deltas of one kind are joined, so that the line does not depend on the cuts of the text. */
#pragma once

#include "text/stream.h"

struct events {
    struct buf line;
    char       open;                    /* 'R' or 'C' while more may follow */
    struct buf name;                    /* of the open call */
    int        n_begun, n_ended;
    bool       wrong;                   /* the order was impossible */
};

static inline void events_add(const struct delta *d, void *arg)
{
    struct events *x = arg;
    char kind = "RCFFF"[d->kind];
    if (x->open && x->open != kind) {
        buf_addc(&x->line, ']');
        x->open = 0;
    }
    x->wrong |= d->kind == DELTA_CALL_END || d->kind == DELTA_CALL_PIECE ? x->n_begun != x->n_ended + 1 : x->n_begun != x->n_ended;
    switch (d->kind) {
    case DELTA_REASONING:
    case DELTA_CONTENT:
        x->wrong |= !d->text.n;
        if (!x->open)
            buf_addf(&x->line, "%c[", kind);
        x->open = kind;
        buf_add(&x->line, d->text.p, d->text.n);
        break;
    case DELTA_CALL_BEGIN:
        x->wrong |= d->call != x->n_begun++;
        buf_reset(&x->name);
        buf_add(&x->name, d->text.p, d->text.n);
        break;
    case DELTA_CALL_PIECE:
        x->wrong |= !d->text.n;
        break;
    case DELTA_CALL_END:
        x->wrong |= d->call != x->n_ended++;
        buf_addf(&x->line, "%c[", d->truncated ? 'T' : 'F');
        buf_add(&x->line, x->name.data, x->name.len);
        buf_addc(&x->line, ' ');
        buf_add(&x->line, d->text.p, d->text.n);
        buf_addc(&x->line, ']');
        break;
    }
}

static inline void events_end(struct events *x)
{
    if (x->open)
        buf_addc(&x->line, ']');
    x->open = 0;
    x->wrong |= x->n_begun != x->n_ended;
}

static inline void events_free(struct events *x)
{
    buf_free(&x->line);
    buf_free(&x->name);
}
