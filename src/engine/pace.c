#include "engine/pace.h"

#include <math.h>

void pace_init(struct pace *p, bool beside_host)
{
    /* On a CPU a row costs the same in a chunk of any length.  Others may wait 100 ms; 40 of these are left for a busy machine. */
    static const struct pace cpu = {.most_ms = {60, 60, 60}, .least_rows = 1, .telling_rows = 32};
    /* On a GB10 a call of the 122B model costs about 0.26 s and a row 0.3 ms (docs/log/2026-11.md): 4,000 rows in 1.5 s.  Chunks of 512
     * rows read nearly all experts, so shorter ones only cost more. */
    static const struct pace gpu = {.most_ms = {1500, 350, 350}, .least_rows = 512, .telling_rows = 512};
    *p = beside_host ? gpu : cpu;
}

/* The time of a row.  At least an eighth of a chunk's time is that of its rows: otherwise one call_ms that was measured too high would make rows
 * free for ever. */
static double row_ms(const struct pace *p, int rows, double ms)
{
    return fmax(ms - p->call_ms, ms / 8) / rows;
}

void pace_begin(struct pace *p, int few, double few_ms, int many, double many_ms)
{
    const double call = (few_ms * many - many_ms * few) / (many - few);
    p->call_ms = fmin(fmax(call, 0), fmin(few_ms, many_ms));
    p->row_ms = row_ms(p, many, many_ms);
}

/* In short chunks a row takes longer than in long ones, so a short chunk counts only if it lowers row_ms.  Otherwise one delay of the machine would
 * make all later chunks short. */
void pace_took(struct pace *p, int rows, double ms)
{
    const double row = row_ms(p, rows, ms);
    if (rows >= p->telling_rows || ms > p->most_ms[PACE_NEXT] || row < p->row_ms)
        p->row_ms = row;
}

int pace_rows(const struct pace *p, enum pace_wait wait, int most)
{
    const double left = p->most_ms[wait] - p->call_ms;
    if (p->row_ms * most <= left)
        return most;
    const int in_time = left > 0 ? (int)(left / p->row_ms) : 0, least = p->least_rows < most ? p->least_rows : most;
    return in_time > least ? in_time : least;
}
