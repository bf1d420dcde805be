/* See base/clock.h. */
#ifndef Q35_BASE_WHEN_H
#define Q35_BASE_WHEN_H

#include "base/clock.h"

#endif
