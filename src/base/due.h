/* See base/clock.h. */
#ifndef Q35_BASE_DUE_H
#define Q35_BASE_DUE_H

#include "base/clock.h"

#endif
