/* The order of those that wait for something: who is due first goes first.
 *
 * Where a person waits, a request is due when it comes.  One that nobody waits for has patience, and is due so much later: persons who come until
 * then go before it, those who come afterwards do not.  So a person hardly notices the others, and nobody waits for ever. */
#ifndef Q35_BASE_DUE_H
#define Q35_BASE_DUE_H

#include <stdint.h>

enum { DUE_PATIENCE_MS = 20000 };       /* of programs: a batch hardly notices it, and an answer or two for a person fit in */

/* Of one that came at since_ns. */
static inline int64_t due_ns(int64_t since_ns, int patience_ms)
{
    return since_ns + (int64_t)patience_ms * 1000000;
}

/* What is left of the patience of one that is due then. */
static inline int due_patience_ms(int64_t due, int64_t now_ns)
{
    return due > now_ns ? (int)((due - now_ns) / 1000000) : 0;
}

#endif
