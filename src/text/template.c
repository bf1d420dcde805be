#include "text/template.h"

#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "text/pyjson.h"

/* Tags of the template that are single tokens of the vocabulary. */
static const char *const control[] = {
    "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>",
    "</tool_response>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>",
};

static const char tools_head[] =
    "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>";
static const char tools_tail[] =
    "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n<tool_call>\n"
    "<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n"
    "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: "
    "an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags\n- Required parameters "
    "MUST be specified\n- You may provide optional reasoning for your function call in natural language BEFORE the function "
    "call, but NOT after\n- If there is no function call available, answer the question like normal with your current "
    "knowledge and do not tell the user about function calls\n</IMPORTANT>";

struct out {
    struct segments *s;
    struct arena    *a;
};

static void add_segment(struct out *o, bool is_control, struct text t)
{
    struct segments *s = o->s;
    if (!t.n)
        return;
    s->items = arena_grow(o->a, s->items, s->n, &s->cap, sizeof *s->items);
    s->items[s->n++] = (struct segment){.control = is_control, .text = t};
}

/* Appends text of a user, a tool or the model, which has no control tokens. */
static void plain(struct out *o, struct text t)
{
    add_segment(o, false, t);
}

static const char *control_at(const char *s)
{
    for (size_t i = 0; i < sizeof control / sizeof *control; i++)
        if (!strncmp(s, control[i], strlen(control[i])))
            return control[i];
    return NULL;
}

/* Appends text of the template, whose tags are control tokens. */
static void fixed(struct out *o, const char *s)
{
    const char *run = s;
    while (*s) {
        const char *tag = *s == '<' ? control_at(s) : NULL;
        if (!tag) {
            s++;
            continue;
        }
        plain(o, (struct text){run, (size_t)(s - run)});
        add_segment(o, true, text_of(tag));
        run = s += strlen(tag);
    }
    plain(o, (struct text){run, (size_t)(s - run)});
}

/* Appends `part`, a range of m->content: plain text, except the placeholders of images and videos. */
static void content(struct out *o, const struct message *m, struct text part)
{
    if (!part.n)
        return;
    const char *end = part.p + part.n;
    for (int i = 0; i < m->n_media; i++) {
        const char *at = m->content.p + m->media[i];
        if (at < part.p || at >= end)
            continue;
        plain(o, (struct text){part.p, (size_t)(at - part.p)});
        fixed(o, strncmp(at, MEDIA_IMAGE, strlen(MEDIA_IMAGE)) ? MEDIA_VIDEO : MEDIA_IMAGE);
        part.p = at + strlen(MEDIA_IMAGE);
    }
    plain(o, (struct text){part.p, (size_t)(end - part.p)});
}

/* Renders the first message: tools, then the system text.  Without both it is left out. */
static bool render_system(struct out *o, const struct conversation *c, struct err *e)
{
    const struct message *m = c->messages[0].role == ROLE_SYSTEM ? &c->messages[0] : NULL;
    if (m && m->refusal)
        return err_set(e, "%s", m->refusal);
    struct text text = m ? text_trim(m->content) : (struct text){0};
    if (!m && !c->n_tools)
        return true;
    if (c->n_tools) {
        fixed(o, tools_head);
        for (int i = 0; i < c->n_tools; i++) {
            fixed(o, "\n");
            plain(o, c->tools[i]);
        }
        fixed(o, tools_tail);
        if (text.n)
            fixed(o, "\n\n");
    } else {
        fixed(o, "<|im_start|>system\n");
    }
    if (m)
        content(o, m, text);
    fixed(o, "<|im_end|>\n");
    return true;
}

bool template_is_query(const struct message *m)
{
    const struct text t = text_trim(m->content);
    return m->role == ROLE_USER && !m->aside && (m->refusal || !text_starts(t, "<tool_response>") || !text_ends(t, "</tool_response>"));
}

static bool find_last_query(const struct conversation *c, int *last, struct err *e)
{
    *last = c->n_messages - 1;
    while (*last >= 0 && !template_is_query(&c->messages[*last]))
        --*last;
    if (*last < 0)
        return err_set(e, "No user query found in messages.");
    return !c->messages[*last].refusal || err_set(e, "%s", c->messages[*last].refusal);
}

/* Does as Python's reasoning = t.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') and
 * content = t.split('</think>')[-1].lstrip('\n') */
static void split_reasoning(struct text *reasoning, struct text *t)
{
    const char *close = text_find(*t, "</think>"), *open, *next;
    if (!close)
        return;
    struct text head = text_rtrim_char((struct text){t->p, (size_t)(close - t->p)}, '\n');
    while ((open = text_find(head, "<think>"))) {
        open += strlen("<think>");
        head = (struct text){open, (size_t)(head.p + head.n - open)};
    }
    *reasoning = text_ltrim_char(head, '\n');
    while ((next = text_find(*t, "</think>"))) {
        next += strlen("</think>");
        *t = (struct text){next, (size_t)(t->p + t->n - next)};
    }
    *t = text_ltrim_char(*t, '\n');
}

/* Renders a tool call with its arguments as parameters.  False if they are not an object. */
static bool render_call(struct out *o, const struct call *call, struct err *e)
{
    struct pyjson args;
    fixed(o, "<tool_call>\n<function=");
    plain(o, call->name);
    fixed(o, ">\n");
    if (call->arguments.n) {
        if (!pyjson_parse(&args, call->arguments, PYJSON_LOADS, o->a, e))
            return false;
        if (args.kind != PY_DICT)
            return err_set(e, "Can only get item pairs from a mapping.");
        for (size_t i = 0; i < args.n; i++) {
            struct buf value = {0};
            pyjson_str(&args.items[i], &value);
            fixed(o, "<parameter=");
            plain(o, args.keys[i]);
            fixed(o, ">\n");
            plain(o, (struct text){arena_strndup(o->a, buf_str(&value), value.len), value.len});
            fixed(o, "\n</parameter>\n");
            buf_free(&value);
        }
    }
    fixed(o, "</function>\n</tool_call>");
    return true;
}

/* Writes an answer whose tokens are known, after the end of the prompt that it was the answer to. */
static void render_said(struct out *o, const struct said *said)
{
    struct segments *s = o->s;
    fixed(o, "<|im_start|>assistant\n");
    if (s->keep < 0)
        s->keep = s->n;
    fixed(o, said->thinks ? "<think>\n" : "<think>\n\n</think>\n\n");
    s->items = arena_grow(o->a, s->items, s->n, &s->cap, sizeof *s->items);
    s->items[s->n++] = (struct segment){false, said->text, said->ids, said->n};
    fixed(o, "<|im_end|>\n");
}

/* Renders an answer with its calls, and with its reasoning if that stays in the prompt. */
static bool render_assistant(struct out *o, const struct message *m, bool with_reasoning, struct err *e)
{
    struct text text = text_trim(m->content), reasoning = {0};
    if (m->has_reasoning)
        reasoning = m->reasoning;
    else
        split_reasoning(&reasoning, &text);
    fixed(o, "<|im_start|>assistant\n");
    if (with_reasoning) {
        if (o->s->keep < 0)
            o->s->keep = o->s->n;
        struct text shown = text_trim(reasoning);
        fixed(o, "<think>\n");
        if (m->has_reasoning)
            plain(o, shown);
        else
            content(o, m, shown);
        fixed(o, "\n</think>\n\n");
    }
    content(o, m, text);
    for (int i = 0; i < m->n_calls; i++) {
        if (i)
            fixed(o, "\n");
        else if (text_trim(text).n)
            fixed(o, "\n\n");
        if (!render_call(o, &m->calls[i], e))
            return false;
    }
    fixed(o, "<|im_end|>\n");
    return true;
}

/* Renders a tool's result; results that follow each other share one message of the user. */
static void render_tool(struct out *o, const struct conversation *c, int i)
{
    const struct message *m = &c->messages[i];
    if (i > 0 && m[-1].role != ROLE_TOOL)
        fixed(o, "<|im_start|>user");
    fixed(o, "\n<tool_response>\n");
    content(o, m, text_trim(m->content));
    fixed(o, "\n</tool_response>");
    if (i == c->n_messages - 1 || m[1].role != ROLE_TOOL)
        fixed(o, "<|im_end|>\n");
}

/* Renders message i; answers after the last question keep their reasoning. */
static bool render_message(struct out *o, const struct conversation *c, int i, int last_query, struct err *e)
{
    const struct message *m = &c->messages[i];
    if (m->refusal)
        return err_set(e, "%s", m->refusal);
    switch (m->role) {
    case ROLE_SYSTEM:
        return i == 0 || err_set(e, "System message must be at the beginning.");
    case ROLE_USER:
        if (m->fleeting && o->s->keep < 0)
            o->s->keep = o->s->n;
        fixed(o, "<|im_start|>user\n");
        content(o, m, text_trim(m->content));
        fixed(o, "<|im_end|>\n");
        return true;
    case ROLE_ASSISTANT:
        if (m->said.n && i > last_query)
            render_said(o, &m->said);
        return (m->said.n && i > last_query) || render_assistant(o, m, i > last_query, e);
    case ROLE_TOOL:
        render_tool(o, c, i);
        return true;
    case ROLE_OTHER:
        break;
    }
    return err_set(e, "Unexpected message role.");
}

bool template_render(const struct conversation *c, struct segments *out, struct arena *a, struct err *e)
{
    struct out o = {out, a};
    int last_query = 0;
    out->keep = -1;
    if (!c->n_messages)
        return err_set(e, "No messages provided.");
    if (!render_system(&o, c, e) || !find_last_query(c, &last_query, e))
        return false;
    for (int i = 0; i < c->n_messages; i++)
        if (!render_message(&o, c, i, last_query, e))
            return false;
    if (c->generation_prompt) {
        fixed(&o, "<|im_start|>assistant\n");
        if (out->keep < 0)
            out->keep = out->n;
        fixed(&o, c->thinking ? "<think>\n" : "<think>\n\n</think>\n\n");
    }
    if (out->keep < 0)
        out->keep = out->n;
    return true;
}

void segments_text(const struct segments *s, struct buf *out)
{
    for (int i = 0; i < s->n; i++)
        buf_add(out, s->items[i].text.p, s->items[i].text.n);
}

/* Appends the id of a control token.  False if the tokenizer does not have it. */
static bool add_control(const struct tokenizer *t, struct text tag, struct ids *out, struct err *e)
{
    char name[32] = {0};
    CHECK(tag.n < sizeof name);
    memcpy(name, tag.p, tag.n);
    int32_t id = tokenizer_special(t, name);
    if (id < 0)
        return err_set(e, "the tokenizer has no token %s, which the chat template needs", name);
    ids_add(out, id);
    return true;
}

bool segments_encode(const struct segments *s, const struct tokenizer *t, struct ids *out, int *snapshot_pos, struct err *e)
{
    struct buf run = {0};
    bool ok = true;
    int start = out->n;
    for (int i = 0; ok && i <= s->n; i++) {
        const struct segment *g = i < s->n ? &s->items[i] : NULL;
        bool in_run = g && !g->control && !g->ids;
        if (!in_run) {
            tokenizer_encode(t, buf_str(&run), run.len, false, out);
            buf_reset(&run);
        }
        if (i == s->keep) {
            CHECK(!run.len);            /* inside a run the boundary would not be exact in tokens */
            if (snapshot_pos)
                *snapshot_pos = out->n - start;
        }
        if (in_run)
            buf_add(&run, g->text.p, g->text.n);
        else if (g && g->ids)
            ids_append(out, g->ids, g->n_ids);
        else if (g)
            ok = add_control(t, g->text, out, e);
    }
    buf_free(&run);
    return ok;
}
