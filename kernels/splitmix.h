/* SplitMix64 (Steele, Lea and Flood, 2014): a counter and a mixer.  Number n of a stream needs none of the numbers before it, so all
 * threads and devices draw the same; neighbouring seeds give unrelated streams. */
#pragma once

#include <stdint.h>

#include "kernels/both.h"

#define SPLITMIX_STEP 0x9e3779b97f4a7c15u       /* of the counter: 2^64 / golden ratio */
#define SPLITMIX_SECOND 0xd1b54a32d192ed03u     /* xor this to the counter for another number of the same place */

/* Returns the number for this counter; number n of the stream of a seed, from 1 on, is that for seed + n * SPLITMIX_STEP. */
BOTH uint64_t splitmix(uint64_t counter)
{
    uint64_t z = (counter ^ counter >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
