#include "debug/debug.h"

#include <limits.h>

#include "base/json.h"
#include "base/memory.h"
#include "debug/lines.h"
#include "text/pyjson.h"
#include "text/stream.h"

struct answer {
    struct buf reasoning, content, calls;
    struct arena a;
};

static void on_delta(const struct delta *d, void *arg)
{
    struct answer *x = arg;
    switch (d->kind) {
    case DELTA_REASONING:
        buf_add(&x->reasoning, d->text.p, d->text.n);
        break;
    case DELTA_CONTENT:
        buf_add(&x->content, d->text.p, d->text.n);
        break;
    case DELTA_CALL_BEGIN:
        buf_adds(&x->calls, d->call ? ", {\"name\": " : "{\"name\": ");
        json_quote(&x->calls, d->text.p, d->text.n);
        break;
    case DELTA_CALL_END:
        buf_adds(&x->calls, ", \"arguments\": ");
        json_escape(&x->calls, d->text.p, d->text.n + d->closing);
        buf_addf(&x->calls, ", \"truncated\": %s}", d->truncated ? "true" : "false");
        break;
    }
}

/* The JSON text of each tool; NULL with *n 0 when there are none. */
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

static bool answer(const char *line, size_t n, struct buf *out, void *arg, struct err *e)
{
    struct answer *x = arg;
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

int debug_parse(FILE *in, FILE *out)
{
    struct answer x = {0};
    int status = debug_lines(in, out, answer, &x);
    buf_free(&x.reasoning);
    buf_free(&x.content);
    buf_free(&x.calls);
    arena_free(&x.a);
    return status;
}
