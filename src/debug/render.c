#include "debug/debug.h"

#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "debug/lines.h"
#include "text/template.h"

static void add_ids(struct buf *out, const char *key, const struct ids *ids)
{
    buf_addf(out, ", \"%s\": [", key);
    for (int i = 0; i < ids->n; i++)
        buf_addf(out, i ? ", %d" : "%d", ids->data[i]);
    buf_addc(out, ']');
}

static bool add_rendered(const struct segments *s, const struct tokenizer *t, struct buf *out, struct err *e)
{
    struct buf text = {0};
    struct ids ids = {0}, ids_plain = {0};
    bool ok = segments_encode(s, t, &ids_plain, NULL, e);
    if (ok) {
        segments_text(s, &text);
        tokenizer_encode(t, buf_str(&text), text.len, true, &ids);
        buf_adds(out, "{\"rendered\": ");
        debug_quote(out, buf_str(&text), text.len);
        add_ids(out, "ids", &ids);
        add_ids(out, "ids_plain", &ids_plain);
        buf_addc(out, '}');
    }
    buf_free(&text);
    ids_free(&ids);
    ids_free(&ids_plain);
    return ok;
}

/* "ids" is what others send: tags in the text of a user become control tokens.  "ids_plain" is what we send.  A refusal by the
 * template is the answer to a good line, not a bad line. */
static bool answer(const char *line, size_t n, struct buf *out, void *arg, struct err *e)
{
    struct conversation c;
    struct segments s = {0};
    struct arena a = {0};
    bool ok = conversation_parse(&c, line, n, &a, e);
    if (ok && template_render(&c, &s, &a, e)) {
        ok = add_rendered(&s, arg, out, e);
    } else if (ok) {
        buf_adds(out, "{\"error\": ");
        debug_quote(out, e->msg, strlen(e->msg));
        buf_addc(out, '}');
    }
    arena_free(&a);
    return ok;
}

int debug_render(const char *model_dir, FILE *in, FILE *out)
{
    struct err e = {0};
    struct tokenizer *t = tokenizer_open(model_dir, &e);
    if (!t) {
        log_warn("%s", e.msg);
        return 1;
    }
    if (tokenizer_notice(t))
        log_warn("%s", tokenizer_notice(t));
    int status = debug_lines(in, out, answer, t);
    tokenizer_close(t);
    return status;
}
