/* Which key does what in which context: config/keys.def as a table, for searching and for help. */
#ifndef Q35_UI_TUI_ACTION_H
#define Q35_UI_TUI_ACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct host;
typedef void action_fn(struct host *h);

#define KEY(context, key, action, help) action_fn act_##action;
#include "config/keys.def"

/* Defines an action that is one statement. */
#define ACT(name, statement) void act_##name(struct host *h) { statement; }

enum context {
#define CONTEXT(name, characters, title, manual) CONTEXT_##name,
#include "config/contexts.def"
    N_CONTEXTS
};
/* The contexts of the keyboard at a moment, in the order in which they are searched for a key. */
struct contexts { enum context at[6]; int n; };

static inline void contexts_add(struct contexts *where, enum context c)
{
    where->at[where->n++] = c;
}

struct binding {
    enum context context;
    uint32_t     code;
    uint8_t      mods;
    bool         behind_ctrl_x;
    const char  *key, *action, *help;   /* columns of the table */
    action_fn   *fn;
};

struct actions;

struct actions *actions_open(void);
void actions_close(struct actions *a);
/* Applies a row of the config file, "[CONTEXT] KEY ACTION", with the key as config/keys.def writes it ("Ctrl-G", "Ctrl-X g").  Without a context
 * the key is bound in every context where the action has a key; the action `none` removes the key.  False with a sentence: nothing has changed. */
bool actions_bind(struct actions *a, const char *text, struct err *e);
/* The function of a key, or NULL.  behind_ctrl_x: Ctrl-X came before the key; if "Ctrl-X KEY" has no row, that of Alt-KEY counts. */
action_fn *actions_find(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods, bool behind_ctrl_x);
/* Appends the keys that work in these contexts, a line for each action. */
void actions_help(const struct actions *a, const struct contexts *where, struct buf *out);
void actions_list(const struct actions *a, struct buf *out);    /* appends all bindings, as rows for actions_bind() */
/* The binding of this key in these contexts; NULL: there is none. */
const struct binding *actions_meaning(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods);
int  actions_n(const struct actions *a);
const struct binding *actions_at(const struct actions *a, int i);

#endif
