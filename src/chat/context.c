#include "chat/context.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/unicode.h"
#include "chat/saving.h"
#include "chat/picture.h"
#include "chat/state.h"
#include "chat/thumbs.h"
#include "option/paths.h"
#include "session/kept.h"
#include "session/transcript.h"

enum { COUNTED = 1 << 20 };             /* bytes; longer files are estimated, since counting them takes a while */

static int estimate(size_t bytes)
{
    size_t n = bytes / 7 * 2 + (bytes % 7 * 2 + 6) / 7;         /* 3.5 bytes a token, rounded up */
    return n < INT_MAX ? (int)n : INT_MAX;
}

int chat_count_tokens(const struct chat *c, const char *text, size_t n)
{
    return c->responder->can.count ? c->responder->ops->count(c->responder, (struct text){text, n}) : estimate(n);
}

static int text_tokens(const struct chat *c, struct text t)
{
    return chat_count_tokens(c, t.p ? t.p : "", t.n);
}

/* --- files ------------------------------------------------------------------------------------------------------- */

int context_file_tokens(const struct chat *c, const struct entry_file *f)
{
    if (f->picture)
        return picture_tokens(f->picture, c->responder);
    return f->text.n < COUNTED ? text_tokens(c, f->text) : estimate(f->text.n);
}

bool context_counts(const struct chat *c, const struct entry_file *f)
{
    return f->picture ? c->responder->can.pictures && c->responder->most_pixels > 0 : c->responder->can.count && f->text.n < COUNTED;
}

/* Returns the tokens of an attached file, estimated while they cannot be counted. */
static int file_tokens(struct chat *c, struct entry_file *f)
{
    if (f->picture)                     /* may change when the model is ready */
        return context_file_tokens(c, f);
    if (!context_counts(c, f))
        return estimate(f->text.n);
    if (!f->tokens)
        f->tokens = context_file_tokens(c, f);
    return f->tokens;
}

int chat_n_files(const struct chat *c, int i)
{
    return c->t.entries[i]->n_files;
}

struct chat_file chat_file(struct chat *c, int i, int k)
{
    struct entry_file *f = &c->t.entries[i]->files[k];
    const struct entry_picture *p = f->picture;
    return (struct chat_file){f->path.p, f->text.p ? f->text.p : "", f->bytes, file_tokens(c, f), !context_counts(c, f), p ? p->w : 0, p ? p->h : 0};
}

uint32_t chat_thumb(struct chat *c, int i, int k)
{
    const struct entry_picture *p = c->t.entries[i]->files[k].picture;
    if (p && !c->parts.thumbs)
        c->parts.thumbs = thumbs_open();
    return p && c->parts.thumbs ? thumbs_number(c->parts.thumbs, p) : 0;
}

const struct thumb *chat_thumb_find(struct chat *c, uint32_t number)
{
    return c->parts.thumbs ? thumbs_find(c->parts.thumbs, number) : NULL;
}

bool chat_file_path(const struct chat *c, int i, int k, struct buf *out, struct err *e)
{
    const struct entry_file *f = &c->t.entries[i]->files[k];
    struct pdf pdf;
    if (pdf_named(&pdf, f->path.p)) {
        buf_adds(out, pdf.file.data);
        pdf_free(&pdf);
    } else {
        paths_expand(out, f->path.p);
    }
    if (!access(buf_str(out), R_OK))
        return true;
    buf_reset(out);
    if (f->picture && c->persist.session)
        buf_addf(out, "%s" KEPT_FOLDER "/%s", session_path(c->persist.session), f->picture->kept.p);
    return (out->len && !access(out->data, R_OK)) || err_set(e, "%s is no longer there", f->path.p);
}

/* Reads a picture's file to say its size, bytes and tokens.  False if it cannot be attached. */
static bool check_picture(const struct chat *c, const char *path, struct chat_file *out, struct err *e)
{
    struct arena mem = {0};
    struct entry_file f;
    bool ok = picture_read(&f, path, &mem, e);
    if (ok)
        *out = (struct chat_file){
            .path = path, .bytes = f.bytes, .tokens = picture_tokens(f.picture, c->responder), .estimated = !context_counts(c, &f), .w = f.picture->w,
            .h = f.picture->h,
        };
    arena_free(&mem);
    return ok;
}

bool chat_check_file(const struct chat *c, const char *path, struct chat_file *out, struct err *e)
{
    struct buf text = {0};
    struct pdf p;
    *out = (struct chat_file){.path = path, .estimated = true};
    if (pdf_named(&p, path)) {          /* a list of files asks for each: no program is run for it */
        pdf_free(&p);
        return true;
    }
    if (picture_is(path))
        return check_picture(c, path, out, e);
    bool ok = attach_file(path, &out->bytes, NULL, NULL, e);
    if (ok)
        out->tokens = estimate(out->bytes);
    if (ok && c->responder->can.count && out->bytes < COUNTED && (ok = attach_file(path, &out->bytes, &text, NULL, e))) {
        out->tokens = chat_count_tokens(c, buf_str(&text), text.len);
        out->estimated = false;
    }
    buf_free(&text);
    return ok;
}

bool chat_is_text_file(const char *path)
{
    struct pdf p;
    size_t bytes;
    if (pdf_named(&p, path)) {
        pdf_free(&p);
        return false;
    }
    return !picture_is(path) && attach_file(path, &bytes, NULL, NULL, NULL);
}

/* --- the context -------------------------------------------------------------------------------------------------- */

/* Tokens that the template adds to a message (<|im_start|>, role, line feeds, <|im_end|>), to a tool's result, and to a call. */
enum { AROUND_MESSAGE = 5, AROUND_RESULT = 12, AROUND_CALL = 18 };

/* Appends a part with the first line of `label`. */
static struct chat_part *add_part(struct chat *c, int *n, const char *what, int message, int tokens, struct text label)
{
    struct buf line = {0};
    c->parts.all = memory_grow(c->parts.all, *n, &c->parts.cap, sizeof *c->parts.all);
    struct chat_part *p = &c->parts.all[(*n)++];
    *p = (struct chat_part){.what = what, .message = message, .file = -1, .tokens = tokens, .whole = tokens, .estimated = !c->responder->can.count};
    title_of_message(&line, label);
    size_t fits = unicode_complete(buf_str(&line), line.len < sizeof p->label ? line.len : sizeof p->label - 1);
    snprintf(p->label, sizeof p->label, "%.*s", (int)fits, buf_str(&line));
    buf_free(&line);
    return p;
}

static int around(const struct entry *m)
{
    return m->m.role == ROLE_TOOL ? AROUND_RESULT : AROUND_MESSAGE;
}

/* Returns the tokens of an entry without its files.  Estimates are not stored, since a session is resumed before the responder can count. */
static int entry_tokens(struct chat *c, struct entry *m)
{
    if (m->tokens)
        return m->tokens;
    int n = text_tokens(c, m->m.content) + around(m);
    for (int i = 0; i < m->m.n_calls; i++)
        n += text_tokens(c, m->m.calls[i].name) + text_tokens(c, m->m.calls[i].arguments) + AROUND_CALL;
    if (c->responder->can.count)
        m->tokens = n;
    return n;
}

/* Return the tokens that the next prompt holds of an entry, and of one of its files. */
static int sent_tokens(struct chat *c, struct entry *m, enum sent how)
{
    return how == SENT_WHOLE ? entry_tokens(c, m) : how == SENT_AS_LINE ? text_tokens(c, text_of(SENT_INSTEAD)) + around(m) : 0;
}

static int sent_file_tokens(struct chat *c, struct entry_file *f, enum sent how)
{
    return how != SENT_WHOLE ? 0 : f->dropped ? text_tokens(c, text_of(SENT_INSTEAD)) : file_tokens(c, f);
}

/* Returns the tokens of a prompt of these and one short message; the tokens of system prompt and tools are differences of such prompts. */
static int head_tokens(const struct chat *c, const char *system, const struct text *tools, int n_tools)
{
    const struct message messages[2] = {{.role = ROLE_SYSTEM, .content = text_of(system)}, {.role = ROLE_USER, .content = text_of("x")}};
    const bool without = !*system;
    const struct request q = {.messages = messages + without, .n_messages = 2 - without, .tools = tools, .n_tools = n_tools};
    int n = c->responder->ops->count_prompt(c->responder, &q, NULL);
    return n > 0 ? n : 0;
}

/* Counts the system prompt and the definitions of the tools, which the template puts before all messages. */
static void count_head(const struct chat *c, int *system_tokens, int *tools_tokens)
{
    int n_tools;
    const struct text *tools = tools_schemas(c->calls.tools, &n_tools);
    const char *system = options_text(c->o, OPT_system);
    if (c->responder->can.count) {
        int with_system = head_tokens(c, system, NULL, 0);
        *system_tokens = with_system - head_tokens(c, "", NULL, 0);
        *tools_tokens = head_tokens(c, system, tools, n_tools) - with_system;
        return;
    }
    *system_tokens = *system ? estimate(strlen(system)) + AROUND_MESSAGE : 0;
    *tools_tokens = 0;
    for (int i = 0; i < n_tools; i++)
        *tools_tokens += estimate(tools[i].n);
}

/* Adds the parts that precede all messages: the system text and the tools. */
static void add_head(struct chat *c, int *n)
{
    const char *system = options_text(c->o, OPT_system);
    struct buf names = {0};
    int system_tokens, tools_tokens;
    count_head(c, &system_tokens, &tools_tokens);
    if (*system)
        add_part(c, n, "system", -1, system_tokens, text_of(system));
    tools_names(c->calls.tools, true, &names);
    if (tools_tokens)
        add_part(c, n, "tools", -1, tools_tokens, text_of(buf_str(&names)));
    buf_free(&names);
}

/* Returns a label: the first line of the text, without a fence of code; the tool that is called by an entry without text. */
static struct text label_of(const struct entry *m)
{
    if (m->m.role == ROLE_TOOL)
        return m->tool;
    if (!m->m.content.n && m->m.n_calls)
        return m->m.calls[0].name;
    const char *line = m->m.content.n > 3 && !memcmp(m->m.content.p, "```", 3) ? memchr(m->m.content.p, '\n', m->m.content.n) : NULL;
    if (!line)
        return m->m.content;
    line++;
    return (struct text){line, m->m.content.n - (size_t)(line - m->m.content.p)};
}

int chat_context(struct chat *c, const struct chat_part **parts)
{
    static const char *const what[] = {[ROLE_USER] = "user", [ROLE_ASSISTANT] = "answer", [ROLE_TOOL] = "tool"};
    int n = 0, number = 0;
    struct arena mem = {0};
    const enum sent *how = sent_all(&c->t, SENT_NEXT, &mem);
    add_head(c, &n);
    for (int i = 0; i < c->t.n; i++) {
        struct entry *m = c->t.entries[i];
        struct chat_part *p = add_part(c, &n, what[m->m.role], i, sent_tokens(c, m, how[i]), label_of(m));
        if (m->summary)
            p->what = "summary";
        p->number = ++number;
        p->whole = entry_tokens(c, m);
        p->mark = (enum chat_mark)m->mark;
        for (int k = 0; k < m->n_files; k++) {
            struct entry_file *f = &m->files[k];
            p = add_part(c, &n, "file", i, sent_file_tokens(c, f, how[i]), f->path);
            p->number = ++number;
            p->file = k;
            p->whole = file_tokens(c, f);
            p->mark = f->dropped ? CHAT_DROPPED : CHAT_PLAIN;
            p->estimated = p->tokens && !context_counts(c, f);
        }
    }
    arena_free(&mem);
    *parts = c->parts.all;
    return n;
}

bool chat_mark(struct chat *c, int number, enum chat_mark mark, struct err *e)
{
    const struct chat_part *p;
    int n = chat_context(c, &p), i = 0, last = n ? p[n - 1].number : 0;
    if (!state_usable(c, e))
        return false;
    while (i < n && (!number || p[i].number != number))
        i++;
    if (i == n)
        return err_set(e, last > 0 ? "no part %d; /context shows 1 to %d" : "no messages yet", number, last);
    if (p[i].file >= 0 && mark == CHAT_PINNED)
        return err_set(e, "%d is a file: pin the message that it came with", number);
    if (mark == CHAT_PINNED && c->t.entries[p[i].message]->m.role == ROLE_TOOL)
        return err_set(e, "%d is the result of a tool: pin the answer that called it", number);
    if (p[i].mark == CHAT_PINNED && mark == CHAT_DROPPED)
        return err_set(e, "%d is pinned; /unpin %d first", number, number);
    persist_mark(c, c->t.entries[p[i].message], p[i].file, (enum mark)mark);
    return true;
}

/* Returns the tokens of the next prompt. */
static struct chat_count next_used(struct chat *c, enum sent_for why)
{
    struct chat_count used = {0, !c->responder->can.count};
    int system_tokens, tools_tokens;
    count_head(c, &system_tokens, &tools_tokens);
    struct arena mem = {0};
    const enum sent *how = sent_all(&c->t, why, &mem);
    used.tokens = system_tokens + tools_tokens;
    for (int i = 0; i < c->t.n; i++) {
        struct entry *m = c->t.entries[i];
        used.tokens += sent_tokens(c, m, how[i]);
        for (int k = 0; k < m->n_files; k++) {
            int tokens = sent_file_tokens(c, &m->files[k], how[i]);
            used.tokens += tokens;
            used.estimated |= tokens && !context_counts(c, &m->files[k]);
        }
    }
    arena_free(&mem);
    return used;
}

struct chat_count chat_context_used(struct chat *c)
{
    if ((turn_answers(&c->turn) || turn_calls(&c->turn)) && c->responder->can.count)
        return (struct chat_count){c->responder->ops->used(c->responder), false};
    struct chat_count next = next_used(c, SENT_NEXT);
    if (turn_answers(&c->turn))
        next.tokens += estimate(c->turn.answer.reasoning.len + c->turn.answer.content.len);
    return next;
}

int context_if_summed(struct chat *c, const struct buf *summary)
{
    return next_used(c, SENT_SUMMED).tokens + text_tokens(c, (struct text){summary->data, summary->len}) + AROUND_MESSAGE;
}

int context_entry_frees(struct chat *c, int i)
{
    struct entry *m = c->t.entries[i];
    int n = sent_tokens(c, m, SENT_WHOLE) - sent_tokens(c, m, SENT_AS_LINE);
    for (int k = 0; k < m->n_files; k++)
        n += sent_file_tokens(c, &m->files[k], SENT_WHOLE);
    return n;
}

int chat_not_counted(const struct chat *c)
{
    int n = 0;
    for (int i = 0; i < c->t.n; i++) {
        const struct entry *m = c->t.entries[i];
        for (int k = 0; k < m->made.n; k++)
            n += m->made.all[k].reasoning;
        if (!m->made.n)
            n += estimate(m->m.reasoning.n);
    }
    return n;
}
