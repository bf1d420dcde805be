/* Numbers as people read them, for status, panel and progress. */
#pragma once

#include "base/buf.h"

void number_tokens(struct buf *out, double n);          /* 214, 3.1k, 128k, 1.2M */
void number_context(struct buf *out, int n);             /* the same for the size of a context: 131072 is 128k */
void number_count(struct buf *out, long n);             /* 1,204 */
void number_bytes(struct buf *out, size_t n);           /* 812 bytes, 6.1 kB, 1.2 MB */
void number_rate(struct buf *out, double per_s);        /* 46.2, 312, 1.9k */
void number_joules(struct buf *out, double n);          /* 540 J, 1.6 kJ */
/* Prompt and answer separately, since their rates differ: "read 383 in 1.3 s, 24 tok in 0.2 s"; without the first part if nothing had to be read.
 * Times in ms. */
void number_turn(struct buf *out, int n_read, double read_ms, int n_tokens, double answer_ms);
void number_about(struct buf *out, int seconds);         /* about 12 s, about 3 min */
void number_clock(struct buf *out, int seconds);        /* 0:13, 1:02:03 */
