/* Commands that answer again, go back, and move in the tree of messages. */
#include <stdlib.h>
#include <string.h>

#include "chat/commands.h"
#include "session/export.h"

enum command_result command_regen(struct typed *c)
{
    char *end;
    uint64_t seed = strtoull(c->arg, &end, 10);
    if (*c->arg && (*end || *c->arg == '-')) {
        err_set(&c->e, "the seed is '%s', expected a whole number from 0", c->arg);
        return command_refused(c);
    }
    bool ok = *c->arg ? chat_regenerate_seed(c->chat, seed, &c->e) : chat_regenerate(c->chat, &c->e);
    return ok ? COMMAND_TURN : command_refused(c);
}

enum command_result command_replay(struct typed *c)
{
    return chat_replay(c->chat, &c->e) ? COMMAND_TURN : command_refused(c);
}

enum command_result command_continue(struct typed *c)
{
    return chat_continue(c->chat, &c->e) ? COMMAND_TURN : command_refused(c);
}

enum command_result command_compact(struct typed *c)
{
    return chat_compact(c->chat, c->arg, &c->e) ? COMMAND_TURN : command_refused(c);
}

enum command_result command_aside(struct typed *c)
{
    return chat_aside(c->chat, c->arg, &c->e) ? COMMAND_TURN : command_refused(c);
}

enum command_result command_undo(struct typed *c)
{
    const char *rest;
    int n = command_number(c->arg, 1, &rest), done = 0;
    struct buf text = {0};
    if (!n || *rest) {
        err_set(&c->e, "/undo takes a number of messages, not '%s'", c->arg);
        return command_refused(c);
    }
    while (done < n && chat_undo(c->chat, &text, &c->e)) {
        buf_adds(c->out, "taken back: ");
        command_first_line(c->out, buf_str(&text));
        buf_reset(&text);
        done++;
    }
    buf_free(&text);
    if (done && done < n)
        buf_addf(c->out, "the conversation had no more than %d message%s of yours, not %d\n", done, done == 1 ? "" : "s", n);
    return done ? COMMAND_MOVED : command_refused(c);
}

enum command_result command_redo(struct typed *c)
{
    int n = chat_n_messages(c->chat);
    if (!chat_redo(c->chat, &c->e))
        return command_refused(c);
    buf_adds(c->out, "restored: ");
    command_first_line(c->out, chat_message(c->chat, n).text);
    return COMMAND_MOVED;
}

/* Returns the nth newest message of a role that has text, or -1. */
static int find_newest(const struct chat *c, const char *role, int n)
{
    for (int i = chat_n_messages(c) - 1; i >= 0; i--) {
        struct chat_message m = chat_message(c, i);
        if (!strcmp(m.role, role) && *m.text && !--n)
            return i;
    }
    return -1;
}

enum command_result command_edit(struct typed *c)
{
    const char *rest;
    int n = command_number(c->arg, 1, &rest), i = n && !*rest ? find_newest(c->chat, "user", n) : -1;
    struct buf text = {0};
    bool ok = i >= 0 || err_set(&c->e, find_newest(c->chat, "user", 1) < 0 ? "you have no message yet" : "you have no such message; "
                                                                                                             "/edit 1 is the last one");
    if (!ok || !chat_edit(c->chat, i, &text, &c->e))
        return command_refused(c);
    if (*buf_str(&text) == '/')         /* so that it is read as a message */
        buf_addc(c->out, '/');
    buf_add(c->out, buf_str(&text), text.len);
    buf_free(&text);
    return COMMAND_EDIT;
}

/* --- branches --------------------------------------------------------------------------------------------------- */

/* Returns the last message of the path that has siblings, or -1. */
static int last_fork(const struct chat *c)
{
    int i = chat_n_messages(c) - 1;
    while (i >= 0 && chat_siblings(c, i, NULL) == 1)
        i--;
    return i;
}

static void node_line(struct buf *out, struct chat_node k)
{
    buf_adds(out, !strcmp(k.role, "user") ? "> " : !strcmp(k.role, "tool") ? "-> " : "");
    chat_node_title(&k, out);
    buf_addc(out, '\n');
}

/* Lists the siblings of message i in order, the one of the path with a star. */
static void list_siblings(struct typed *c, int i)
{
    int here = -1, count = 0;
    for (int k = 0, depth = 0; k < chat_n_nodes(c->chat); k++)
        if (chat_node(c->chat, k).on_path && depth++ == i)
            here = k;
    struct chat_node at = chat_node(c->chat, here);
    for (int k = 0; k < chat_n_nodes(c->chat); k++) {
        struct chat_node s = chat_node(c->chat, k);
        if (s.parent != at.parent || strcmp(s.role, at.role))
            continue;
        buf_addf(c->out, "%c %2d  ", k == here ? '*' : ' ', ++count);
        node_line(c->out, s);
    }
}

enum command_result command_branch(struct typed *c)
{
    const char *rest;
    int i = last_fork(c->chat), n = command_number(c->arg, 0, &rest), count;
    if (i < 0) {
        err_set(&c->e, "this conversation has no branches; /regen, /edit and /undo make them, /tree shows all messages");
        return command_refused(c);
    }
    count = chat_siblings(c->chat, i, NULL);
    if (!*c->arg) {
        list_siblings(c, i);
        return COMMAND_DONE;
    }
    if (*rest || n < 1 || n > count) {
        err_set(&c->e, "no branch %s, expected 1 to %d", c->arg, count);
        return command_refused(c);
    }
    if (!chat_show_sibling(c->chat, i, n - 1, &c->e))
        return command_refused(c);
    buf_addf(c->out, "branch %d of %d\n", n, count);
    return COMMAND_MOVED;
}

static void tree_line(struct typed *c, int k, int indent)
{
    struct chat_node node = chat_node(c->chat, k);
    buf_addf(c->out, "%c%4d  %*s", node.on_path ? '*' : ' ', k + 1, 2 * indent, "");
    node_line(c->out, node);
}

/* Lists every node after its parent, the branches of a fork one after the other, each fork indented one step more. */
static void add_subtree(struct typed *c, int parent, int indent)
{
    int n = chat_n_nodes(c->chat);
    for (;;) {
        int children = 0, only = -1;
        for (int k = parent + 1; k < n; k++)
            if (chat_node(c->chat, k).parent == parent) {
                children++;
                only = k;
            }
        for (int k = parent + 1; k < n && children > 1; k++)
            if (chat_node(c->chat, k).parent == parent) {
                tree_line(c, k, indent);
                add_subtree(c, k, indent + 1);
            }
        if (children != 1)
            return;
        tree_line(c, only, indent);
        parent = only;
    }
}

enum command_result command_tree(struct typed *c)
{
    enum { MOST = 2000 };
    const char *rest;
    int n = command_number(c->arg, 0, &rest), count = chat_n_nodes(c->chat);
    if (count > MOST && !*c->arg)
        err_set(&c->e, "there are %d messages, too many to list; /branch shows the last fork", count);
    else if (!count)
        err_set(&c->e, "no messages yet");
    else if (*c->arg && (*rest || n < 1 || n > count))
        err_set(&c->e, "no message %s, expected 1 to %d", c->arg, count);
    if (*c->e.msg)
        return command_refused(c);
    if (!*c->arg) {
        add_subtree(c, -1, 0);
        return COMMAND_DONE;
    }
    if (!chat_go(c->chat, n - 1, &c->e))
        return command_refused(c);
    buf_addf(c->out, "at message %d of %d\n", n, count);
    return COMMAND_MOVED;
}

/* --- out of the conversation --------------------------------------------------------------------------------------- */

enum command_result command_copy(struct typed *c)
{
    const char *rest;
    int n = command_number(c->arg, 1, &rest);
    int i = find_newest(c->chat, "assistant", n ? n : 1);
    if (i < 0) {
        err_set(&c->e, find_newest(c->chat, "assistant", 1) < 0 ? "no answer yet" : "no such answer; /copy 1 is the last one");
        return command_refused(c);
    }
    const char *text = chat_message(c->chat, i).text;
    if (!*rest) {
        buf_adds(c->out, text);
        return COMMAND_COPY;
    }
    struct buf file = {0};
    buf_addf(&file, "%s\n", text);
    bool ok = command_names_file(c, rest) && export_write(rest, &file, &c->e);
    if (ok)
        buf_addf(c->out, "wrote %zu bytes to %s\n", file.len, rest);
    buf_free(&file);
    return ok ? COMMAND_DONE : command_refused(c);
}

enum command_result command_inspect(struct typed *c)
{
    buf_adds(c->out, c->arg);
    return COMMAND_SCREEN;
}
