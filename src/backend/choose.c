/* The only place that chooses a device. */
#include "backend/dev.h"

#include <string.h>


static bool always(void) { return true; }

static bool confine_none(int n_sm, struct err *e)
{
    return err_set(e, "--sms %d: a CPU has no multiprocessors", n_sm);
}

/* The best one first. */
static const struct backend {
    const char *name;
    struct dev *(*open)(int n_threads, struct err *e);
    bool (*present)(void);
    bool (*confine)(int n_sm, struct err *e);
} backends[] = {
#ifdef Q35_CUDA
    {"cuda", dev_open_cuda, dev_cuda_present, dev_cuda_confine},
#endif
    {"cpu",  dev_open_cpu,  always,           confine_none},
};

/* Returns the backend of this name; NULL: the first one that this machine has.  NULL with the reason if there is no such backend. */
static const struct backend *find(const char *name, struct err *e)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        const struct backend *b = &backends[i];
        if (name ? !strcmp(b->name, name) : b->present())
            return b;
    }
    if (!strcmp(name, "cuda"))
        err_set(e, "backend 'cuda' is not in this build (CUDA=1 with make builds it where nvcc is), expected cpu");
    else
        err_set(e, "backend '%s' is unknown, expected cpu or cuda", name);
    return NULL;
}

const char *dev_backend(const char *name, struct err *e)
{
    const struct backend *b = find(name, e);
    if (b && !b->present()) {
        err_set(e, "no GPU for the backend '%s'", b->name);
        return NULL;
    }
    return b ? b->name : NULL;
}

bool dev_confine(const char *backend, int n_sm, struct err *e)
{
    return find(backend, NULL)->confine(n_sm, e);
}

struct dev *dev_open(const char *name, int n_threads, struct err *e)
{
    const struct backend *b = find(name, e);
    return b ? b->open(n_threads, e) : NULL;
}
