/* The least and the most of two numbers. */
#pragma once

#include <stddef.h>

static inline int least(int a, int b) { return a < b ? a : b; }
static inline int most(int a, int b) { return a > b ? a : b; }
static inline size_t least_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t most_size(size_t a, size_t b) { return a > b ? a : b; }
