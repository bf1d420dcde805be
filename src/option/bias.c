#include "option/bias.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool bias_split(const char *item, size_t *n, float *value)
{
    const char *equals = strrchr(item, '=');
    char *end;
    if (!equals || equals == item)
        return false;
    *n = (size_t)(equals - item);
    *value = strtof(equals + 1, &end);
    return end != equals + 1 && !*end && !isnan(*value) && *value < INFINITY;
}

bool bias_check(const char *item, struct err *e)
{
    size_t n;
    float value;
    return bias_split(item, &n, &value) || err_set(e, "logit_bias is '%s', expected TEXT=X or ID=X, X a number or -inf", item);
}
