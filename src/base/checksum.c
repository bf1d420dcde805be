#include "base/checksum.h"

#define XXH_INLINE_ALL                  /* so that the program needs no library where it runs */
#include <stdlib.h>
#include <xxhash.h>

#include "base/memory.h"

struct fingerprinter { XXH3_state_t *state; };

uint64_t checksum(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

struct fingerprinter *fingerprint_begin(void)
{
    struct fingerprinter *f = memory_zeroed(1, sizeof *f);
    f->state = memory_got(XXH3_createState());
    XXH3_128bits_reset(f->state);
    return f;
}

void fingerprint_add(struct fingerprinter *f, const void *bytes, size_t n)
{
    XXH3_128bits_update(f->state, bytes, n);
}

struct fingerprint fingerprint_end(struct fingerprinter *f)
{
    XXH128_hash_t h = XXH3_128bits_digest(f->state);
    XXH3_freeState(f->state);
    free(f);
    return (struct fingerprint){h.low64, h.high64};
}
