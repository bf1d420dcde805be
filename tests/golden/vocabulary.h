/* The model's own vocabulary for tests: tests/data/tokenizer, unpacked on first use. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

/* Directory with tokenizer.json and tokenizer_config.json, as in a checkpoint; NULL with the reason.  Tests run in
 * parallel: each unpacks under temporary names and renames; the large file comes last, since the others check for it. */
static inline const char *vocabulary_dir(struct err *e)
{
    static const char dir[] = "build/data/tokenizer", from[] = "tests/data/tokenizer";
    struct stat source, there;
    char cmd[1024];
    if (stat("tests/data/tokenizer/tokenizer.json.xz", &source)) {
        err_set(e, "cannot find %s: run from the top of the repository", from);
        return NULL;
    }
    if (!stat("build/data/tokenizer/tokenizer.json", &there) && there.st_size && there.st_mtime >= source.st_mtime)
        return dir;
    snprintf(cmd, sizeof cmd,
             "set -e; d=%s; t=$d/tmp.%d; mkdir -p $t; xz -dkc %s/tokenizer.json.xz >$t/tokenizer.json; "
             "cp %s/tokenizer_config.json $t; mv $t/tokenizer_config.json $d; mv $t/tokenizer.json $d; rmdir $t",
             dir, (int)getpid(), from, from);
    if (system(cmd)) {
        err_set(e, "cannot unpack %s/tokenizer.json.xz into %s (is xz installed?)", from, dir);
        return NULL;
    }
    return dir;
}
