/* The tree of messages: messages are never lost.  The front end shows one path from a root to a leaf; the other messages stay beside it. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct chat;

bool chat_undo(struct chat *c, struct buf *taken_back, struct err *e);  /* takes the last message and its answer off the path; the message's text */
bool chat_redo(struct chat *c, struct err *e);          /* puts the message and answer that were shown last after the end of the path back on it */
/* Marks user message `i` (index of chat_message()) as being edited and gives its text.  The next chat_submit() then makes a sibling of that
 * message, and the path goes through the new one.  A change of the path or another turn removes the mark.  A submit that gets no text of an answer
 * restores path and mark. */
bool chat_edit(struct chat *c, int i, struct buf *text, struct err *e);
int  chat_edited(const struct chat *c);                 /* index of the marked message, or -1 */
void chat_edit_end(struct chat *c);                     /* removes the mark */
bool chat_cut(struct chat *c, int i, struct err *e);    /* takes message i and all after it off the path */
/* The number of siblings of message i, itself included; *which: its own number among them, from 0. */
int  chat_siblings(const struct chat *c, int i, int *which);
/* Leads the path through sibling `which` of message i, and then as it was when that sibling was shown last. */
bool chat_show_sibling(struct chat *c, int i, int which, struct err *e);

struct chat_node {
    int parent;                         /* -1: a root */
    const char *role, *text;
    const char *call, *arguments;       /* its first tool call; NULL: no call */
    const char *answer;                 /* the text that the model wrote after its calls; "": no text */
    bool on_path;
};
int  chat_n_nodes(const struct chat *c);                /* all messages of the tree, in the order in which they were made: parents before children */
struct chat_node chat_node(const struct chat *c, int k);
/* Appends a line: the message; else the answer after its calls, and the first call; else in brackets what it is. */
void chat_node_title(const struct chat_node *n, struct buf *out);
bool chat_go(struct chat *c, int node, struct err *e);  /* makes this node the end of the path */

/* --- inside --- */
bool branch_replace(struct chat *c);    /* takes the message that is being edited off the path, with all after it; false: no message is edited */
/* After a turn without text: shows older answers to the last message again; or, if there are none and the message is new, removes it.  True: it was
 * removed, and `text` is its text. */
bool branch_take_back(struct chat *c, bool is_new, struct buf *text);
