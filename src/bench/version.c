/* The only file that is compiled again when the commit changes; src/bench/report.c declares the name. */
#ifndef Q35_COMMIT
#define Q35_COMMIT "unknown"
#endif

extern const char *const bench_commit;
const char *const bench_commit = Q35_COMMIT;
