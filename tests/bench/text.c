#include "tests/bench/measure.h"

#include "base/file.h"
#include "text/tokenizer.h"

bool text_ids(const struct model *m, const char *path, int least, int most, struct ids *out, struct err *e)
{
    enum { LONGEST = 256 << 20, PATIENCE_MS = 10000 };
    struct buf text = {0};
    struct tokenizer *t = tokenizer_open(m->dir, e);
    bool ok = t && file_read_stream(&text, path, LONGEST, PATIENCE_MS, e);
    if (ok)
        tokenizer_encode(t, buf_str(&text), text.len, true, out);
    out->n = out->n < most ? out->n : most;
    ok = ok && (out->n >= least || err_set(e, "%s has %d tokens, expected at least %d", path, out->n, least));
    tokenizer_close(t);
    buf_free(&text);
    return ok;
}
