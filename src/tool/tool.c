#include "tool/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/unicode.h"
#include "tool/builtin.h"
#include "tool/child.h"

enum { TIMEOUT_S = 30, MAX_OUTPUT = 64 * 1024, MAX_WORDS = 64 };

struct tool {
    char  *name, *schema;
    builtin_fn *builtin;                /* or */
    char **argv;
    char  *words;                       /* what argv points into */
    int    timeout_s;
    size_t max_output;
    char  *pass;                        /* names of variables for its environment */
    struct child_limits limits;
    bool   offered;
};

struct tools {
    struct tool *items;
    int n;
    struct text *schemas;               /* of the offered ones */
    int n_offered;
};

/* --- the list --------------------------------------------------------------------------------------------------- */

/* Between double quotes a backslash in front of anything else is one. */
static bool escapes(const char *s, char quote)
{
    return *s == '\\' && s[1] && quote != '\'' && (!quote || strchr("\"\\$`\n", s[1]));
}

/* Splits as a shell splits words, with '...', "..." and \x, and nothing else of a shell.  `s` is changed. */
static int split_words(char *s, char **words, int max)
{
    int n = 0;
    for (;;) {
        while (*s == ' ' || *s == '\t' || *s == '\n')
            s++;
        if (!*s)
            return n;
        if (n == max)
            return -1;
        char *to = s, quote = 0;
        words[n++] = to;
        for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
            if (quote ? *s == quote : *s == '\'' || *s == '"')
                quote = quote ? 0 : *s;
            else if (escapes(s, quote) && *++s == '\n')
                continue;               /* a line that goes on */
            else
                *to++ = *s;
        }
        if (quote)
            return -1;
        bool end = !*s;
        *to = 0;
        if (end)
            return n;
        s++;
    }
}

static const struct policy {
    const char *name;
    enum tool_approval builtin, configured;
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

static bool limit(const char *text, long standard, long max, long *out)
{
    char *end;
    *out = text ? strtol(text, &end, 10) : standard;
    return !text || (end != text && !*end && *out > 0 && *out <= max);
}

/* Makes the object that the template shows to the model. */
static char *schema(const struct option_tool *c)
{
    struct buf out = {0};
    json_t *name = json_string(c->name), *description = json_string(c->description ? c->description : "");
    char *name_text = json_dumps(name, JSON_ENCODE_ANY), *description_text = json_dumps(description, JSON_ENCODE_ANY);
    if (name_text && description_text)
        buf_addf(&out, "{\"type\": \"function\", \"function\": {\"name\": %s, \"description\": %s, \"parameters\": %s}}", name_text,
                 description_text, c->parameters ? c->parameters : "{\"type\": \"object\", \"properties\": {}}");
    free(name_text);
    free(description_text);
    json_decref(name);
    json_decref(description);
    return out.data;
}

static bool is_object(const char *text)
{
    json_t *j = json_loads(text, 0, NULL);
    bool ok = json_is_object(j);
    json_decref(j);
    return ok;
}

/* Generous: a language's run time reserves gigabytes of addresses, a build starts hundreds of processes. */
static bool process_limits(const struct option_tool *c, struct child_limits *l, struct err *e)
{
    const struct { const char *key, *text; long standard, max, *to; } rows[] = {
        {"max_memory_mb", c->max_memory_mb, 64 << 10, 1 << 24, &l->memory_mb},
        {"max_processes", c->max_processes, 1000, 1 << 20, &l->processes},
        {"max_file_mb", c->max_file_mb, 4 << 10, 1 << 24, &l->file_mb},
        {"max_files", c->max_files, 1024, 1 << 20, &l->files},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!limit(rows[i].text, rows[i].standard, rows[i].max, rows[i].to))
            return err_set(e, "[tool %s]: %s is '%s', expected 1 to %ld", c->name, rows[i].key, rows[i].text, rows[i].max);
    return true;
}

static bool add_configured(struct tools *l, const struct option_tool *c, struct err *e)
{
    char *words[MAX_WORDS + 1] = {0};
    long timeout, output;
    if (!*c->name || strspn(c->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != strlen(c->name))
        return err_set(e, "[tool %s]: a name has letters, digits, - and _", c->name);
    if (find_policy(c->name) || !strcmp(c->name, "all") || !strcmp(c->name, "none"))
        return err_set(e, "[tool %s]: in a list of tools this word means something else; choose another name", c->name);
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->items[i].name, c->name))
            return err_set(e, "[tool %s]: a built-in tool has this name", c->name);
    if (!c->command || !*c->command)
        return err_set(e, "[tool %s] of the config file has no command", c->name);
    if (c->parameters && !is_object(c->parameters))
        return err_set(e, "[tool %s]: parameters is not a JSON object", c->name);
    if (!limit(c->timeout_s, TIMEOUT_S, 3600, &timeout))
        return err_set(e, "[tool %s]: timeout_s is '%s', expected 1 to 3600", c->name, c->timeout_s);
    if (!limit(c->max_output, MAX_OUTPUT, 16 << 20, &output))
        return err_set(e, "[tool %s]: max_output is '%s', expected 1 to %d bytes", c->name, c->max_output, 16 << 20);
    struct child_limits limits;
    if (!process_limits(c, &limits, e))
        return false;
    struct tool *t = &l->items[l->n];
    *t = (struct tool){.words = memory_strdup(c->command), .timeout_s = (int)timeout, .max_output = (size_t)output, .limits = limits};
    int n = split_words(t->words, words, MAX_WORDS);
    t->schema = schema(c);
    if (n <= 0 || !t->schema) {
        free(t->words);
        free(t->schema);
        return n > 0 ? err_set(e, "[tool %s]: description is not UTF-8", c->name)
                     : err_set(e, "[tool %s]: command is '%s', expected a program and up to %d words, quotes closed", c->name, c->command,
                               MAX_WORDS - 1);
    }
    t->name = memory_strdup(c->name);
    t->pass = memory_strdup(c->env ? c->env : "");
    t->argv = memory_zeroed((size_t)n + 1, sizeof *t->argv);
    memcpy(t->argv, words, (size_t)n * sizeof *words);
    l->n++;
    return true;
}

struct tools *tools_open(const struct options *o, struct err *e)
{
    struct tools *l = memory_zeroed(1, sizeof *l);
    size_t max = (size_t)(N_BUILTINS + options_n_tools(o));
    l->items = memory_zeroed(max, sizeof *l->items);
    l->schemas = memory_zeroed(max, sizeof *l->schemas);
    for (int i = 0; i < N_BUILTINS; i++)
        l->items[l->n++] = (struct tool){
            .name = memory_strdup(builtins[i].name), .schema = memory_strdup(builtins[i].schema), .builtin = builtins[i].fn,
        };
    for (int i = 0; i < options_n_tools(o); i++)
        if (!add_configured(l, options_tool(o, i), e)) {
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
        free(l->items[i].name);
        free(l->items[i].schema);
        free(l->items[i].argv);
        free(l->items[i].words);
        free(l->items[i].pass);
    }
    free(l->items);
    free(l->schemas);
    free(l);
}

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

void tools_list(const struct tools *l, struct buf *out)
{
    for (int i = 0; i < l->n; i++) {
        const struct tool *t = &l->items[i];
        buf_addf(out, "%-3s %-16s ", t->offered ? "on" : "off", t->name);
        for (int k = 0; t->argv && t->argv[k]; k++)
            buf_addf(out, "%s%s", k ? " " : "runs ", t->argv[k]);
        buf_adds(out, t->argv ? "\n" : "built in\n");
    }
}

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
    char *where = t->argv ? getcwd(NULL, 0) : NULL;
    for (int i = 0; t->argv && t->argv[i]; i++) {
        buf_adds(out, i ? " " : "runs ");
        add_word(t->argv[i], out);
    }
    if (t->argv)
        buf_addf(out, "\nin %s", where ? where : "a directory that is gone");
    free(where);
}

/* Reads the number after `before` in the last line of the text. */
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

bool tool_listed(const struct tool *t, const char *names)
{
    return text_listed(names, text_of(t->name));
}

enum tool_approval tool_approval(const struct tool *t, const char *policy)
{
    const struct policy *p = find_policy(policy);
    if (p)
        return t->builtin ? p->builtin : p->configured;
    return t->builtin || tool_listed(t, policy) ? TOOL_RUN : TOOL_ASK;
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

struct tool_run {
    const struct tool *tool;
    struct buf out;
    struct child child;                 /* .pid 0: a built-in */
    int     fd;                         /* its stdout and stderr */
    int64_t start_ns;
    bool ended;                         /* its process was waited for; what it has started is being ended */
    int  status;
    const char *killed;                 /* why we ended it */
};

/* Puts the arguments into a file that nobody else can see: no second pipe to feed, no SIGPIPE. */
static int arguments_fd(const char *arguments, size_t n)
{
    int fd = memfd_create("arguments", MFD_CLOEXEC);
    for (size_t done = 0; fd >= 0 && done < n;) {
        ssize_t k = write(fd, arguments + done, n - done);
        if (k < 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
        done += k > 0 ? (size_t)k : 0;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

struct tool_run *tool_start(const struct tool *t, const char *arguments, size_t n, struct err *e)
{
    struct tool_run *r = memory_zeroed(1, sizeof *r);
    *r = (struct tool_run){.tool = t, .fd = -1, .start_ns = clock_ns()};
    if (t->builtin) {
        t->builtin(arguments, n, &r->out);
        return r;
    }
    int pipes[2] = {-1, -1}, in = arguments_fd(arguments, n);
    int rc = in < 0 || pipe2(pipes, O_CLOEXEC) ? errno : child_start(&r->child, t->argv, t->pass, &t->limits, in, pipes[1]);
    if (in >= 0)
        close(in);
    if (pipes[1] >= 0)
        close(pipes[1]);
    r->fd = pipes[0];
    if (rc) {
        err_set(e, "cannot run %s: %s", t->argv[0], strerror(rc));
        tool_close(r);
        return NULL;
    }
    fcntl(r->fd, F_SETFL, O_NONBLOCK);
    return r;
}

int tool_fd(const struct tool_run *r)
{
    return r->fd;
}

static void end_child(struct tool_run *r, const char *why)
{
    if (!r->killed)
        r->killed = why;
    if (!r->ended)
        kill(-r->child.pid, SIGKILL);
}

/* Reads what there is.  False when there is no more now, or never again. */
static bool read_some(struct tool_run *r)
{
    char chunk[4096];
    ssize_t n = r->fd < 0 ? 0 : read(r->fd, chunk, sizeof chunk);
    if (n == 0 && r->fd >= 0) {
        close(r->fd);
        r->fd = -1;
    }
    size_t room = r->tool->max_output - r->out.len;
    if (n > 0)
        buf_add(&r->out, chunk, (size_t)n < room ? (size_t)n : room);
    if (n > 0 && (size_t)n > room)
        end_child(r, "output limit");
    return n > 0 && !r->killed;
}

static void report(struct tool_run *r, struct buf *result)
{
    struct buf text = {0};
    size_t whole = r->killed ? unicode_complete(buf_str(&r->out), r->out.len) : r->out.len;
    unicode_replace(&text, buf_str(&r->out), whole);
    while (text.len && strchr(" \t\r\n", text.data[text.len - 1]))
        text.data[--text.len] = 0;
    const char *gap = text.len ? "\n" : "";
    if (r->killed && !strcmp(r->killed, "output limit"))
        buf_addf(&text, "%s[ended: more than %zu bytes of output]", gap, r->tool->max_output);
    else if (r->killed)
        buf_addf(&text, "%s[ended: longer than %d s]", gap, r->tool->timeout_s);
    else if (WIFSIGNALED(r->status))
        buf_addf(&text, "%s[ended by signal %d]", gap, WTERMSIG(r->status));
    else if (WEXITSTATUS(r->status))
        buf_addf(&text, "%s[exit status %d]", gap, WEXITSTATUS(r->status));
    else if (!text.len)
        buf_adds(&text, "[no output]");
    buf_add(result, text.data, text.len);
    buf_free(&text);
}

bool tool_step(struct tool_run *r, struct buf *result)
{
    if (r->tool->builtin) {
        buf_add(result, buf_str(&r->out), r->out.len);
        return true;
    }
    while (read_some(r))
        ;
    if (!r->ended && clock_ms_since(r->start_ns) > r->tool->timeout_s * 1000.0)
        end_child(r, "time limit");
    r->ended = r->ended || waitpid(r->child.pid, &r->status, WNOHANG);
    if (!r->ended || !child_sweep(&r->child))
        return false;
    while (!r->killed && read_some(r))
        ;
    report(r, result);
    return true;
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
    if (r->child.pid && !r->ended)
        kill(-r->child.pid, SIGINT);
}

void tool_kill(struct tool_run *r)
{
    if (r->child.pid)
        end_child(r, "interrupted");
}

int tool_timeout(const struct tool_run *r)
{
    return r->ended ? 1 : TOOL_TICK_MS;
}

void tool_close(struct tool_run *r)
{
    if (!r)
        return;
    if (r->child.pid && !r->ended) {
        kill(-r->child.pid, SIGKILL);
        waitpid(r->child.pid, NULL, 0);
    }
    if (r->child.pid)
        child_end(&r->child);
    if (r->fd >= 0)
        close(r->fd);
    buf_free(&r->out);
    free(r);
}
