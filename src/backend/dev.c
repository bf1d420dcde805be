/* The abilities of the devices of each backend, and the operations that not every device has. */
#include "backend/dev.h"

#include <string.h>

#include "base/err.h"

static const struct { const char *name; struct dev_caps caps; } backends[] = {
    {"cuda", {.packs_weights = true, .several = true, .beside_host = true, .kv_dtypes = 1u << DT_BF16,
              .kv_codes = 1u << KV_PAIR(KV_INT8, KV_INT8) | 1u << KV_PAIR(KV_INT8, KV_TQ4) | 1u << KV_PAIR(KV_TQ4, KV_TQ4)
                          | 1u << KV_PAIR(KV_TQ4, KV_TQ3)}},
    {"cpu",  {.several = true, .kv_dtypes = 1u << DT_F32 | 1u << DT_BF16, .kv_codes = ~0u}},
};

const struct dev_caps *dev_caps(const char *backend)
{
    size_t i = 0;
    while (i < sizeof backends / sizeof *backends && strcmp(backends[i].name, backend) != 0)
        i++;
    CHECK(i < sizeof backends / sizeof *backends);
    return &backends[i].caps;
}

bool dev_facts(const struct dev *d, struct dev_facts *f)
{
    return d->facts && d->facts(d, f);
}

void dev_limit_shared(struct dev *d, size_t bytes)
{
    if (d->limit_shared)
        d->limit_shared(d, bytes);
}

void dev_limit_cache(struct dev *d, size_t bytes)
{
    if (d->limit_cache)
        d->limit_cache(d, bytes);
}
