/* The cores of a machine that has two kinds of them, as a GB10 with ten fast and ten slow ones. */
#pragma once

#include <sched.h>

#define CORES_ROOT "/sys/devices/system/cpu"

/* Finds the usable cores that are fast; all of them if `root` shows no difference.  The speed of a core is cpu_capacity, which arm64 has, else the
 * highest clock that it may have. */
void cores_fast(const char *root, const cpu_set_t *usable, cpu_set_t *fast);

/* Keeps the calling thread, and threads that it starts, on the fast cores among those that it may use.  Returns how many these are; 0: all
 * cores are alike, or `root` (CORES_ROOT; another one for tests) does not tell, and nothing has changed. */
int cores_keep_to_fast(const char *root);
