/* See base/file.h. */
#ifndef Q35_BASE_MOVE_H
#define Q35_BASE_MOVE_H

#include "base/file.h"

#endif
