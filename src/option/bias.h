/* How an item of the option logit_bias is written: TEXT=X or ID=X, X added to the logit of that token, -inf never takes it. */
#ifndef Q35_OPTION_BIAS_H
#define Q35_OPTION_BIAS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* The value, and how many bytes before it name the token.  False if that is not how it is written. */
bool bias_split(const char *item, size_t *n, float *value);
/* Is it written well?  Which tokens there are is the responder's to know. */
bool bias_check(const char *item, struct err *e);

#endif
