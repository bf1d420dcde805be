#include "tool/tool.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/unicode.h"
#include "tool/kind.h"

static const struct tool_kind *const kinds[] = {&tool_builtin, &tool_child};

struct tools {
    struct tool *items;
    int n;
    struct text *schemas;               /* those of the offered tools */
    int n_offered;
};

/* --- the list --------------------------------------------------------------------------------------------------- */

static const struct policy {
    const char *name;
    enum tool_approval harmless, others;
} policies[] = {
    {"auto",   TOOL_RUN,  TOOL_ASK},
    {"ask",    TOOL_ASK,  TOOL_ASK},
    {"always", TOOL_RUN,  TOOL_RUN},
    {"never",  TOOL_DENY, TOOL_DENY},
};
enum { N_POLICIES = sizeof policies / sizeof *policies };

/* Returns the policy of this name; NULL: a list of tools. */
static const struct policy *find_policy(const char *name)
{
    for (int i = 0; i < N_POLICIES; i++)
        if (!strcmp(policies[i].name, name))
            return &policies[i];
    return NULL;
}

bool tools_check_name(const struct tools *l, const char *name, struct err *e)
{
    if (!*name || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != strlen(name))
        return err_set(e, "[tool %s]: a name has letters, digits, - and _", name);
    if (find_policy(name) || !strcmp(name, "all") || !strcmp(name, "none"))
        return err_set(e, "[tool %s]: in a list of tools this word means something else; choose another name", name);
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->items[i].name, name))
            return err_set(e, "[tool %s]: a built-in tool has this name", name);
    return true;
}

struct tool *tools_add(struct tools *l, const struct tool_kind *kind, const char *name, char *schema, void *def)
{
    l->items = memory_resized(l->items, (size_t)(l->n + 1) * sizeof *l->items);
    l->schemas = memory_resized(l->schemas, (size_t)(l->n + 1) * sizeof *l->schemas);
    l->items[l->n++] = (struct tool){.kind = kind, .name = memory_strdup(name), .schema = schema, .def = def};
    return &l->items[l->n - 1];
}

struct tools *tools_open(const struct options *o, struct err *e)
{
    struct tools *l = memory_zeroed(1, sizeof *l);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!kinds[i]->add(l, o, e)) {
            tools_close(l);
            return NULL;
        }
    return l;
}

void tools_close(struct tools *l)
{
    if (!l)
        return;
    for (int i = 0; i < l->n; i++) {
        struct tool *t = &l->items[i];
        if (t->kind->free_def)
            t->kind->free_def(t->def);
        free(t->name);
        free(t->schema);
    }
    free(l->items);
    free(l->schemas);
    free(l);
}

/* True if all names of the list are tools. */
static bool known_names(const struct tools *l, const char *list, struct err *e)
{
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ", ");
        bool known = len == 0;
        for (int i = 0; i < l->n && !known; i++)
            known = strlen(l->items[i].name) == len && !strncmp(l->items[i].name, p, len);
        if (!known) {
            struct buf names = {0};
            tools_names(l, false, &names);
            err_set(e, "unknown tool %.*s; expected one of %s", (int)len, p, buf_str(&names));
            buf_free(&names);
            return false;
        }
        p += len + (p[len] != 0);
    }
    return true;
}

bool tools_offer(struct tools *l, const char *list, struct err *e)
{
    bool all = !strcmp(list, "all"), none = !*list || !strcmp(list, "none");
    if (!all && !none && !known_names(l, list, e))
        return false;
    l->n_offered = 0;
    for (int i = 0; i < l->n; i++) {
        struct tool *t = &l->items[i];
        t->offered = all || (!none && text_listed(list, text_of(t->name)));
        if (t->offered)
            l->schemas[l->n_offered++] = (struct text){t->schema, strlen(t->schema)};
    }
    return true;
}

const struct text *tools_schemas(const struct tools *l, int *n)
{
    *n = l->n_offered;
    return l->schemas;
}

const struct tool *tools_find(const struct tools *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (l->items[i].offered && !strcmp(l->items[i].name, name))
            return &l->items[i];
    return NULL;
}

void tools_names(const struct tools *l, bool offered, struct buf *out)
{
    const char *between = "";
    for (int i = 0; i < l->n; i++)
        if (l->items[i].offered || !offered) {
            buf_addf(out, "%s%s", between, l->items[i].name);
            between = ", ";
        }
}

/* Returns the words of the program that a call runs; NULL: it runs no program. */
static char **program(const struct tool *t)
{
    return t->kind->argv ? t->kind->argv(t) : NULL;
}

void tools_list(const struct tools *l, struct buf *out)
{
    for (int i = 0; i < l->n; i++) {
        const struct tool *t = &l->items[i];
        char **argv = program(t);
        buf_addf(out, "%-3s %-16s ", t->offered ? "on" : "off", t->name);
        for (int k = 0; argv && argv[k]; k++)
            buf_addf(out, "%s%s", k ? " " : "runs ", argv[k]);
        buf_adds(out, argv ? "\n" : "built in\n");
    }
}

/* --- one tool --------------------------------------------------------------------------------------------------- */

/* Quotes a word so that a shell takes it as one. */
static void add_word(const char *word, struct buf *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";
    if (*word && strspn(word, plain) == strlen(word)) {
        buf_adds(out, word);
        return;
    }
    buf_addc(out, '\'');
    for (; *word; word++)
        if (*word == '\'')
            buf_adds(out, "'\\''");
        else
            buf_addc(out, *word);
    buf_addc(out, '\'');
}

void tool_command(const struct tool *t, struct buf *out)
{
    char **argv = program(t);
    if (!argv)
        return;
    for (int i = 0; argv[i]; i++) {
        buf_adds(out, i ? " " : "runs ");
        add_word(argv[i], out);
    }
    char *where = getcwd(NULL, 0);
    buf_addf(out, "\nin %s", where ? where : "a directory that is gone");
    free(where);
}

bool tool_listed(const struct tool *t, const char *names)
{
    return text_listed(names, text_of(t->name));
}

enum tool_approval tool_approval(const struct tool *t, const char *policy)
{
    const struct policy *p = find_policy(policy);
    if (p)
        return t->kind->harmless ? p->harmless : p->others;
    return t->kind->harmless || tool_listed(t, policy) ? TOOL_RUN : TOOL_ASK;
}

bool tools_check_policy(const struct tools *l, const char *policy, struct err *e)
{
    struct err why;
    return find_policy(policy) || known_names(l, policy, &why)
        || err_set(e, "tools_approve is neither auto, ask, always, never nor names of tools: %s", why.msg);
}

bool tool_check_arguments(const char *text, size_t n, struct err *e)
{
    json_error_t why;
    json_t *j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    bool ok = json_is_object(j);
    if (!j)
        err_set(e, "line %d of the arguments is not JSON: %s", why.line, why.text);
    else if (!ok)
        err_set(e, "arguments must be a JSON object: {\"name\": value}");
    json_decref(j);
    return ok;
}

/* --- one call --------------------------------------------------------------------------------------------------- */

struct tool_run *tool_start(const struct tool *t, const char *arguments, size_t n, struct err *e)
{
    return t->kind->start(t, arguments, n, e);
}

int tool_fds(const struct tool_run *r, struct pollfd fds[TOOL_MAX_FDS])
{
    return r->tool->kind->fds ? r->tool->kind->fds(r, fds) : 0;
}

bool tool_shows_pictures(const struct tool *t)
{
    return t->pictures;
}

int tool_timeout(const struct tool_run *r)
{
    return r->tool->kind->timeout ? r->tool->kind->timeout(r) : TOOL_TICK_MS;
}

bool tool_step(struct tool_run *r, struct buf *result)
{
    return r->tool->kind->step(r, result);
}

const char *tool_output(const struct tool_run *r, size_t *n)
{
    const char *s = buf_str(&r->out);
    *n = unicode_complete(s, r->out.len);
    while (*n && strchr(" \t\r\n", s[*n - 1]))
        --*n;
    return s;
}

void tool_interrupt(struct tool_run *r)
{
    if (r->tool->kind->interrupt)
        r->tool->kind->interrupt(r);
}

void tool_kill(struct tool_run *r)
{
    if (r->tool->kind->kill)
        r->tool->kind->kill(r);
}

void tool_close(struct tool_run *r)
{
    if (!r)
        return;
    if (r->tool->kind->close)
        r->tool->kind->close(r);
    buf_free(&r->out);
    free(r);
}

/* True if the last line of the text begins with `before`; formats the number after it into `word`. */
static bool ends_with(const char *text, size_t n, const char *before, char *word, const char *format)
{
    size_t at = n, len = strlen(before);
    while (at && text[at - 1] != '\n')
        at--;
    if (n - at <= len || strncmp(text + at, before, len))
        return false;
    snprintf(word, TOOL_OUTCOME, format, (int)strtol(text + at + len, NULL, 10));
    return true;
}

void tool_outcome(const char *text, size_t n, char out[static TOOL_OUTCOME])
{
    static const struct { const char *begins, *word; } rows[] = {
        {TOOL_REFUSED, "not run"}, {TOOL_NOT_ALLOWED, "not run"}, {TOOL_NOT_RUN, "not run"}, {TOOL_INTERRUPTED, "stopped"},
    };
    *out = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (n >= strlen(rows[i].begins) && !memcmp(text, rows[i].begins, strlen(rows[i].begins))) {
            snprintf(out, TOOL_OUTCOME, "%s", rows[i].word);
            return;
        }
    if (!ends_with(text, n, "[exit status ", out, "exit %d") && !ends_with(text, n, "[ended by signal ", out, "signal %d"))
        ends_with(text, n, "[ended: ", out, "ended");
}
