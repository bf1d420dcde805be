/* For tests of checkpoint files: one with two turns, and what must come back of it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "engine/checkpoint.h"

enum { ROW = 24, STATES = 100 };        /* bytes */
static const struct fingerprint IDENTITY = {11, 22};

/* Row of a position; states at one.  `turn` tells apart what was written when. */
static inline char content(int pos, int i, int turn)
{
    return (char)(pos * 31 + i * 7 + turn * 101);
}

static inline void fill(char *to, int n, int pos, int turn)
{
    for (int i = 0; i < n; i++)
        to[i] = content(pos, i, turn);
}

static inline bool add_rows(struct checkpoint *c, int from, int to, int turn, struct err *e)
{
    char *rows = malloc((size_t)(to - from) * ROW);
    int32_t ids[1000];
    for (int pos = from; pos < to; pos++) {
        fill(rows + (pos - from) * ROW, ROW, pos, turn);
        ids[pos] = 1000 * turn + pos;
    }
    bool ok = checkpoint_add_rows(c, spans_text(ids, to), to, rows, (size_t)(to - from) * ROW, e);
    free(rows);
    return ok;
}

static inline bool add_states(struct checkpoint *c, int pos, int turn, struct err *e)
{
    char states[STATES];
    fill(states, STATES, pos, turn);
    return checkpoint_add_states(c, pos, states, STATES, e);
}

/* The first turn: positions 0 to 9, states at 8 and 10.  The second: another sequence from 6 on, to 17, states at 17. */
static inline bool add_turn(struct checkpoint *c, int turn, struct err *e)
{
    if (turn == 1)
        return add_rows(c, 0, 5, 1, e) && add_rows(c, 5, 10, 1, e) && add_states(c, 8, 1, e) && add_states(c, 10, 1, e);
    checkpoint_cut(c, 6);
    return add_rows(c, 6, 17, 2, e) && add_states(c, 17, 2, e);
}

static inline void write_file(const char *path, int n_turns)
{
    struct err e = {0};
    struct checkpoint *c = checkpoint_edit(path, IDENTITY, &e);
    assert_non_null(c);
    for (int turn = 1; turn <= n_turns; turn++)
        assert_true(add_turn(c, turn, &e) && checkpoint_commit(c, &e));
    checkpoint_close(c);
}

static const struct picture PICTURES[] = {{12, 6, 2, 3, {1, 2}}, {30, 8, 4, 2, {3, 4}}};

/* Makes the file one with 40 tokens and these pictures. */
static inline void write_pictures(const char *path)
{
    struct err e = {0};
    static const int32_t ids[40];
    static const char rows[40 * ROW];
    struct checkpoint *c = checkpoint_edit(path, IDENTITY, &e);
    assert_non_null(c);
    checkpoint_cut(c, 0);
    for (int to = 14; to <= 40; to += 13)               /* a piece ends within a picture */
        assert_true(checkpoint_add_rows(c, (struct spans){ids, 40, PICTURES, 2}, to, rows, (size_t)(to == 14 ? 14 : 13) * ROW, &e));
    assert_true(add_states(c, 40, 1, &e) && checkpoint_commit(c, &e));
    checkpoint_close(c);
}

/* 0: nothing yet, 1 or 2: all of that turn.  -1 with the reason: it cannot be read.  Fails when it has anything else. */
static inline int read_file(const char *path, struct err *e)
{
    bool useless;
    struct checkpoint *c = checkpoint_open(path, IDENTITY, &useless, e);
    int n;
    if (!c) {
        assert_int_equal(useless, *e->msg != 0);
        return -1;
    }
    const int32_t *ids = checkpoint_spans(c).ids, n_ids = checkpoint_spans(c).n;
    const struct checkpoint_section *s = checkpoint_sections(c, &n);
    int turn = n_ids == 0 ? 0 : n_ids == 10 ? 1 : 2, n_states = 0;
    char rows[20 * ROW] = {0}, states[STATES], wanted[STATES];
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        assert_true(s[i].bytes == (checkpoint_is_rows(&s[i]) ? (uint64_t)(s[i].to - s[i].from) * ROW : STATES));
        ok = checkpoint_read(c, &s[i], checkpoint_is_rows(&s[i]) ? rows + s[i].from * ROW : states, e);
        if (!ok || checkpoint_is_rows(&s[i]))
            continue;
        fill(wanted, STATES, s[i].from, turn);
        assert_memory_equal(states, wanted, STATES);
        n_states++;
    }
    if (ok) {
        assert_int_equal(n_ids, turn == 0 ? 0 : turn == 1 ? 10 : 17);
        assert_int_equal(n_states, turn == 0 ? 0 : turn == 1 ? 2 : 1);
    }
    for (int pos = 0; ok && pos < n_ids; pos++) {
        int of = turn == 2 && pos >= 6 ? 2 : 1;
        assert_int_equal(ids[pos], 1000 * of + pos);
        fill(wanted, ROW, pos, of);
        assert_memory_equal(rows + pos * ROW, wanted, ROW);
    }
    checkpoint_close(c);
    return ok ? turn : -1;
}

static inline void assert_sentence(const struct err *e)
{
    size_t n = strlen(e->msg);
    assert_true(n > 0 && n < sizeof e->msg);
}
