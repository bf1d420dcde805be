#include "debug/debug.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "debug/lines.h"
#include "text/template.h"

static bool add_rendered(const struct segments *s, const struct tokenizer *t, struct buf *out, struct err *e)
{
    struct buf text = {0};
    struct ids ids = {0}, ids_plain = {0};
    bool ok = segments_encode(s, t, &ids_plain, NULL, e);
    if (ok) {
        segments_text(s, &text);
        tokenizer_encode(t, buf_str(&text), text.len, true, &ids);
        buf_adds(out, "{\"rendered\": ");
        json_quote(out, buf_str(&text), text.len);
        buf_adds(out, ", ");
        debug_list(out, "ids", ids.data, ids.n);
        buf_adds(out, ", ");
        debug_list(out, "ids_plain", ids_plain.data, ids_plain.n);
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
        json_quote(out, e->msg, strlen(e->msg));
        buf_addc(out, '}');
    }
    arena_free(&a);
    return ok;
}

int debug_render(const char *model_dir, FILE *in, FILE *out)
{
    return debug_lines_with_tokenizer(model_dir, in, out, answer);
}
