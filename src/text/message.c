#include "text/message.h"

#include <limits.h>
#include <string.h>

#include "base/buf.h"
#include "text/pyjson.h"

struct reader {
    struct arena *a;
    struct err   *e;
    bool          vision_ids;
    int           n_images, n_videos;   /* number so far in the conversation */
};

static const struct {
    const char *name;
    enum role   role;
} roles[] = {{"system", ROLE_SYSTEM}, {"user", ROLE_USER}, {"assistant", ROLE_ASSISTANT}, {"tool", ROLE_TOOL}};

static enum role role_of(const struct pyjson *v)
{
    for (size_t i = 0; v && v->kind == PY_STR && i < sizeof roles / sizeof *roles; i++)
        if (text_is(v->text, roles[i].name))
            return roles[i].role;
    return ROLE_OTHER;
}

static bool is_string(const struct pyjson *v, const char *s)
{
    return v && v->kind == PY_STR && text_is(v->text, s);
}

static struct text keep_text(const struct buf *b, struct arena *a)
{
    return (struct text){arena_strndup(a, buf_str(b), b->len), b->len};
}

/* Returns Python's `key in item`, which the template applies to a part.  For a bare string it means "contains". */
static bool part_has(const struct pyjson *item, const char *key)
{
    if (item->kind == PY_STR)
        return text_find(item->text, key);
    if (item->kind == PY_DICT)
        return pyjson_get(item, key);
    for (size_t i = 0; item->kind == PY_LIST && i < item->n; i++)
        if (is_string(&item->items[i], key))
            return true;
    return false;
}

static void add_media(struct reader *r, struct message *m, struct buf *out, bool image)
{
    int count = image ? ++r->n_images : ++r->n_videos;
    if (r->vision_ids)
        buf_addf(out, "%s %d: ", image ? "Picture" : "Video", count);
    m->media[m->n_media++] = out->len;
    buf_adds(out, image ? MEDIA_IMAGE : MEDIA_VIDEO);
}

/* Joins the parts; stops with m->refusal at the first one that the template refuses. */
static bool read_parts(struct reader *r, const struct pyjson *parts, bool system, struct message *m, struct buf *out)
{
    m->media = arena_array(r->a, parts->n, sizeof *m->media);
    for (size_t i = 0; i < parts->n && !m->refusal; i++) {
        const struct pyjson *item = &parts->items[i], *type = pyjson_get(item, "type"), *text;
        bool image = part_has(item, "image") || part_has(item, "image_url") || is_string(type, "image");
        bool video = !image && (part_has(item, "video") || is_string(type, "video"));
        if (system && (image || video)) {
            m->refusal = image ? "System message cannot contain images." : "System message cannot contain videos.";
        } else if (image || video) {
            add_media(r, m, out, image);
        } else if (!part_has(item, "text")) {
            m->refusal = "Unexpected item type in content.";
        } else if ((text = pyjson_get(item, "text"))) {
            if (text->kind > PY_STR)
                return err_set(r->e, "the text of a content part is a list or an object, expected a string");
            pyjson_str(text, out);
        }
    }
    return true;
}

/* Reads the content of a message: a string, or a list of parts.  Another type becomes the message's refusal, as in the template. */
static bool read_content(struct reader *r, const struct pyjson *content, bool system, struct message *m)
{
    if (!content || content->kind == PY_NONE)
        return true;
    if (content->kind == PY_STR) {
        m->content = content->text;
        return true;
    }
    if (content->kind != PY_LIST) {
        m->refusal = "Unexpected content type.";
        return true;
    }
    struct buf out = {0};
    bool ok = read_parts(r, content, system, m, &out);
    if (ok)
        m->content = keep_text(&out, r->a);
    buf_free(&out);
    return ok;
}

static struct text dumped(const struct pyjson *v, struct arena *a)
{
    struct buf out = {0};
    pyjson_dump(v, &out);
    struct text t = keep_text(&out, a);
    buf_free(&out);
    return t;
}

/* Reads the tool calls of a message; everything but a list has none.  A string, or a call without a name, is an error. */
static bool read_calls(struct reader *r, const struct pyjson *calls, struct message *m)
{
    /* The template ignores everything but a list here; a string would break it. */
    if (calls && calls->kind == PY_STR && calls->text.n)
        return err_set(r->e, "tool_calls is a string, expected a list of calls");
    if (!calls || calls->kind != PY_LIST)
        return true;
    m->calls = arena_array(r->a, calls->n, sizeof *m->calls);
    for (size_t i = 0; i < calls->n; i++) {
        const struct pyjson *call = &calls->items[i], *function = pyjson_get(call, "function");
        if (function)
            call = function;
        const struct pyjson *name = pyjson_get(call, "name"), *arguments = pyjson_get(call, "arguments");
        if (!name || name->kind != PY_STR)
            return err_set(r->e, "tool call %zu has no name, expected {\"function\": {\"name\": \"...\", \"arguments\": {...}}}",
                           i + 1);
        m->calls[m->n_calls++] = (struct call){.name = name->text, .arguments = arguments ? dumped(arguments, r->a)
                                                                                          : (struct text){0}};
    }
    return true;
}

/* Reads a message; only the first one may be the system's. */
static bool read_message(struct reader *r, const struct pyjson *v, bool first, struct message *m)
{
    const struct pyjson *reasoning = pyjson_get(v, "reasoning_content");
    m->role = role_of(pyjson_get(v, "role"));
    if (reasoning && reasoning->kind == PY_STR) {
        m->has_reasoning = true;
        m->reasoning = reasoning->text;
    }
    return read_content(r, pyjson_get(v, "content"), first && m->role == ROLE_SYSTEM, m) &&
           (m->role != ROLE_ASSISTANT || read_calls(r, pyjson_get(v, "tool_calls"), m));
}

/* Reads the list of messages.  False with the reason if it is not a list or one is not readable. */
static bool read_messages(struct reader *r, const struct pyjson *v, struct conversation *c)
{
    if (!pyjson_truth(v))               /* absent, null or empty: template_render() reports that */
        return true;
    if (v->kind != PY_LIST || v->n > INT_MAX)
        return err_set(r->e, "messages is not a list of messages");
    c->messages = arena_array(r->a, v->n, sizeof *c->messages);
    for (size_t i = 0; i < v->n; i++, c->n_messages++)
        if (!read_message(r, &v->items[i], i == 0, &c->messages[i]))
            return false;
    return true;
}

/* Reads the list of tools, each of them as JSON text. */
static bool read_tools(struct reader *r, const struct pyjson *v, struct conversation *c)
{
    if (!v || v->kind == PY_NONE)
        return true;
    if (v->kind != PY_LIST || v->n > INT_MAX)
        return err_set(r->e, "tools is not a list of tool objects");
    c->tools = arena_array(r->a, v->n, sizeof *c->tools);
    for (size_t i = 0; i < v->n; i++) {
        if (v->items[i].kind != PY_DICT)
            return err_set(r->e, "tool %zu is not an object", i + 1);
        c->tools[c->n_tools++] = dumped(&v->items[i], r->a);
    }
    return true;
}

/* Reads tools, messages and the template's arguments. */
static bool read_conversation(struct conversation *c, const struct pyjson *top, struct arena *a, struct err *e)
{
    const struct pyjson *kwargs = pyjson_get(top, "kwargs");
    if (top->kind != PY_DICT)
        return err_set(e, "the conversation is not a JSON object");
    if (kwargs && kwargs->kind != PY_DICT && kwargs->kind != PY_NONE)
        return err_set(e, "kwargs is not an object");

    const struct pyjson *thinking = pyjson_get(kwargs, "enable_thinking");
    c->thinking = !thinking || thinking->kind != PY_FALSE;
    c->generation_prompt = pyjson_truth(pyjson_get(kwargs, "add_generation_prompt"));
    c->vision_ids = pyjson_truth(pyjson_get(kwargs, "add_vision_id"));

    struct reader r = {.a = a, .e = e, .vision_ids = c->vision_ids};
    return read_tools(&r, pyjson_get(top, "tools"), c) && read_messages(&r, pyjson_get(top, "messages"), c);
}

bool conversation_parse(struct conversation *c, const char *json, size_t len, struct arena *a, struct err *e)
{
    struct pyjson top;
    *c = (struct conversation){0};
    return pyjson_parse(&top, (struct text){json, len}, PYJSON_LOADS, a, e) && read_conversation(c, &top, a, e);
}
