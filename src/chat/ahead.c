#include "chat/ahead.h"

#include <string.h>

#include "base/clock.h"
#include "base/unicode.h"
#include "chat/files.h"
#include "chat/saving.h"
#include "chat/state.h"
#include "chat/steer.h"
#include "chat/titler.h"

/* Hashes everything that the beginning of the prompt is made of.  The texts of entries never change. */
static uint64_t fingerprint(const struct chat *c, const char *system, const struct text *tools, int n_tools)
{
    uint64_t h = state_mix(STATE_MIX, system, strlen(system));
    for (int i = 0; i < n_tools; i++)
        h = state_mix(h, tools[i].p, tools[i].n);
    for (int i = 0; i < c->t.n; i++) {
        const struct entry *m = c->t.entries[i];
        h = state_mix(h, &m, sizeof m);
        h = state_mix(h, &m->m.content.n, sizeof m->m.content.n);
        h = state_mix(h, &m->mark, sizeof m->mark);
        h = state_mix(h, &m->skipped, sizeof m->skipped);
        for (int k = 0; k < m->n_files; k++)
            h = state_mix(h, &m->files[k].dropped, sizeof m->files[k].dropped);
    }
    return h;
}

enum {
    STILL_MS = 150,                     /* time without a key before the draft is read */
    MOST = 256 << 10,                   /* bytes of a draft: encoding more would delay the next key */
};

/* True if the responder may read ahead now. */
static bool may_read(const struct chat *c)
{
    return c->responder->can.read_ahead && c->front.reads_ahead && options_on(c->o, OPT_read_ahead) && state_ready(c) && c->turn.state == TURN_IDLE &&
           !c->title.under_way && chat_rest(c) == CHAT_WHOLE;
}

/* Gives the responder the messages so far and the typed words. */
static void give_ahead(struct chat *c, const char *system, const struct text *tools, int n_tools, const char *typed)
{
    struct transcript t = c->t;         /* with the system prompt that persist_system() will set */
    struct arena mem = {0};
    struct request q = {.conversation = state_conversation(c), .tools = tools, .n_tools = n_tools};
    t.system = *system ? (char *)system : NULL;
    struct message *messages = sent_messages(&t, typed, &mem, &q.n_messages);
    struct attached files = {0};
    if (*typed && c->responder->can.pictures)
        files_gather(c, typed, strlen(typed), &files);
    if (files.n)
        attach_content(&messages[q.n_messages - 1], &(struct entry){.m = messages[q.n_messages - 1], .files = files.files, .n_files = files.n}, &mem);
    q.messages = messages;
    c->ahead.files = false;
    c->responder->ops->read_ahead(c->responder, &q);
    attach_free(&files);
    arena_free(&mem);
    buf_reset(&c->ahead.read);
    buf_adds(&c->ahead.read, typed);
}

void ahead_step(struct chat *c)
{
    struct ahead *a = &c->ahead;
    if (!may_read(c))
        return;
    int n_tools;
    const struct text *tools = tools_schemas(c->calls.tools, &n_tools);
    const char *system = options_text(c->o, OPT_system);
    uint64_t print = fingerprint(c, system, tools, n_tools);
    if (print != a->print) {
        a->print = print;
        a->due_ns = a->draft.len && !a->due_ns ? clock_ns() : a->due_ns;
        give_ahead(c, system, tools, n_tools, "");
    }
    /* the draft of an edited message will have another place in the prompt */
    if (!a->due_ns || clock_ns() < a->due_ns || c->edit.on || c->summary.text.len)
        return;
    a->due_ns = 0;
    if (a->files || a->draft.len > a->read.len || memcmp(buf_str(&a->draft), buf_str(&a->read), a->draft.len))
        give_ahead(c, system, tools, n_tools, a->draft.data);
}

void ahead_files(struct chat *c)
{
    c->ahead.files = c->ahead.draft.len > 0;
    if (c->ahead.files && !c->ahead.due_ns)
        c->ahead.due_ns = clock_ns();
}

int ahead_timeout(const struct chat *c)
{
    if (!c->ahead.due_ns || !may_read(c) || c->edit.on || c->summary.text.len)
        return -1;
    int64_t left = (c->ahead.due_ns - clock_ns()) / 1000000 + 1;
    return left > 0 ? (int)left : 0;
}

/* Returns the end of the last whole word: before a blank, or a punctuation mark of a script without blanks.  Letters that are added to a word may
 * change its tokens. */
static size_t whole_words(const char *s, size_t n)
{
    bool found = false;
    while (n && !found) {
        uint32_t cp;
        size_t end = n;
        do
            n--;
        while (n && (s[n] & 0xC0) == 0x80);
        unicode_decode(s + n, end - n, &cp, NULL);
        enum unicode_class class = unicode_class(cp);
        found = class == UNICODE_SPACE || (class == UNICODE_OTHER && cp >= 0x80);
    }
    while (n && strchr(" \t\r\n", s[n - 1]))
        n--;
    return n;
}

void chat_draft(struct chat *c, const char *text, size_t n)
{
    struct ahead *a = &c->ahead;
    titler_typed(c, n > 0);
    if (n > MOST)
        n = MOST;
    buf_reset(&a->draft);
    if (*text != '/' && !memchr(text, 0, n))    /* commands are not messages */
        buf_add(&a->draft, text, whole_words(text, n));
    if (a->draft.len)                   /* the reading of its files begins */
        chat_awaits_files(c, a->draft.data, a->draft.len);
    a->due_ns = a->draft.len ? clock_ns() + STILL_MS * (int64_t)1000000 : 0;
}
