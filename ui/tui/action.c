#include "ui/tui/action.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ui/tui/app.h"
#include "ui/tui/keys.h"

static const struct row { enum context context; const char *key, *action, *help; action_fn *fn; } rows[] = {
#define KEY(context, key, action, help) {CONTEXT_##context, key, #action, help, act_##action},
#include "config/keys.def"
};

enum { N_ROWS = sizeof rows / sizeof *rows };

struct actions { struct binding bindings[N_ROWS]; };

static void parse(struct binding *b)
{
    const char *key = b->key;
    b->behind_ctrl_x = !strncmp(key, "Ctrl-X ", 7);
    CHECK(keys_parse(key + (b->behind_ctrl_x ? 7 : 0), &b->code, &b->mods));
}

struct actions *actions_open(void)
{
    struct actions *a = calloc(1, sizeof *a);
    CHECK(a);
    for (int i = 0; i < N_ROWS; i++) {
        const struct row *r = &rows[i];
        a->bindings[i] = (struct binding){.context = r->context, .key = r->key, .action = r->action, .help = r->help, .fn = r->fn};
        parse(&a->bindings[i]);
    }
    return a;
}

void actions_close(struct actions *a)
{
    free(a);
}

int actions_n(const struct actions *a)
{
    (void)a;
    return N_ROWS;
}

const struct binding *actions_at(const struct actions *a, int i)
{
    return &a->bindings[i];
}

static action_fn *look_up(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods, bool behind_ctrl_x)
{
    for (int k = 0; k < where->n; k++)
        for (int i = 0; i < N_ROWS; i++) {
            const struct binding *b = &a->bindings[i];
            if (b->context == where->at[k] && b->code == code && b->mods == mods && b->behind_ctrl_x == behind_ctrl_x)
                return b->fn;
        }
    return NULL;
}

action_fn *actions_find(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods, bool behind_ctrl_x)
{
    action_fn *fn = look_up(a, where, code, mods, behind_ctrl_x);
    if (!fn && (mods & MOD_ALT))        /* Alt-Shift-S, which few terminals tell apart, is Alt-S */
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
    for (int i = 0; i < N_ROWS; i++) {
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
    static const char *const titles[N_CONTEXTS] = {
        [CONTEXT_popup] = "In the list", [CONTEXT_empty] = "With an empty draft", [CONTEXT_input] = "Writing", [CONTEXT_edit] = "In the line",
        [CONTEXT_prompt] = "Searching", [CONTEXT_view] = "View mode", [CONTEXT_approve] = "A tool asks", [CONTEXT_picker] = "Choosing",
        [CONTEXT_inspect] = "Tokens", [CONTEXT_keys] = "Here", [CONTEXT_any] = "Everywhere",
    };
    for (int k = 0; k < where->n; k++) {
        bool any = false;
        for (int i = 0; i < N_ROWS; i++) {
            const struct binding *b = &a->bindings[i];
            if (b->context != where->at[k] || !*b->help)
                continue;
            if (!any)
                buf_addf(out, out->len ? "\n%s\n" : "%s\n", titles[b->context]);
            any = true;
            help_row(a, b, out);
        }
    }
}
