#include "bench/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "text/tokenizer.h"

static bool read_text(const char *path, struct buf *out, struct err *e)
{
    char piece[65536];
    FILE *f = fopen(path, "rb");
    if (!f)
        return err_set(e, "cannot open the text: %s", strerror(errno));
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;)
        buf_add(out, piece, n);
    bool ok = !ferror(f) || err_set(e, "cannot read the text: %s", strerror(errno));
    fclose(f);
    return ok;
}

bool text_ids(const struct model *m, const char *path, int least, int most, struct ids *out, struct err *e)
{
    struct buf text = {0};
    struct tokenizer *t = tokenizer_open(m->dir, e);
    bool ok = t && read_text(path, &text, e);
    if (ok)
        tokenizer_encode(t, buf_str(&text), text.len, true, out);
    out->n = out->n < most ? out->n : most;
    ok = ok && (out->n >= least || err_set(e, "the text has %d tokens, expected at least %d", out->n, least));
    tokenizer_close(t);
    buf_free(&text);
    return ok;
}
