/* Reads one range of a hub's file and writes it to stdout: REPO REVISION FILE OFFSET BYTES [TRIES [STALL_S]].  For the tests. */
#include <stdio.h>
#include <stdlib.h>

#include "fetch/fetch.h"

int main(int argc, char **argv)
{
    struct err e = {0};
    struct fetch_repo r = {0};
    struct fetch_options o = {.tries = argc > 6 ? atoi(argv[6]) : 3, .stall_s = argc > 7 ? atoi(argv[7]) : 60};
    if (argc < 6)
        return 2;
    struct fetch *f = fetch_open(&o, &e);
    bool ok = f && fetch_list(f, argv[1], argv[2], &r, &e);
    const struct fetch_file *file = ok ? fetch_find(&r, argv[3]) : NULL;
    uint64_t offset = strtoull(argv[4], NULL, 10);
    size_t n = strtoull(argv[5], NULL, 10);
    char *bytes = malloc(n + 1);
    if (ok && !file)
        ok = err_set(&e, "%s is not in the list", argv[3]);
    ok = ok && fetch_range(f, &r, file, offset, n, bytes, &e) && fwrite(bytes, 1, n, stdout) == n;
    if (!ok)
        fprintf(stderr, "%s\n", e.msg);
    free(bytes);
    fetch_repo_free(&r);
    fetch_close(f);
    return !ok;
}
