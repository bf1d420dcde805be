/* See base/clock.h. */
#ifndef Q35_BASE_PATIENCE_H
#define Q35_BASE_PATIENCE_H

#include "base/clock.h"

#endif
