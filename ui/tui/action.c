#include "ui/tui/action.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/memory.h"
#include "ui/tui/keys.h"

static const struct row { enum context context; const char *key, *action, *help; action_fn *fn; } rows[] = {
#define KEY(context, key, action, help) {CONTEXT_##context, key, #action, help, act_##action},
#include "config/keys.def"
};

enum { N_ROWS = sizeof rows / sizeof *rows };

struct actions {
    struct binding *bindings;           /* each key once in a context */
    int n;
    struct arena mem;                   /* names of keys that the user bound */
};

static const struct { const char *name; bool typed; const char *title; } contexts[N_CONTEXTS] = {
#define TYPED true
#define KEYS false
#define CONTEXT(name, characters, title, manual) {#name, characters, title},
#include "config/contexts.def"
#undef TYPED
#undef KEYS
};

struct actions *actions_open(void)
{
    struct actions *a = memory_zeroed(1, sizeof *a);
    a->n = N_ROWS;
    a->bindings = memory_zeroed(N_ROWS, sizeof *a->bindings);
    for (int i = 0; i < N_ROWS; i++) {
        const struct row *r = &rows[i];
        a->bindings[i] = (struct binding){.context = r->context, .key = r->key, .action = r->action, .help = r->help, .fn = r->fn};
        struct binding *b = &a->bindings[i];
        b->behind_ctrl_x = !strncmp(b->key, "Ctrl-X ", 7);
        CHECK(keys_parse(b->key + (b->behind_ctrl_x ? 7 : 0), &b->code, &b->mods));
    }
    return a;
}

void actions_close(struct actions *a)
{
    arena_free(&a->mem);
    free(a->bindings);
    free(a);
}

int actions_n(const struct actions *a)
{
    return a->n;
}

const struct binding *actions_at(const struct actions *a, int i)
{
    return &a->bindings[i];
}

/* --- what the user binds ---------------------------------------------------------------------------------------- */

static int find_context(const char *name)
{
    for (int i = 0; i < N_CONTEXTS; i++)
        if (!strcmp(contexts[i].name, name))
            return i;
    return -1;
}

static bool same_key(const struct binding *a, const struct binding *b)
{
    return a->code == b->code && a->mods == b->mods && a->behind_ctrl_x == b->behind_ctrl_x;
}

/* After the key with the help was unbound, moves the help to another key of the same action. */
static void pass_help(struct actions *a, const struct binding *gone)
{
    for (int i = 0; i < a->n; i++) {
        struct binding *b = &a->bindings[i];
        if (b->context == gone->context && b->fn == gone->fn) {
            b->help = gone->help;
            return;
        }
    }
}

static void unbind(struct actions *a, enum context context, const struct binding *key)
{
    for (int i = 0; i < a->n; i++) {
        struct binding gone = a->bindings[i];
        if (gone.context != context || !same_key(&gone, key))
            continue;
        memmove(&a->bindings[i], &a->bindings[i + 1], (size_t)(a->n - i - 1) * sizeof gone);
        a->n--;
        if (*gone.help)
            pass_help(a, &gone);
        return;
    }
}

static void bind(struct actions *a, enum context context, struct binding b, const struct row *row)
{
    unbind(a, context, &b);
    b.context = context;
    b.action = row->action;
    b.fn = row->fn;
    b.help = row->help;
    for (int i = 0; i < N_ROWS && !*b.help; i++)        /* the row with the help of this action */
        if (rows[i].fn == row->fn)
            b.help = rows[i].help;
    for (int i = 0; i < a->n; i++)
        if (a->bindings[i].context == context && a->bindings[i].fn == b.fn && *a->bindings[i].help)
            b.help = "";
    a->bindings = memory_resized(a->bindings, (size_t)(a->n + 1) * sizeof *a->bindings);
    a->bindings[a->n++] = b;
}

/* True if the key is no plain character of a context in which text is typed. */
static bool can_be_key(enum context context, const struct binding *key)
{
    bool plain = key->code < KEY_NONE && !key->mods && !key->behind_ctrl_x;
    return !plain || !contexts[context].typed;
}

static bool take_key(struct actions *a, char **words, int n, struct binding *b, struct err *e)
{
    b->behind_ctrl_x = n == 2 && !strcasecmp(words[0], "Ctrl-X");
    const char *name = n > 0 ? words[n - 1] : "nothing";
    if (n < 1 || n > 2 || (n == 2 && !b->behind_ctrl_x) || !keys_parse(name, &b->code, &b->mods))
        return err_set(e, "unknown key %s; keys are written Ctrl-G, Alt-Enter, F5, Ctrl-X g", name);
    if (b->code == 'x' && b->mods == MOD_CTRL)
        return err_set(e, "Ctrl-X begins other keys: Ctrl-X g");
    struct buf shown = {0};
    buf_adds(&shown, b->behind_ctrl_x ? "Ctrl-X " : "");
    keys_name(b->code, b->mods, &shown);
    b->key = arena_strdup(&a->mem, shown.data);
    buf_free(&shown);
    return true;
}

/* Binds the key in the contexts of the action (for `none`: of the key), or in the one that was named. */
static bool bind_words(struct actions *a, char **words, int n, struct err *e)
{
    const char *action = n ? words[n - 1] : "";
    int context = n > 2 ? find_context(words[0]) : -1, named = context >= 0;
    bool none = !strcmp(action, "none"), in[N_CONTEXTS] = {false};
    const struct row *row = NULL;
    struct binding b = {0};
    for (int i = 0; i < N_ROWS; i++)
        if (!strcmp(rows[i].action, action)) {
            row = &rows[i];
            in[named ? context : (int)rows[i].context] = true;
        }
    if (!row && !none)
        return err_set(e, "unknown action %s; /keys all lists them", action);
    if (!take_key(a, words + named, n - 1 - named, &b, e))
        return false;
    for (int c = 0; c < N_CONTEXTS; c++)
        if (in[c] && !can_be_key((enum context)c, &b))
            return err_set(e, "%s could no longer be typed; choose a key with Ctrl or Alt", b.key);
    for (int c = 0; c < N_CONTEXTS; c++) {
        if (none && (!named || c == context))
            unbind(a, (enum context)c, &b);
        else if (in[c])
            bind(a, (enum context)c, b, row);
    }
    return true;
}

bool actions_bind(struct actions *a, const char *text, struct err *e)
{
    enum { WORDS = 8 };
    char *words[WORDS], *copy = memory_strdup(text), *rest = copy;
    struct err why = {0};
    int n = 0;
    for (char *word; n < WORDS && (word = strtok_r(rest, " \t", &rest));)
        words[n++] = word;
    bool ok = bind_words(a, words, n, &why) || err_set(e, "key = %s: %s", text, why.msg);
    free(copy);
    return ok;
}

/* --- what a key means ------------------------------------------------------------------------------------------- */

static action_fn *look_up(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods, bool behind_ctrl_x)
{
    for (int k = 0; k < where->n; k++)
        for (int i = 0; i < a->n; i++) {
            const struct binding *b = &a->bindings[i];
            if (b->context == where->at[k] && b->code == code && b->mods == mods && b->behind_ctrl_x == behind_ctrl_x)
                return b->fn;
        }
    return NULL;
}

action_fn *actions_find(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods, bool behind_ctrl_x)
{
    action_fn *fn = look_up(a, where, code, mods, behind_ctrl_x);
    if (!fn && (mods & MOD_ALT))        /* few terminals distinguish Alt-Shift-S from Alt-S */
        fn = look_up(a, where, code, mods & (uint8_t)~MOD_SHIFT, behind_ctrl_x);
    if (!fn && behind_ctrl_x) {
        mods |= MOD_ALT;
        keys_normalize(&code, &mods, 0);
        fn = actions_find(a, where, code, mods, false);
    }
    return fn;
}

/* --- help ------------------------------------------------------------------------------------------------------- */

static void help_row(const struct actions *a, const struct binding *b, struct buf *out)
{
    enum { KEYS_COLUMNS = 22 };
    size_t start = out->len;
    buf_adds(out, "  ");
    for (int i = 0; i < a->n; i++) {
        const struct binding *other = &a->bindings[i];
        if (other->context != b->context || other->fn != b->fn)
            continue;
        if (out->len - start > 2 && out->len - start + strlen(other->key) + 2 > KEYS_COLUMNS)
            break;
        buf_addf(out, out->len - start > 2 ? ", %s" : "%s", other->key);
    }
    do
        buf_addc(out, ' ');
    while (out->len - start < KEYS_COLUMNS + 2);
    buf_addf(out, "%s\n", b->help);
}

void actions_help(const struct actions *a, const struct contexts *where, struct buf *out)
{
    for (int k = 0; k < where->n; k++) {
        bool any = false;
        for (int i = 0; i < a->n; i++) {
            const struct binding *b = &a->bindings[i];
            if (b->context != where->at[k] || !*b->help)
                continue;
            if (!any)
                buf_addf(out, out->len ? "\n%s\n" : "%s\n", contexts[b->context].title);
            any = true;
            help_row(a, b, out);
        }
    }
}

void actions_list(const struct actions *a, struct buf *out)
{
    buf_adds(out, "# where    key              action\n");
    for (int i = 0; i < a->n; i++)
        buf_addf(out, "%-10s %-16s %s\n", contexts[a->bindings[i].context].name, a->bindings[i].key, a->bindings[i].action);
    buf_adds(out, "# In the config file: key = view Ctrl-E line_down.  Without the place, wherever\n"
                  "# the action has a key already; the action none takes a key away.\n");
}

const struct binding *actions_meaning(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods)
{
    action_fn *fn = actions_find(a, where, code, mods, false);
    for (int k = 0; k < where->n && fn; k++)
        for (int i = 0; i < a->n; i++)
            if (a->bindings[i].context == where->at[k] && a->bindings[i].fn == fn)
                return &a->bindings[i];
    return NULL;
}
