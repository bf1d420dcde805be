/* See base/worker.h. */
#ifndef Q35_BASE_QUIET_H
#define Q35_BASE_QUIET_H

#include "base/worker.h"

#endif
