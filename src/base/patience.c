#include "base/patience.h"

static const int64_t early_ns = 150000,         /* so long before the usual time it is looked for all the time */
    late_ns = 20000,                    /* between two looks for what is late */
    slack_ns = 1000000;                 /* the usual time grows by a quarter and so much at once: one hiccup must not be slept through next time */

int64_t patience_nap_ns(const struct patience *p, int64_t waited_ns)
{
    const int64_t usual = p->usual_ns, nap = usual - usual / 16 - early_ns - waited_ns;
    return nap > 0 ? nap : waited_ns > usual + usual / 2 + early_ns ? late_ns : 0;
}

void patience_learn(struct patience *p, int64_t waited_ns, bool slept)
{
    const int64_t most = p->usual_ns + p->usual_ns / 4 + slack_ns;
    if (slept && waited_ns <= p->usual_ns)      /* nobody knows for how long it had been there */
        p->usual_ns /= 2;
    else
        p->usual_ns = waited_ns < most ? waited_ns : most;
}
