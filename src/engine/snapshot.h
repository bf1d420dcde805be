/* Which states to keep in memory: one pool of equal slots for all sequences, allocated at open.  A snapshot of position p belongs to the
 * sequence in which it was made (`seq`, from 0 on) and serves every prompt that starts with the same p tokens.  Position 0 is the empty
 * sequence and needs no slot. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct snapshots {
    int    n;                           /* slots */
    int    n_seq;                       /* sequences that share them */
    size_t bytes;                       /* of one */
    int   *pos;                         /* [n]; 0: free */
    int   *seq;                         /* [n]: whose it is */
    bool  *on_way;                      /* [n]: made on the way of an answer */
    bool  *from_file;                   /* [n]: it came back from a checkpoint; set by engine/restorer */
    char  *mem;                         /* [n, bytes]; the caller's */
};

void snapshots_init(struct snapshots *s, int n, int n_seq, size_t bytes, void *mem);
void snapshots_free(struct snapshots *s);

/* The slot with the greatest position <= pos of the sequence, or -1. */
int   snapshots_find(const struct snapshots *s, int seq, int pos);
int   snapshots_in_use(const struct snapshots *s);
void *snapshots_at(const struct snapshots *s, int slot);
/* Memory for the states of `pos`, to be filled by the caller; evicts when full.  NULL when there is nothing to do: position 0,
 * already kept, or no slots.
 *
 * A sequence may have all slots as long as nobody else wants them.  One that has less than its share, which is the same for all, takes a
 * slot of the sequence that has the most; one that has its share evicts a snapshot of its own.
 *
 * Of the sequence that loses a slot the three newest positions stay (before the last message, where the next turn will rejoin, and the end); of the
 * others goes the one that is nearest to its predecessor, that is the one whose loss costs the fewest tokens to fill again.  Ties go to the lower
 * position, which leaves a long prefill with evenly spread snapshots.
 *
 * States on the way of an answer (for going back into its middle) are worth less: they go first, and take the place of others
 * only as long as they hold less than a quarter of the slots. */
void *snapshots_claim(struct snapshots *s, int seq, int pos, bool on_way);
/* The sequence's tokens from `pos` on have changed: forgets what depends on them. */
void  snapshots_drop_after(struct snapshots *s, int seq, int pos);
