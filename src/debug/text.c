/* The debug commands that need no model: tokenize, render, parse. */
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/ids.h"
#include "base/json.h"
#include "base/memory.h"
#include "debug/debug.h"
#include "debug/lines.h"
#include "text/pyjson.h"
#include "text/stream.h"
#include "text/template.h"
#include "text/tokenizer.h"

/* Answers the lines with the tokenizer of the model as `arg`, after a warning about what is odd in it. */
static int with_tokenizer(const struct debug_options *o, FILE *in, FILE *out, debug_line_fn *fn)
{
    struct err e = {0};
    struct tokenizer *t = tokenizer_open(o->model_dir, &e);
    if (!t) {
        err_warn("%s", e.msg);
        return 1;
    }
    if (tokenizer_notice(t))
        err_warn("%s", tokenizer_notice(t));
    int status = debug_lines(in, out, fn, t);
    tokenizer_close(t);
    return status;
}

/* ---- tokenize ---- */

static void add_text(struct buf *out, const char *key, const struct buf *text)
{
    buf_addf(out, "\"%s\": ", key);
    json_quote(out, buf_str(text), text->len);
}

/* Writes the ids of a text, with special tokens and without. */
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

/* Writes the text that each id adds. */
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

/* Writes the text of a list of ids, with special tokens and without. */
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

/* Encodes {"text": s} and decodes {"ids": [...]}.  Where a line has both, its "kind" chooses: "decode" and "stream" mean the ids,
 * "encode" the text.  Without a kind both are answered, except that "text" is not repeated. */
static bool tokenize_line(const char *line, size_t n, struct buf *out, void *arg, struct err *e)
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

int debug_tokenize(const struct debug_options *o, FILE *in, FILE *out)
{
    return with_tokenizer(o, in, out, tokenize_line);
}

/* ---- render ---- */

/* Writes a rendered prompt: text and ids, also those with control tokens in user text. */
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

/* Renders a conversation.  In "ids" tags in the text of a user become control tokens, as other programs encode it; "ids_plain" are the ids that we
 * send.  A refusal by the template is the answer to a good line, not a bad line. */
static bool render_line(const char *line, size_t n, struct buf *out, void *arg, struct err *e)
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

int debug_render(const struct debug_options *o, FILE *in, FILE *out)
{
    return with_tokenizer(o, in, out, render_line);
}

/* ---- parse ---- */

struct parsed {
    struct buf reasoning, content, calls;
    struct arena a;
};

/* Collects the parts of a parsed answer. */
static void on_delta(const struct delta *d, void *arg)
{
    struct parsed *x = arg;
    switch (d->kind) {
    case DELTA_REASONING: buf_add(&x->reasoning, d->text.p, d->text.n); break;
    case DELTA_CONTENT: buf_add(&x->content, d->text.p, d->text.n); break;
    case DELTA_CALL_BEGIN:
        buf_adds(&x->calls, d->call ? ", {\"name\": " : "{\"name\": ");
        json_quote(&x->calls, d->text.p, d->text.n);
        break;
    case DELTA_CALL_PIECE: break;
    case DELTA_CALL_END:
        buf_adds(&x->calls, ", \"arguments\": ");
        json_escape(&x->calls, d->text.p, d->text.n + d->closing);
        buf_addf(&x->calls, ", \"truncated\": %s}", d->truncated ? "true" : "false");
        break;
    }
}

/* Returns the JSON text of each tool; NULL with *n 0 when there are no tools. */
static struct text *read_tools(const struct pyjson *list, int *n, struct arena *a)
{
    *n = list && list->kind == PY_LIST && list->n <= INT_MAX ? (int)list->n : 0;
    struct text *tools = arena_array(a, (size_t)*n, sizeof *tools);
    for (int i = 0; i < *n; i++) {
        struct buf json = {0};
        pyjson_dump(&list->items[i], &json);
        tools[i] = (struct text){arena_strndup(a, json.data, json.len), json.len};
        buf_free(&json);
    }
    return tools;
}

/* Answers a line: parses an output of the model into reasoning, content and calls. */
static bool parse_line(const char *line, size_t n, struct buf *out, void *arg, struct err *e)
{
    struct parsed *x = arg;
    struct pyjson top;
    int n_tools;
    buf_reset(&x->reasoning);
    buf_reset(&x->content);
    buf_reset(&x->calls);
    arena_free(&x->a);
    if (!pyjson_parse(&top, (struct text){line, n}, PYJSON_LOADS, &x->a, e))
        return false;
    const struct pyjson *output = pyjson_get(&top, "output"), *finish = pyjson_get(&top, "finish");
    if (!output || output->kind != PY_STR)
        return err_set(e, "expected {\"output\": string, \"tools\": [...], \"thinking\": bool, \"finish\": \"stop\" or \"length\"}");
    const struct text *tools = read_tools(pyjson_get(&top, "tools"), &n_tools, &x->a);
    struct stream *s = stream_open(tools, n_tools, pyjson_truth(pyjson_get(&top, "thinking")), on_delta, x);
    stream_push(s, output->text.p, output->text.n);
    stream_finish(s, finish && finish->kind == PY_STR && text_is(finish->text, "length"));
    stream_close(s);

    buf_adds(out, "{\"reasoning\": ");
    json_quote(out, buf_str(&x->reasoning), x->reasoning.len);
    buf_adds(out, ", \"content\": ");
    json_quote(out, buf_str(&x->content), x->content.len);
    buf_addf(out, ", \"tool_calls\": [%s]}", buf_str(&x->calls));
    return true;
}

int debug_parse(const struct debug_options *o, FILE *in, FILE *out)
{
    struct parsed x = {0};
    (void)o;
    int status = debug_lines(in, out, parse_line, &x);
    buf_free(&x.reasoning);
    buf_free(&x.content);
    buf_free(&x.calls);
    arena_free(&x.a);
    return status;
}
