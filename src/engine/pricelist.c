#include "engine/pricelist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
    LINES   = 32,                       /* that a file keeps */
    BYTES   = 1 << 16,                  /* of a file that is read */
    FIGURES = 1 + 3 * PRICE_ROWS,       /* of a line: those of the struct, in its order */
};

/* Reads the figures of a line; what stands behind the blank after them, NULL: these are no prices. */
static const char *parse(const char *line, struct price *p)
{
    double all[FIGURES];
    char *end;
    for (int i = 0; i < FIGURES; i++, line = end) {
        all[i] = strtod(line, &end);
        if (end == line || !(all[i] >= 0 && all[i] < 1e9))
            return NULL;
    }
    *p = (struct price){.one_ms = all[0]};
    for (int i = 0; i < PRICE_ROWS; i++) {
        p->ratio[i] = all[1 + i];
        p->timed[i] = (int)all[1 + PRICE_ROWS + i];
        p->draft_ms[i] = all[1 + 2 * PRICE_ROWS + i];
    }
    return *line == ' ' && price_is_likely(p) ? line + 1 : NULL;
}

bool pricelist_find(struct price *p, const char *path, const char *key)
{
    struct buf text = {0};
    struct err ignored;
    bool found = false;
    char *rest = buf_read_file(&text, path, BYTES, &ignored) ? text.data : NULL;
    for (char *line; (line = strsep(&rest, "\n"));) {
        struct price got;
        const char *of = parse(line, &got);
        if (of && !strcmp(of, key)) {
            price_doubt(&got);
            *p = got;
            found = true;
        }
    }
    buf_free(&text);
    return found;
}

static void write_line(struct buf *out, const struct price *p, const char *key)
{
    buf_addf(out, "%.5g", p->one_ms);
    for (int i = 0; i < PRICE_ROWS; i++)
        buf_addf(out, " %.5g", p->ratio[i]);
    for (int i = 0; i < PRICE_ROWS; i++)
        buf_addf(out, " %d", p->timed[i]);
    for (int i = 0; i < PRICE_ROWS; i++)
        buf_addf(out, " %.5g", p->draft_ms[i]);
    buf_addf(out, " %s\n", key);
}

/* The newest lines of other keys. */
static void write_others(struct buf *out, const char *path, const char *key)
{
    struct buf text = {0};
    struct err ignored;
    int n = 0;
    char *rest = buf_read_file(&text, path, BYTES, &ignored) ? text.data : NULL;
    for (char *line; (line = strsep(&rest, "\n"));) {
        struct price p;
        const char *of = parse(line, &p);
        if (!of || !strcmp(of, key))
            continue;
        if (n++ >= LINES - 1)
            buf_consume(out, (size_t)(strchr(out->data, '\n') + 1 - out->data));
        write_line(out, &p, of);
    }
    buf_free(&text);
}

bool pricelist_keep(const struct price *p, const char *path, const char *key, struct err *e)
{
    struct buf out = {0};
    write_others(&out, path, key);
    write_line(&out, p, key);
    const bool ok = buf_replace_file_unsynced(path, out.data, out.len)
                 || err_set(e, "cannot remember what steps take in %s: %s", path, strerror(errno));
    buf_free(&out);
    return ok;
}
