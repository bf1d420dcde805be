/* Prices that an earlier start measured, so that the first answer of the next one begins with them.  A file with a line for each `key`, which
 * says what they depend on: device, model and how it is stored.  A key has no line end. */
#ifndef Q35_ENGINE_PRICELIST_H
#define Q35_ENGINE_PRICELIST_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/price.h"

/* What is not doubtful of them (price_doubt).  False: the file has none that can be used, and *p is as it was. */
bool pricelist_find(struct price *p, const char *path, const char *key);
/* Writes the file anew, with this line as its newest; what else it has stays, but for the oldest lines of many and those that are no prices.
 * Whoever reads it meanwhile sees all of the old file or of the new one.  False with the reason. */
bool pricelist_keep(const struct price *p, const char *path, const char *key, struct err *e);

#endif
