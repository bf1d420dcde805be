#include "chat/branch.h"

#include <string.h>

#include "chat/saving.h"
#include "chat/state.h"
#include "session/export.h"
#include "session/transcript.h"

static bool is_user(const struct entry *m)
{
    return m->m.role == ROLE_USER;
}

bool chat_undo(struct chat *c, struct buf *taken_back, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    int last = transcript_last_user(&c->t);
    if (last < 0)
        return err_set(e, "nothing to undo");
    buf_add(taken_back, c->t.entries[last]->m.content.p, c->t.entries[last]->m.content.n);
    persist_cut(c, last);
    return true;
}

/* Redoes one step of undo: shows a message with its answer again, or the rest of an answer. */
bool chat_redo(struct chat *c, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    struct entry *end = transcript_next(&c->t);
    if (!end)
        return err_set(e, "nothing to redo");
    while (end->shown && !is_user(end->shown))
        end = end->shown;
    persist_go(c, end);
    return true;
}

bool chat_edit(struct chat *c, int i, struct buf *text, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    if (i < 0 || i >= c->t.n || !is_user(c->t.entries[i]) || c->t.entries[i]->summary)
        return err_set(e, "you have no such message");
    buf_add(text, c->t.entries[i]->m.content.p, c->t.entries[i]->m.content.n);
    c->edit = (struct edit){.on = true, .message = c->t.entries[i]->number, .end = c->t.entries[c->t.n - 1]->number};
    return true;
}

/* Returns -1 if the path has changed since. */
int chat_edited(const struct chat *c)
{
    if (!c->edit.on || !c->t.n || c->t.entries[c->t.n - 1]->number != c->edit.end)
        return -1;
    const struct entry *m = c->t.all[c->edit.message];
    return transcript_on_path(&c->t, m) ? m->depth : -1;
}

void chat_edit_end(struct chat *c)
{
    c->edit.on = false;
}

bool branch_replace(struct chat *c)
{
    int i = chat_edited(c);
    if (i >= 0)
        persist_cut(c, i);
    return i >= 0;
}

bool chat_cut(struct chat *c, int i, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    if (i < 0 || i >= c->t.n)
        return err_set(e, "no message %d", i);
    persist_cut(c, i);
    return true;
}

int chat_siblings(const struct chat *c, int i, int *which)
{
    return transcript_siblings(&c->t, c->t.entries[i], which);
}

/* Leads the path through m, and then as it was shown last. */
static void go_through(struct chat *c, const struct entry *m)
{
    while (m->shown)
        m = m->shown;
    persist_go(c, m);
}

bool chat_show_sibling(struct chat *c, int i, int which, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    const struct entry *m = i >= 0 && i < c->t.n && which >= 0 ? transcript_sibling(&c->t, c->t.entries[i], which) : NULL;
    if (!m)
        return err_set(e, "this message has no other branches");
    if (m != c->t.entries[i])
        go_through(c, m);
    return true;
}

int chat_n_nodes(const struct chat *c)
{
    return c->t.n_all;
}

struct chat_node chat_node(const struct chat *c, int k)
{
    const struct entry *m = c->t.all[k], *answer = m->m.n_calls ? m : NULL;
    while (answer && (answer->m.n_calls || answer->m.role == ROLE_TOOL))        /* to the answer after the rounds of calls, as it was shown last */
        answer = answer->shown;
    if (answer && answer->m.role != ROLE_ASSISTANT)
        answer = NULL;
    return (struct chat_node){
        .parent = m->parent ? m->parent->number : -1,
        .role = state_role(m),
        .text = m->m.content.p ? m->m.content.p : "",
        .call = m->m.n_calls ? m->m.calls[0].name.p : NULL,
        .arguments = m->m.n_calls ? m->m.calls[0].arguments.p : NULL,
        .answer = answer && answer->m.content.p ? answer->m.content.p : "",
        .on_path = transcript_on_path(&c->t, m),
    };
}

bool chat_go(struct chat *c, int node, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    if (node < 0 || node >= c->t.n_all)
        return err_set(e, "no message %d", node);
    persist_go(c, c->t.all[node]);
    return true;
}

bool branch_take_back(struct chat *c, bool is_new, struct buf *text)
{
    const struct entry *m = c->t.entries[c->t.n - 1];
    if (m->shown) {                     /* the message has older answers */
        go_through(c, m);
        return false;
    }
    if (!is_new)
        return false;
    buf_add(text, m->m.content.p, m->m.content.n);
    persist_forget(c);
    if (c->edit.replaced) {             /* shows the message again that it replaced, as edited */
        persist_go(c, c->t.all[c->edit.end]);
        c->edit.on = true;
    }
    return true;
}

void chat_node_title(const struct chat_node *n, struct buf *out)
{
    struct buf call = {0};
    size_t start = out->len;
    title_of_message(out, text_of(n->text));
    if (out->len > start)
        return;
    if (n->call) {
        buf_adds(&call, "$ ");
        call_line(&call, n->call, n->arguments);
        title_of_message(out, text_of(n->answer));
        bool answered = out->len > start;
        buf_adds(out, answered ? "  (" : "");
        title_of_message(out, text_of(buf_str(&call)));
        buf_adds(out, answered ? ")" : "");
        buf_free(&call);
    } else {
        buf_adds(out, strcmp(n->role, "assistant") ? "(empty)" : "(no answer, only reasoning)");
    }
}
