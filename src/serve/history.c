#include "serve/history.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "serve/seen.h"
#include "text/template.h"

struct reader {
    struct arena *mem;
    struct err   *e;
    const struct pyjson *now;           /* the message that is read */
    size_t        number;               /* its number, from 1 */
    struct buf    system;               /* the system message: the leading ones, joined */
    bool          has_system;
    struct message *all;                /* the others */
    int           n;
};

static const struct { const char *name; enum role role; } roles[] = {
    {"system", ROLE_SYSTEM}, {"developer", ROLE_SYSTEM}, {"user", ROLE_USER}, {"assistant", ROLE_ASSISTANT}, {"tool", ROLE_TOOL},
    {"function", ROLE_TOOL},            /* the former name of "tool" */
};

static const struct pyjson *given_text(const struct pyjson *from, const char *key)
{
    const struct pyjson *v = pyjson_get(from, key);
    return v && v->kind == PY_STR ? v : NULL;
}

static struct text kept(struct reader *r, struct buf *b)
{
    const struct text t = {arena_strndup(r->mem, buf_str(b), b->len), b->len};
    buf_free(b);
    return t;
}

/* Writes a sentence about the message that is read, with its number and role. */
__attribute__((format(printf, 2, 3))) static bool refuse_message(const struct reader *r, const char *fmt, ...)
{
    char what[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    const struct pyjson *role = given_text(r->now, "role");
    if (!role)
        return err_set(r->e, "message %zu: %s", r->number, what);
    return err_set(r->e, "message %zu (role \"%.*s\"): %s", r->number, (int)(role->text.n < 40 ? role->text.n : 40), role->text.p, what);
}

/* ---- content ---- */

static const struct { const char *type, *key; } texts[] = {
    {"text", "text"}, {"input_text", "text"}, {"output_text", "text"}, {"refusal", "refusal"},
};
static const struct { const char *type, *what; bool seen; } media[] = {
    {"image", "image", true}, {"image_url", "image", true}, {"input_image", "image", true}, {"image_file", "image"},
    {"video", "video"}, {"video_url", "video"},
    {"input_video", "video"}, {"audio", "audio"}, {"audio_url", "audio"}, {"input_audio", "audio"}, {"file", "file"}, {"input_file", "file"},
    {"document", "file"},
};
enum { N_TEXTS = sizeof texts / sizeof *texts, N_MEDIA = sizeof media / sizeof *media };

/* Returns whether the part is of that type, which it names, or has as a key. */
static bool is_part(const struct pyjson *part, const char *type)
{
    const struct pyjson *named = pyjson_given(part, "type");
    return named ? named->kind == PY_STR && text_is(named->text, type) : pyjson_given(part, type) != NULL;
}

/* Several programs look for "does not support image input" or "is not a multimodal model", send the history again without pictures, and continue. */
static bool refuse_media(const struct reader *r, const char *what)
{
    return refuse_message(r, "this server does not support %s input (what it serves is not a multimodal model); send text only", what);
}

/* Adds the picture of a part.  The template refuses pictures in the system message; a result that stands first becomes text. */
static bool read_picture(struct reader *r, const struct pyjson *part, struct message *m, struct buf *out)
{
    struct err why = {0};
    struct media *pictures = (struct media *)m->pictures;
    if (m->role == ROLE_SYSTEM)
        return refuse_message(r, "a system message cannot have pictures");
    if (m->role == ROLE_TOOL && !r->n)
        return refuse_message(r, "a picture in a result needs the call before it");
    if (!seen_read(part, &pictures[m->n_media], r->mem, &why))
        return refuse_message(r, "this server does not support image input %s", why.msg);
    pictures[m->n_media].name = text_of(arena_printf(r->mem, "picture %d of message %zu", m->n_media + 1, r->number));
    m->media[m->n_media++] = out->len;
    buf_adds(out, MEDIA_IMAGE);
    return true;
}

/* Makes room for n pictures. */
static void expect_pictures(struct reader *r, struct message *m, size_t n)
{
    m->media = arena_array(r->mem, n, sizeof *m->media);
    m->pictures = arena_array(r->mem, n, sizeof *m->pictures);
}

/* Reads part `number` of a content: text, picture or thinking.  False with the reason. */
static bool read_part(struct reader *r, const struct pyjson *part, size_t number, struct message *m, struct buf *out)
{
    if (part->kind == PY_STR) {
        buf_add(out, part->text.p, part->text.n);
        return true;
    }
    for (int i = 0; i < N_MEDIA; i++)
        if (is_part(part, media[i].type))
            return media[i].seen ? read_picture(r, part, m, out) : refuse_media(r, media[i].what);
    for (int i = 0; i < N_TEXTS; i++)
        if (is_part(part, texts[i].type)) {
            const struct pyjson *v = given_text(part, texts[i].key);
            if (v)
                buf_add(out, v->text.p, v->text.n);
            return v || refuse_message(r, "part %zu of its content has no text in \"%s\"", number, texts[i].key);
        }
    if (m->role == ROLE_ASSISTANT && is_part(part, "thinking") && given_text(part, "thinking")) {
        m->has_reasoning = true;
        m->reasoning = given_text(part, "thinking")->text;
        return true;
    }
    if (m->role == ROLE_ASSISTANT && is_part(part, "redacted_thinking"))
        return true;
    const struct pyjson *type = given_text(part, "type");
    return refuse_message(r, "part %zu of its content is of the type \"%.*s\", expected \"text\"", number, type ? (int)type->text.n : 0,
                  type ? type->text.p : "");
}

/* Reads a content that is a list of parts. */
static bool read_parts(struct reader *r, const struct pyjson *parts, struct message *m)
{
    struct buf out = {0};
    bool ok = true;
    expect_pictures(r, m, parts->n);
    for (size_t i = 0; ok && i < parts->n; i++)
        ok = read_part(r, &parts->items[i], i + 1, m, &out);
    m->content = kept(r, &out);
    return ok;
}

/* Reads pictures as ollama has them, beside a content that is a text: they come before it. */
static bool read_images(struct reader *r, const struct pyjson *images, const struct pyjson *content, struct message *m)
{
    struct buf out = {0};
    bool ok = (images->kind == PY_LIST && (!content || content->kind == PY_STR)) ||
              refuse_message(r, "its images are no list beside a content that is a text");
    expect_pictures(r, m, ok ? images->n : 0);
    for (size_t i = 0; ok && i < images->n; i++)
        ok = read_picture(r, &images->items[i], m, &out);
    if (content && content->kind == PY_STR)
        buf_add(&out, content->text.p, content->text.n);
    m->content = kept(r, &out);
    return ok;
}

/* Reads the content of a message: a text, a list of parts or, for a tool's result, any JSON. */
static bool read_content(struct reader *r, struct message *m)
{
    const struct pyjson *v = pyjson_given(r->now, "content"), *images = pyjson_get(r->now, "images");
    struct buf out = {0};
    if (pyjson_truth(images))
        return read_images(r, images, v, m);
    if (!v)
        return true;
    if (v->kind == PY_LIST)
        return read_parts(r, v, m);
    if (v->kind == PY_STR) {
        m->content = v->text;
        return true;
    }
    if (m->role != ROLE_TOOL)
        return refuse_message(r, "its content is neither a text nor a list of parts");
    pyjson_dump(v, &out);               /* a result that is JSON */
    m->content = kept(r, &out);
    return true;
}

/* Reads the reasoning of an answer from the first of the fields that servers use for it. */
static void read_reasoning(struct reader *r, struct message *m)
{
    static const char *const names[] = {"reasoning_content", "reasoning", "thinking"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct pyjson *v = given_text(r->now, names[i]);
        if (!v)
            continue;
        m->has_reasoning = true;
        m->reasoning = v->text;
        return;
    }
}

/* ---- calls ---- */

/* Returns arguments as the JSON text of an object.  Those that are no object become the one parameter "arguments", as they are. */
static struct text read_arguments(struct reader *r, const struct pyjson *v)
{
    struct buf out = {0};
    struct pyjson object;
    struct err why;
    if (v && v->kind != PY_STR)
        pyjson_dump(v, &out);
    struct text t = out.len ? kept(r, &out) : text_trim(v ? v->text : text_of(""));
    if (!t.n || text_is(t, "null"))
        return text_of("{}");
    if (pyjson_parse(&object, t, PYJSON_FINITE, r->mem, &why) && object.kind == PY_DICT)
        return t;
    buf_adds(&out, "{\"arguments\": ");
    pyjson_quote(t, &out);
    buf_adds(&out, "}");
    return kept(r, &out);
}

static bool read_call(struct reader *r, const struct pyjson *call, struct message *m)
{
    const struct pyjson *function = pyjson_given(call, "function"), *from = function ? function : call, *name = given_text(from, "name");
    if (!name)
        return refuse_message(r, "call %d has no name, expected {\"function\": {\"name\": ..., \"arguments\": ...}}", m->n_calls + 1);
    const struct pyjson *id = given_text(call, "id");
    m->calls[m->n_calls++] = (struct call){name->text, read_arguments(r, pyjson_get(from, "arguments")), id ? id->text : text_of("")};
    return true;
}

/* Reads the calls of an answer, of tool_calls or of the former function_call. */
static bool read_calls(struct reader *r, struct message *m)
{
    const struct pyjson *calls = pyjson_given(r->now, "tool_calls"), *former = pyjson_given(r->now, "function_call");
    bool ok = !calls || calls->kind == PY_LIST || refuse_message(r, "tool_calls is not a list of calls");
    const size_t n = calls ? calls->n : 0;
    m->calls = arena_array(r->mem, n + 1, sizeof *m->calls);
    for (size_t i = 0; ok && i < n; i++)
        ok = read_call(r, &calls->items[i], m);
    return ok && (!former || n || read_call(r, former, m));
}

/* ---- messages ---- */

static struct text wrapped(struct reader *r, const char *tag, struct text t)
{
    struct buf out = {0};
    buf_addf(&out, "<%s>\n", tag);
    buf_add(&out, t.p, t.n);
    buf_addf(&out, "\n</%s>", tag);
    return kept(r, &out);
}

static void add(struct reader *r, struct message m)
{
    r->all[r->n++] = m;
}

static void add_aside(struct reader *r, const char *tag, struct text t)
{
    add(r, (struct message){.role = ROLE_USER, .aside = true, .content = wrapped(r, tag, t)});
}

/* Adds a text of the system: to the system message, or as a reminder once other messages have come. */
static void add_system(struct reader *r, struct text t)
{
    if (r->n && t.n)
        add_aside(r, "system-reminder", t);
    if (r->n)
        return;
    r->has_system = true;
    if (r->system.len && t.n)
        buf_adds(&r->system, "\n\n");
    buf_add(&r->system, t.p, t.n);
}

/* Finds the role of a message.  False with the reason. */
static bool find_role(const struct reader *r, enum role *role)
{
    const struct pyjson *v = given_text(r->now, "role");
    for (size_t i = 0; v && i < sizeof roles / sizeof *roles; i++)
        if (text_is(v->text, roles[i].name)) {
            *role = roles[i].role;
            return true;
        }
    return refuse_message(r, "%s role, expected system, developer, user, assistant or tool", v ? "unknown" : "it has no");
}

/* Reads the message r->now and adds it. */
static bool read_message(struct reader *r)
{
    struct message m = {0};
    if (r->now->kind != PY_DICT)
        return refuse_message(r, "it is not an object, expected {\"role\": ..., \"content\": ...}");
    if (!find_role(r, &m.role) || !read_content(r, &m))
        return false;
    if (m.role == ROLE_ASSISTANT)
        read_reasoning(r, &m);
    if (m.role == ROLE_ASSISTANT && !read_calls(r, &m))
        return false;
    const struct pyjson *call_id = given_text(r->now, "tool_call_id");
    if (m.role == ROLE_TOOL && call_id)
        m.call_id = call_id->text;
    if (m.role == ROLE_SYSTEM)
        add_system(r, text_trim(m.content));
    else if (m.role == ROLE_TOOL && !r->n && !r->has_system)
        add_aside(r, "tool_response", text_trim(m.content));    /* the template writes no turn around a result that comes first */
    else
        add(r, m);
    return true;
}

/* Returns which of the calls has this id; -1: none, or several. */
static int call_of(const struct message *m, struct text id)
{
    int found = -1;
    for (int i = 0; i < m->n_calls; i++)
        if (id.n && text_same(m->calls[i].id, id)) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

/* Puts the results after an answer into the order of its calls, since the chat template writes no ids.  Results stay as they are unless each has the
 * id of a call. */
static void order_results(struct message *answer, struct message *results, int n)
{
    for (int i = 0; i < n; i++)
        if (call_of(answer, results[i].call_id) < 0)
            return;
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && call_of(answer, results[k].call_id) < call_of(answer, results[k - 1].call_id); k--) {
            const struct message later = results[k];
            results[k] = results[k - 1];
            results[k - 1] = later;
        }
}

/* Sets `aside` for user messages that follow the result of a call: words of a client beside it, a picture that a result cannot hold, a user who
 * hurries.  They begin no new turn, so the reasoning before them stays in the prompt, and what was computed of it. */
static void mark_asides(struct reader *r)
{
    bool asked = false, continues = false;
    for (int i = 0; i < r->n; i++) {
        struct message *m = &r->all[i];
        continues = m->role == ROLE_TOOL || (continues && m->role == ROLE_USER);
        m->aside |= asked && continues && m->role == ROLE_USER;
        asked |= m->role == ROLE_USER && !m->aside;
    }
}

/* Reads all messages, and puts results in the order of their calls.  At least one must be a question. */
static bool read_messages(struct reader *r, const struct pyjson *list)
{
    bool asks = false, ok = true;
    if (!list || list->kind != PY_LIST || !list->n || list->n > INT_MAX - 1)
        return err_set(r->e, "messages is missing or empty, expected a list of {\"role\": ..., \"content\": ...}");
    r->all = (struct message *)arena_array(r->mem, list->n + 1, sizeof *r->all) + 1;    /* the system message goes before them */
    for (size_t i = 0; ok && i < list->n; i++) {
        r->now = &list->items[i];
        r->number = i + 1;
        ok = read_message(r);
    }
    for (int i = 0, n; i < r->n; i += 1 + n) {
        for (n = 0; r->all[i].n_calls > 1 && i + 1 + n < r->n && r->all[i + 1 + n].role == ROLE_TOOL; n++)
            ;
        if (n <= r->all[i].n_calls)
            order_results(&r->all[i], &r->all[i + 1], n);
    }
    mark_asides(r);
    for (int i = 0; i < r->n; i++)
        asks = asks || template_is_query(&r->all[i]);
    return ok && (asks || err_set(r->e, "messages has no question of the role \"user\", expected at least one"));
}

/* ---- tools ---- */

enum { SHOWN = 60 };                    /* bytes of a name in a refusal */

bool history_tool(const char *place, const struct pyjson *name, const struct pyjson *parameters, struct err *e)
{
    const struct pyjson *properties = pyjson_given(parameters, "properties");
    const struct text named = name->text;
    if (!text_is_tag_name(named))
        return err_set(e, "%s has the name \"%.*s\": " TEXT_TAG_NAME, place, (int)(named.n < SHOWN ? named.n : SHOWN), named.p);
    if (parameters && parameters->kind != PY_DICT && parameters->kind != PY_TRUE)
        return err_set(e, "%s (%.*s) has parameters that are not a JSON schema of an object", place, (int)(named.n < SHOWN ? named.n : SHOWN),
                       named.p);
    for (size_t i = 0; properties && properties->kind == PY_DICT && i < properties->n; i++) {
        const struct text key = properties->keys[i];
        if (!text_is_tag_name(key))
            return err_set(e, "%s (%.*s) has a parameter with the name \"%.*s\": " TEXT_TAG_NAME, place, (int)(named.n < SHOWN ? named.n : SHOWN),
                           named.p, (int)(key.n < SHOWN ? key.n : SHOWN), key.p);
    }
    return true;
}

/* Reads a tool as JSON text; place: its name in a refusal.  False if it is no function, or a name cannot be used. */
static bool read_tool(struct reader *r, const struct pyjson *tool, const char *place, struct text *to)
{
    const struct pyjson *type = pyjson_given(tool, "type"), *function = pyjson_given(tool, "function");
    struct buf out = {0};
    if (type && (type->kind != PY_STR || !text_is(type->text, "function")))
        return err_set(r->e, "%s is of the type \"%.*s\", expected \"function\": the program that asks runs all tools", place,
                       type->kind == PY_STR ? (int)type->text.n : 0, type->kind == PY_STR ? type->text.p : "");
    if (!given_text(function, "name"))
        return err_set(r->e, "%s has no function with a name, expected {\"type\": \"function\", \"function\": {\"name\": ..., \"parameters\": "
                             "{...}}}", place);
    if (!history_tool(place, given_text(function, "name"), pyjson_given(function, "parameters"), r->e))
        return false;
    pyjson_dump(tool, &out);
    *to = kept(r, &out);
    return true;
}

static bool read_tools(struct reader *r, struct request *q, const struct pyjson *list)
{
    bool ok = !list || (list->kind == PY_LIST && list->n <= INT_MAX) || err_set(r->e, "tools is not a list of tools");
    struct text *tools = arena_array(r->mem, list ? list->n : 0, sizeof *tools);
    const char **fields = arena_array(r->mem, list ? list->n : 0, sizeof *fields);
    q->tools = tools;
    q->tool_fields = fields;
    for (size_t i = 0; ok && list && i < list->n; i++, q->n_tools++) {
        const char *place = arena_printf(r->mem, "tools[%zu]", i);
        ok = read_tool(r, &list->items[i], place, &tools[i]);
        fields[i] = arena_printf(r->mem, "%s.function.parameters", place);
    }
    return ok;
}

bool history_read(struct request *q, const struct pyjson *top, struct arena *mem, struct err *e)
{
    struct reader r = {.mem = mem, .e = e};
    const bool ok = read_tools(&r, q, pyjson_given(top, "tools")) && read_messages(&r, pyjson_given(top, "messages"));
    if (ok && r.has_system) {
        *--r.all = (struct message){.role = ROLE_SYSTEM, .content = kept(&r, &r.system)};
        r.n++;
    }
    buf_free(&r.system);
    q->messages = r.all;
    q->n_messages = r.n;
    return ok;
}
