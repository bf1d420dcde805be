/* The only file that is compiled again when the commit changes. */
#include "bench/version.h"

#ifndef Q35_COMMIT
#define Q35_COMMIT "unknown"
#endif

const char *const bench_commit = Q35_COMMIT;
