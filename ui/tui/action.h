/* What a key does, and where: config/keys.def as a table that can be searched, and told as help. */
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

enum context {
#define CONTEXT(name, characters, title, manual) CONTEXT_##name,
#include "config/contexts.def"
    N_CONTEXTS
};
/* Where one is: contexts in the order in which they are asked. */
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
    const char  *key, *action, *help;   /* as the table has them */
    action_fn   *fn;
};

struct actions;

struct actions *actions_open(void);
void actions_close(struct actions *a);
/* A row of the config file: "[CONTEXT] KEY ACTION", the key as config/keys.def writes it ("Ctrl-G", "Ctrl-X g").  Without a context
 * the key does it wherever the action has a key already; the action `none` takes the key away.  False with a sentence: nothing has
 * changed. */
bool actions_bind(struct actions *a, const char *text, struct err *e);
/* The function of a key, or NULL.  `behind_ctrl_x`: Ctrl-X came before it, which makes an Alt key of what has no row of its own. */
action_fn *actions_find(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods, bool behind_ctrl_x);
/* The keys that work there: a line for each thing they do. */
void actions_help(const struct actions *a, const struct contexts *where, struct buf *out);
void actions_list(const struct actions *a, struct buf *out);    /* all of them as rows that actions_bind() would take */
/* What that key does there, as told in the table; NULL: nothing. */
const struct binding *actions_meaning(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods);
int  actions_n(const struct actions *a);
const struct binding *actions_at(const struct actions *a, int i);

#endif
