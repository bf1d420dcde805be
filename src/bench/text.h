/* A text as a model's tokens. */
#ifndef Q35_BENCH_TEXT_H
#define Q35_BENCH_TEXT_H

#include "base/ids.h"
#include "engine/load.h"

/* The first tokens, `most` of them; fails with fewer than `least`.  Control tokens that stand in the text count as such, so that it can be
 * rendered conversations. */
bool text_ids(const struct model *m, const char *path, int least, int most, struct ids *out, struct err *e);

#endif
