/* See base/memory.h. */
#ifndef Q35_BASE_ARENA_H
#define Q35_BASE_ARENA_H

#include "base/memory.h"

#endif
