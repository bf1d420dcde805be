#include "serve/engine_key.h"

void engine_key(const struct options *o, struct buf *out)
{
    static const enum option_id shaping[] = {OPT_backend, OPT_threads, OPT_ctx, OPT_kv, OPT_head, OPT_weights_in, OPT_chunk, OPT_snapshots};
    for (size_t i = 0; i < sizeof shaping / sizeof *shaping; i++)
        if (options_given(o, shaping[i]))
            buf_addf(out, "%s%s=%s", out->len ? " " : "", options_key(shaping[i]), options_text(o, shaping[i]));
}
