/* The only place that chooses a device. */
#include "backend/dev.h"

#include <string.h>

static const struct backend {
    const char *name;
    struct dev *(*open)(int n_threads, struct err *e);  /* NULL: not in this build */
} backends[] = {
    {"cpu",  dev_open_cpu},
    {"cuda", NULL},
};

static const struct backend *find(const char *name, struct err *e)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        const struct backend *b = &backends[i];
        if (name && strcmp(b->name, name))
            continue;
        if (!b->open)
            err_set(e, "backend '%s' is not in this build, expected cpu", name);
        return b->open ? b : NULL;
    }
    err_set(e, "backend '%s' is unknown, expected cpu or cuda", name);
    return NULL;
}

const char *dev_backend(const char *name, struct err *e)
{
    const struct backend *b = find(name, e);
    return b ? b->name : NULL;
}

struct dev *dev_open(const char *name, int n_threads, struct err *e)
{
    const struct backend *b = find(name, e);
    return b ? b->open(n_threads, e) : NULL;
}
