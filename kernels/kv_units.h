/* How a decode step cuts the positions of a compressed KV cache (kernels/attention.h) into units of 128, and which numbers each lane of a warp reads.
 *
 * The unit or place of a position depends on the position alone, never on the rows of a step.  So the bits of a row depend on its own position alone:
 *   codes   unit u holds positions 128 u .. 128 u + 127
 *   exact   places of 64 positions: place 0 is for the sinks, the others are a ring, where the block of positions 64 b .. 64 b + 63 has place
 *           1 + b % kv_window().  The ring is as long as the rows of one step look back. */
#pragma once

#include "kernels/attention.h"

enum { KV_UNIT = 128, KV_UNIT_BLOCKS = KV_UNIT / KV_BLOCK };
enum { KV_PARTS = 64 };                 /* most parts into which the positions of a KV head are dealt: exact places, then parts of codes */

/* Positions from..to-1. */
struct kv_span { int from, to; };

/* Returns the number of blocks of exact positions that up to KV_BLOCK consecutive rows read, all together. */
BOTH int kv_window(const struct kv_rows *c) { return c->recent / KV_BLOCK + 2; }

/* Returns the number of places of exact positions. */
BOTH int kv_places(const struct kv_rows *c) { return 1 + kv_window(c); }
BOTH int kv_code_units(int sealed) { return (sealed + KV_UNIT - 1) / KV_UNIT; }

/* How units of codes are dealt to n parts of two halves each.  The first 2 n units go to part 0, part 0, part 1, part 1 and so on, so that a short
 * context has few parts; the others go round the parts, so that all get equally many.  A half adds up its units one after the other: from
 * kv_first_unit() on, each time kv_next_unit(). */
BOTH int kv_unit_part(int u, int n) { return u < 2 * n ? u / 2 : u % n; }
BOTH int kv_first_unit(int part, int half) { return 2 * part + half; }
BOTH int kv_next_unit(int u, int n) { return u < 2 * n ? (2 + u % 2) * n + u / 2 : u + 2 * n; }
/* Returns the number of parts that have a unit. */
BOTH int kv_code_parts(int sealed, int n)
{
    const int all = (kv_code_units(sealed) + 1) / 2;
    return all < n ? all : n;
}

/* Returns the place of a position in the ring. */
BOTH int kv_place_of(const struct kv_rows *c, int pos) { return 1 + pos / KV_BLOCK % kv_window(c); }
/* Returns the first position of a place, for rows of which the first one reads positions below `sealed` as codes. */
BOTH int kv_place_begin(const struct kv_rows *c, int place, int sealed)
{
    const int n = kv_window(c), first = sealed / KV_BLOCK;
    return place == 0 ? 0 : (first + (place - 1 - first % n + n) % n) * KV_BLOCK;
}
/* Returns the positions that the row at `pos` reads exactly, as far as they are in this place; and the positions that it reads as codes. */
BOTH struct kv_span kv_seen_exactly(const struct kv_rows *c, int place, int pos)
{
    const int sealed = kv_sealed(c, pos);
    struct kv_span s = {sealed, pos + 1};
    if (place == 0)
        s.from = 0, s.to = sealed > 0 ? c->sinks : 0;
    else if (place > kv_window(c))
        s.from = s.to = 0;
    return s;
}
BOTH struct kv_span kv_seen_as_codes(const struct kv_rows *c, int pos)
{
    struct kv_span s = {c->sinks, kv_sealed(c, pos)};
    return s;
}

/* ---- operands of m16n8k16 for queries times keys, where a step may use any 16 of a key's numbers
 *
 * Lane 4 g + t reads a key in pieces of 16 bytes, piece c at byte 64 c + 16 t of the key, W numbers; step s multiplies four of them. */
BOTH int kv_key_bits(enum kv_format f) { return f == KV_EXACT ? 16 : kv_bits(f); }
BOTH int kv_piece_steps(enum kv_format f) { return 128 / kv_key_bits(f) / 4; }
BOTH int kv_key_bytes(enum kv_format f) { return KV_DIM * kv_key_bits(f) / 8; }
/* kv_step_number(): the first of the four numbers of a key that lane t has in step s.  kv_number_step(): the reverse, 4 s + t for number d, a
 * multiple of 4. */
BOTH int kv_step_number(enum kv_format f, int s, int t)
{
    const int n = kv_piece_steps(f);
    return 4 * (4 * n * (s / n) + n * t + s % n);
}
BOTH int kv_number_step(enum kv_format f, int d)
{
    const int n = kv_piece_steps(f), i = d / 4;
    return 4 * (i / (4 * n) * n + i % n) + i / n % 4;
}

/* ---- operands for weights times values: 16 tokens a step, of which lane 4 g + t has two pairs, t and t + 4, for numbers 8 g .. 8 g + 7 of the
 * warp's 64
 *
 * The index bytes of four numbers, for pair `pair` of the 32 pairs of tokens in a block.  An index byte has the codes of both tokens: with 4 bits
 * code + 16 * code of the second token; with 3 bits the lower two bits of both codes, then the upper bits of both. */
BOTH uint32_t kv_value_index_3(uint32_t low, uint32_t high, int pair)
{
    return (low >> (4 * (pair % 2)) & 0x0f0f0f0fu) | (high >> (2 * (pair % 4)) & 0x03030303u) << 4;
}
/* Returns the code of the first or second token of a pair, from its index byte. */
BOTH int kv_pair_code(enum kv_format f, int index, int second)
{
    if (f == KV_TQ4)
        return index >> (4 * second) & 15;
    return (index >> (2 * second) & 3) | (index >> (4 + second) & 1) << 2;
}
