#include "debug/debug.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/ids.h"
#include "base/json.h"
#include "debug/lines.h"
#include "text/tokenizer.h"

static void add_text(struct buf *out, const char *key, const struct buf *text)
{
    buf_addf(out, "\"%s\": ", key);
    json_quote(out, buf_str(text), text->len);
}

static void answer_encode(const struct tokenizer *t, const json_t *text, struct buf *out)
{
    static const char *const keys[] = { "ids_plain", "ids" };
    for (int specials = 1; specials >= 0; specials--) {
        struct ids ids = {0};
        tokenizer_encode(t, json_string_value(text), json_string_length(text), specials, &ids);
        debug_list(out, keys[specials], ids.data, ids.n);
        if (specials)
            buf_adds(out, ", ");
        ids_free(&ids);
    }
}

static void decode(const struct tokenizer *t, const struct ids *ids, bool skip_special, struct buf *text)
{
    struct detok d = {0};
    for (int i = 0; i < ids->n; i++)
        detok_push(&d, t, ids->data[i], skip_special, text);
    detok_flush(&d, text);
}

static void answer_pieces(const struct tokenizer *t, const struct ids *ids, struct buf *out)
{
    struct detok d = {0};
    struct buf piece = {0};
    buf_adds(out, "\"pieces\": [");
    for (int i = 0; i <= ids->n; i++) {
        buf_reset(&piece);
        if (i < ids->n)
            detok_push(&d, t, ids->data[i], false, &piece);
        else
            detok_flush(&d, &piece);
        if (i)
            buf_adds(out, ", ");
        json_quote(out, buf_str(&piece), piece.len);
    }
    buf_addc(out, ']');
    buf_free(&piece);
}

static bool answer_decode(const struct tokenizer *t, const json_t *list, bool with_text, struct buf *out, struct err *e)
{
    struct ids ids = {0};
    struct buf text = {0}, visible = {0};
    bool ok = true;
    size_t i;
    json_t *x;
    json_array_foreach(list, i, x) {
        json_int_t id = json_integer_value(x);
        if (!json_is_integer(x))
            ok = err_set(e, "entry %zu of \"ids\" is not an integer", i);
        ids_add(&ids, id < 0 || id > INT32_MAX ? -1 : (int32_t)id);    /* beyond the vocabulary: no text, as gaps in it */
    }
    if (ok) {
        decode(t, &ids, false, &text);
        decode(t, &ids, true, &visible);
        if (with_text) {
            add_text(out, "text", &text);
            buf_adds(out, ", ");
        }
        add_text(out, "text_skip_special", &visible);
        buf_adds(out, ", ");
        answer_pieces(t, &ids, out);
    }
    ids_free(&ids);
    buf_free(&text);
    buf_free(&visible);
    return ok;
}

/* {"text": s} is encoded and {"ids": [...]} decoded.  Where a line has both, its "kind" says what is asked: "decode" and
 * "stream" mean the ids, "encode" the text.  Without a kind both are answered, except that "text" is not repeated. */
static bool answer(const char *line, size_t n, struct buf *out, void *arg, struct err *e)
{
    const struct tokenizer *t = arg;
    json_error_t je;
    json_t *root = json_loadb(line, n, JSON_ALLOW_NUL, &je);
    const json_t *text = json_object_get(root, "text"), *ids = json_object_get(root, "ids");
    const char *kind = json_string_value(json_object_get(root, "kind"));
    bool ok = true;
    if (!json_is_string(text) || (ids && kind && (!strcmp(kind, "decode") || !strcmp(kind, "stream"))))
        text = NULL;
    if (!json_is_array(ids) || (text && kind && !strcmp(kind, "encode")))
        ids = NULL;
    if (!root)
        ok = err_set(e, "not a line of JSON: %s", je.text);
    else if (!text && !ids)
        ok = err_set(e, "expected {\"text\": string} or {\"ids\": [integers]}");
    buf_addc(out, '{');
    if (ok && text)
        answer_encode(t, text, out);
    if (ok && text && ids)
        buf_adds(out, ", ");
    if (ok && ids)
        ok = answer_decode(t, ids, !text, out, e);
    buf_addc(out, '}');
    json_decref(root);
    return ok;
}

int debug_tokenize(const char *model_dir, FILE *in, FILE *out)
{
    return debug_lines_with_tokenizer(model_dir, in, out, answer);
}
