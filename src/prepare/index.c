#include "prepare/index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct index_entry *)a)->tensor, ((const struct index_entry *)b)->tensor);
}

bool index_write_text(const char *dir, const char *name, const char *text, uint64_t n, struct err *e)
{
    struct buf path = {0}, tmp = {0};
    buf_addf(&path, "%s/%s", dir, name);
    buf_addf(&tmp, "%s/.%s.tmp", dir, name);
    int fd = open(buf_str(&tmp), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool ok = fd >= 0 && file_write(fd, text, n) && !fsync(fd);
    if (fd >= 0 && close(fd))
        ok = false;
    ok = ok && !rename(buf_str(&tmp), buf_str(&path));
    if (!ok) {
        err_set(e, "cannot write %s: %s", buf_str(&path), strerror(errno));
        unlink(buf_str(&tmp));
    }
    buf_free(&path);
    buf_free(&tmp);
    return ok;
}

/* The format of the public recipe: sorted, two spaces per level. */
bool index_write(const char *dir, struct index_entry *list, int n, struct err *e)
{
    struct buf out = {0};
    uint64_t total = 0;
    qsort(list, (size_t)n, sizeof *list, by_name);
    for (int i = 0; i < n; i++)
        total += list[i].bytes;
    buf_addf(&out, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {", (unsigned long long)total);
    for (int i = 0; i < n; i++)
        buf_addf(&out, "%s\n    \"%s\": \"%s\"", i ? "," : "", list[i].tensor, list[i].file);
    buf_adds(&out, "\n  }\n}\n");
    bool ok = index_write_text(dir, INDEX_FILE, buf_str(&out), out.len, e);
    buf_free(&out);
    return ok;
}
