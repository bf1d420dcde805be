/* Arithmetic on one line of text: + - * / % ^, parentheses, decimals, a few functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Whole numbers stay exact up to 38 digits; everything else is a double, printed with 15 digits.
 * False with a sentence that the model can read. */
bool calc(const char *expression, char *out, size_t size, struct err *e);
