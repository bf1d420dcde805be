#ifndef Q35_BENCH_VERSION_H
#define Q35_BENCH_VERSION_H

extern const char *const bench_commit;          /* of this build's sources, "-dirty" when they had changes */

#endif
