/* Requests to the server in tests: their set-up, the prompt of what was read, and one conversation written in the three dialects. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "serve/question.h"
#include "serve/response.h"
#include "serve/seen.h"
#include "text/template.h"

static struct arena a;
static struct options *options;
static struct question q;
static struct err e;

static inline int setup(void **state)
{
    (void)state;
    options = options_open();
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    question_free(&q);
    q = (struct question){0};
    options_close(options);
    arena_free(&a);
    return 0;
}

static inline void look_begins(void *arg) { (void)arg; }

static inline bool read_as(const struct format *f, const char *body)
{
    e = (struct err){{0}};
    question_free(&q);
    struct look look = {.begins = look_begins};
    const bool ok = f->read(&q, text_of(body), options, &e) && seen_look(q.request.messages, q.request.n_messages, &look, &e);
    q.format = f;
    return ok;
}

static inline struct segments rendered(void)
{
    const struct conversation c = {
        .messages = (struct message *)q.request.messages, .n_messages = q.request.n_messages, .tools = (struct text *)q.request.tools,
        .n_tools = q.request.n_tools, .thinking = q.request.thinking, .generation_prompt = true,
    };
    struct segments s = {0};
    if (!template_render(&c, &s, &a, &e))
        fail_msg("%s", e.msg);
    return s;
}

/* The prompt of the request that was read. */
static inline const char *prompt(void)
{
    const struct segments s = rendered();
    struct buf b = {0};
    segments_text(&s, &b);
    const char *text = arena_strdup(&a, buf_str(&b));
    buf_free(&b);
    return text;
}

/* Reads a file of tests/data/requests; the terminating newline of a file is not part of it. */
static inline const char *read_file(const char *name)
{
    struct buf file = {0};
    if (!file_read(&file, arena_printf(&a, "tests/data/requests/%s", name), 1 << 20, &e))
        fail_msg("%s", e.msg);
    const char *text = arena_strndup(&a, file.data, file.len - 1);
    buf_free(&file);
    return text;
}

/* ---- a conversation: parts "K=VALUE" with "|" between them.  Values are the inside of JSON strings.
 *
 * s system, d system later on, u user, p a picture of the user, r a answer's reasoning and text, c "ID NAME ARGUMENTS" a call, o "ID TEXT" its
 * result, f a tool's name, x the choice of a tool: auto, none, required, a name, or + and an allowed name, y no parallel calls ---- */

enum { ASKED_MOST = 32 };
enum asked_dialect { ASKED_CHAT, ASKED_MESSAGES, ASKED_RESPONSES, N_ASKED };

struct asked_part { char kind; struct text v; };
struct asked { struct asked_part all[ASKED_MOST]; int n; bool parts, thinks; };     /* parts: texts are lists, with the marks of real clients */

static const struct format *const asked_formats[] = {&format_openai, &format_messages, &format_responses};

static inline struct asked asked_of(const char *talk, bool parts, bool thinks)
{
    struct asked t = {.parts = parts, .thinks = thinks};
    for (const char *p = talk; *p && t.n < ASKED_MOST; p += *p == '|') {
        const size_t n = strcspn(p, "|");
        t.all[t.n++] = (struct asked_part){*p, {p + 2, n - 2}};
        p += n;
    }
    return t;
}

/* Splits the first word off. */
static inline struct text asked_word(struct text *v)
{
    const char *blank = memchr(v->p, ' ', v->n);
    const struct text word = {v->p, blank ? (size_t)(blank - v->p) : v->n};
    *v = (struct text){word.p + word.n + (blank != NULL), v->n - word.n - (blank != NULL)};
    return word;
}

#define ASKED_PICTURE "iVBORw0KGgoAAAANSUhEUgAAAAMAAAAFCAIAAAAPE8H1AAAAPUlEQVR4nAEyAM3/AfX7FLjcnS7+" \
                      "3gJ9x9P5CxD8/RMABh3tCwr+0NWmBGa8/Df4xPn7BgICARD2Bxn9BP6htRkhHsAHjgAAAABJRU5ErkJggg=="
#define ASKED_TEXT(v) (int)(v).n, (v).p

/* Writes a content: a text, or a list with one part of that type. */
static inline void asked_content(struct buf *b, bool parts, const char *type, struct text v, const char *more)
{
    if (parts)
        buf_addf(b, "\"content\": [{\"type\": \"%s\", \"text\": \"%.*s\"%s}]}", type, ASKED_TEXT(v), more);
    else
        buf_addf(b, "\"content\": \"%.*s\"}", ASKED_TEXT(v));
}

static inline int asked_end_of_answer(const struct asked *t, int i)
{
    while (i < t->n && strchr("rac", t->all[i].kind))
        i++;
    return i;
}

/* ---- chat completions */

static inline void asked_chat_answer(struct buf *b, const struct asked *t, int i, int end)
{
    int n_calls = 0;
    buf_adds(b, "{\"role\": \"assistant\"");
    for (; i < end; i++) {
        struct text v = t->all[i].v;
        if (t->all[i].kind == 'r')
            buf_addf(b, ", \"%s\": \"%.*s\"", t->parts ? "reasoning" : "reasoning_content", ASKED_TEXT(v));
        else if (t->all[i].kind == 'a')
            buf_addf(b, ", \"content\": \"%.*s\"", ASKED_TEXT(v));
        else {
            const struct text id = asked_word(&v), name = asked_word(&v);
            buf_addf(b, "%s{\"id\": \"%.*s\", \"type\": \"function\", \"function\": {\"name\": \"%.*s\", \"arguments\": %.*s}}",
                     n_calls++ ? ", " : ", \"tool_calls\": [", ASKED_TEXT(id), ASKED_TEXT(name), ASKED_TEXT(v));
        }
    }
    buf_adds(b, n_calls ? "]}" : "}");
}

static inline void asked_chat(struct buf *b, const struct asked *t)
{
    for (int i = 0; i < t->n; i++) {
        struct text v = t->all[i].v;
        const char kind = t->all[i].kind;
        if (strchr("fxy", kind))
            continue;
        buf_adds(b, b->len ? ", " : "");
        if (strchr("rac", kind)) {
            const int end = asked_end_of_answer(t, i);
            asked_chat_answer(b, t, i, end);
            i = end - 1;
        } else if (kind == 'p') {
            buf_adds(b, "{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/png;base64," ASKED_PICTURE
                        "\"}}]}");
        } else if (kind == 'o') {
            const struct text id = asked_word(&v);
            buf_addf(b, "{\"role\": \"tool\", \"tool_call_id\": \"%.*s\", ", ASKED_TEXT(id));
            asked_content(b, t->parts, "text", v, "");
        } else {
            buf_addf(b, "{\"role\": \"%s\", ", kind == 'u' ? "user" : t->parts ? "developer" : "system");
            asked_content(b, t->parts, "text", v, "");
        }
    }
}

/* ---- messages: with parts the text behind results is in their message, and reasoning in a signature */

static inline void asked_block(struct buf *b, const struct asked *t, const struct asked_part *p)
{
    struct text v = p->v;
    if (p->kind == 'r' && t->parts)
        buf_addf(b, "{\"type\": \"thinking\", \"thinking\": \"\", \"signature\": \"q35chat:%.*s\"}", ASKED_TEXT(v));
    else if (p->kind == 'r')
        buf_addf(b, "{\"type\": \"thinking\", \"thinking\": \"%.*s\", \"signature\": \"\"}", ASKED_TEXT(v));
    else if (p->kind == 'p')
        buf_adds(b, "{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": \"image/png\", \"data\": \"" ASKED_PICTURE "\"}}");
    else if (p->kind == 'c') {
        const struct text id = asked_word(&v), name = asked_word(&v);
        buf_addf(b, "{\"type\": \"tool_use\", \"id\": \"%.*s\", \"name\": \"%.*s\", \"input\": %.*s}", ASKED_TEXT(id), ASKED_TEXT(name),
                 ASKED_TEXT(v));
    } else if (p->kind == 'o') {
        const struct text id = asked_word(&v);
        buf_addf(b, "{\"type\": \"tool_result\", \"tool_use_id\": \"%.*s\", ", ASKED_TEXT(id));
        asked_content(b, t->parts, "text", v, "");
    } else {
        buf_addf(b, "{\"type\": \"text\", \"text\": \"%.*s\"%s}", ASKED_TEXT(v), t->parts ? ", \"cache_control\": {\"type\": \"ephemeral\"}" : "");
    }
}

static inline void asked_messages(struct buf *b, const struct asked *t)
{
    for (int i = 0, end; i < t->n; i = end) {
        const char kind = t->all[i].kind;
        end = i + 1;
        if (strchr("sfxy", kind))
            continue;
        buf_adds(b, b->len ? ", " : "");
        if (kind == 'd') {
            buf_adds(b, "{\"role\": \"system\", ");
            asked_content(b, t->parts, "text", t->all[i].v, "");
            continue;
        }
        const bool answer = strchr("rac", kind) != NULL;
        if (answer)
            end = asked_end_of_answer(t, i);
        for (; !answer && t->parts && end < t->n && t->all[end - 1].kind == 'o' && strchr("oup", t->all[end].kind); end++)
            ;
        buf_addf(b, "{\"role\": \"%s\", \"content\": [", answer ? "assistant" : "user");
        for (int k = i; k < end; k++) {
            buf_adds(b, k > i ? ", " : "");
            asked_block(b, t, &t->all[k]);
        }
        buf_adds(b, "]}");
    }
}

static inline void asked_system(struct buf *b, const struct asked *t)
{
    buf_addf(b, ", \"system\": [%s", t->parts ? "{\"type\": \"text\", \"text\": \"x-anthropic-billing-header: cch=1;\"}" : "");
    for (int i = 0, n = t->parts; i < t->n; i++)
        if (t->all[i].kind == 's') {
            buf_adds(b, n++ ? ", " : "");
            asked_block(b, t, &t->all[i]);
        }
    buf_addc(b, ']');
}

/* ---- responses: with parts there are items of other servers, and reasoning is encrypted content */

static inline void asked_item(struct buf *b, const struct asked *t, const struct asked_part *p)
{
    struct text v = p->v;
    const char *marks = t->parts ? "\"id\": \"x\", \"status\": \"completed\", " : "";
    if (p->kind == 'r' && t->parts)
        buf_addf(b, "{\"type\": \"reasoning\", %s\"summary\": [], \"encrypted_content\": \"q35chat:%.*s\"}", marks, ASKED_TEXT(v));
    else if (p->kind == 'r')
        buf_addf(b, "{\"type\": \"reasoning\", \"summary\": [], \"content\": [{\"type\": \"reasoning_text\", \"text\": \"%.*s\"}]}", ASKED_TEXT(v));
    else if (p->kind == 'p')
        buf_adds(b, "{\"role\": \"user\", \"content\": [{\"type\": \"input_image\", \"image_url\": \"data:image/png;base64," ASKED_PICTURE "\"}]}");
    else if (p->kind == 'c') {
        const struct text id = asked_word(&v), name = asked_word(&v);
        struct buf quoted = {0};
        pyjson_quote(v, &quoted);
        buf_addf(b, "{\"type\": \"function_call\", %s\"call_id\": \"%.*s\", \"name\": \"%.*s\", \"arguments\": %s}", marks, ASKED_TEXT(id),
                 ASKED_TEXT(name), quoted.data);
        buf_free(&quoted);
    } else if (p->kind == 'o') {
        const struct text id = asked_word(&v);
        buf_addf(b, "{\"type\": \"function_call_output\", \"call_id\": \"%.*s\", ", ASKED_TEXT(id));
        buf_addf(b, t->parts ? "\"output\": [{\"type\": \"input_text\", \"text\": \"%.*s\"}]}" : "\"output\": \"%.*s\"}", ASKED_TEXT(v));
    } else {
        const char *role = p->kind == 'a' ? "assistant" : p->kind == 'u' ? "user" : "developer";
        buf_addf(b, "{\"type\": \"message\", \"role\": \"%s\", ", role);
        asked_content(b, t->parts, p->kind == 'a' ? "output_text" : "input_text", v, "");
    }
}

static inline void asked_responses(struct buf *b, const struct asked *t)
{
    for (int i = 0; i < t->n; i++) {
        if (strchr("fxy", t->all[i].kind))
            continue;
        buf_adds(b, b->len ? ", " : "");
        asked_item(b, t, &t->all[i]);
        buf_adds(b, t->parts ? ", {\"type\": \"web_search_call\", \"id\": \"w\", \"status\": \"completed\"}" : "");
    }
}

/* ---- the fields beside the conversation */

static inline void asked_tools(struct buf *b, const struct asked *t, enum asked_dialect d)
{
    static const char *const forms[] = {
        "{\"type\": \"function\", \"function\": {\"name\": \"%.*s\", \"description\": \"d\", \"parameters\": %s}}",
        "{\"name\": \"%.*s\", \"description\": \"d\", \"input_schema\": %s, \"cache_control\": {}}",
        "{\"type\": \"function\", \"name\": \"%.*s\", \"strict\": false, \"description\": \"d\", \"parameters\": %s}",
    }, *const others[] = {"", ", {\"type\": \"bash_20250124\", \"name\": \"bash\"}", ", {\"type\": \"namespace\", \"name\": \"n\", \"tools\": []}"};
    int n = 0;
    for (int i = 0; i < t->n; i++)
        if (t->all[i].kind == 'f') {
            buf_adds(b, n++ ? ", " : ", \"tools\": [");
            buf_addf(b, forms[d], ASKED_TEXT(t->all[i].v), "{\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"string\"}}}");
        }
    buf_addf(b, "%s%s", n && t->parts ? others[d] : "", n ? "]" : "");
}

static inline void asked_choice(struct buf *b, struct text v, enum asked_dialect d)
{
    static const char *const named[] = {
        ", \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"%.*s\"}}",
        ", \"tool_choice\": {\"type\": \"tool\", \"name\": \"%.*s\"}",
        ", \"tool_choice\": {\"type\": \"function\", \"name\": \"%.*s\"}",
    }, *const allowed[] = {
        ", \"tool_choice\": {\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": \"auto\", \"tools\": [{\"type\": \"function\", \"function\": "
        "{\"name\": \"%.*s\"}}]}}", "",
        ", \"tool_choice\": {\"type\": \"allowed_tools\", \"mode\": \"auto\", \"tools\": [{\"type\": \"web_search\"}, {\"type\": "
        "\"function\", \"name\": \"%.*s\"}]}",
    };
    if (*v.p == '+')
        buf_addf(b, allowed[d], (int)v.n - 1, v.p + 1);
    else if (!text_listed("auto none required", v))
        buf_addf(b, named[d], ASKED_TEXT(v));
    else if (d == ASKED_MESSAGES)
        buf_addf(b, ", \"tool_choice\": {\"type\": \"%.*s\"}", ASKED_TEXT(text_is(v, "required") ? text_of("any") : v));
    else
        buf_addf(b, ", \"tool_choice\": \"%.*s\"", ASKED_TEXT(v));
}

/* Returns the body in a dialect. */
static inline const char *asked_body(const struct asked *t, enum asked_dialect d)
{
    static const char *const thinking[][2] = {
        {"\"thinking\": false", "\"thinking\": true"}, {"\"max_tokens\": 99", "\"max_tokens\": 99, \"thinking\": {\"type\": \"adaptive\"}"},
        {"\"reasoning\": {\"effort\": \"none\"}", "\"reasoning\": {\"effort\": \"high\", \"summary\": \"auto\"}"},
    };
    struct buf talk = {0}, b = {0};
    (d == ASKED_CHAT ? asked_chat : d == ASKED_MESSAGES ? asked_messages : asked_responses)(&talk, t);
    buf_addf(&b, "{%s, \"%s\": [%s]", thinking[d][t->thinks], d == ASKED_RESPONSES ? "input" : "messages", buf_str(&talk));
    if (d == ASKED_MESSAGES)
        asked_system(&b, t);
    asked_tools(&b, t, d);
    for (int i = 0; i < t->n; i++) {
        if (t->all[i].kind == 'x')
            asked_choice(&b, t->all[i].v, d);
        if (t->all[i].kind == 'y' && d != ASKED_MESSAGES)
            buf_adds(&b, ", \"parallel_tool_calls\": false");
        if (t->all[i].kind == 'y' && d == ASKED_MESSAGES)
            buf_adds(&b, ", \"tool_choice\": {\"type\": \"auto\", \"disable_parallel_tool_use\": true}");
    }
    buf_addc(&b, '}');
    const char *body = arena_strndup(&a, b.data, b.len);
    buf_free(&b);
    buf_free(&talk);
    return body;
}
