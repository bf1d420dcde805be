/* Waiting for something that takes about as long every time: sleeping through most of it, then looking all the time, since a sleep ends late.
 * Plain arithmetic; the caller has the clock.  {0} is valid: nothing is known yet. */
#ifndef Q35_BASE_PATIENCE_H
#define Q35_BASE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

struct patience {
    int64_t usual_ns;
};

/* How long to sleep before the next look, so much having been waited; 0: look again at once. */
int64_t patience_nap_ns(const struct patience *p, int64_t waited_ns);
/* It has come, after so long; `slept`: it was there when a sleep ended. */
void    patience_learn(struct patience *p, int64_t waited_ns, bool slept);

#endif
