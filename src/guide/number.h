/* JSON numbers between bounds as terms over their digits. */
#pragma once

#include "guide/term.h"

/* A decimal number: -1^negative * 0.digits * 10^point, without zeros at either end of the digits; zero has no digits. */
struct decimal {
    bool negative;
    int  n, point;
    char digit[80];
};

/* False if the text is no number, or has more digits or a larger exponent than fit. */
bool decimal_read(struct decimal *d, struct text t);
int  decimal_compare(const struct decimal *a, const struct decimal *b);

struct number_range {
    bool integer, fraction;             /* integers are accepted, as 1 and as 1.0; numbers that are none, of at most 15 digits if alone */
    bool plain;                         /* without fraction: integers as 1 alone */
    const struct decimal *min, *max;    /* or NULL */
    bool open_min, open_max;            /* the bound itself is not accepted */
};

uint32_t number_term(struct terms *t, const struct number_range *r);
/* Numbers that are multiples of a positive number.  False if it has more digits than can be counted. */
bool number_multiple(struct terms *t, const struct decimal *of, uint32_t *term);
