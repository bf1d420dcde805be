/* `q35chat serve clients`: the lines that other programs need for the server that runs. */
#include <string.h>

#include "serve/control.h"
#include "ui/args.h"
#include "ui/process.h"

static const struct client { const char *name, *title, *lines; } clients[] = {
#define CLIENT(...) {__VA_ARGS__},
#include "config/clients.def"
};
enum { N_CLIENTS = sizeof clients / sizeof *clients };

/* Appends a word that is the first key of the file: the last word of its first line that is no comment. */
static void add_key(struct buf *out, const char *file)
{
    buf_adds(out, "\"$(awk '!/^#/ && NF {print $NF; exit}' ");
    process_word(out, file);
    buf_adds(out, ")\"");
}

/* Appends the lines with the server's values in place of their names. */
static void add_lines(struct buf *out, const char *lines, const struct control_state *s)
{
    enum { LONGEST_OUTPUT = 32768 };
    struct buf url = {0}, key = {0}, ctx = {0}, output = {0};
    const struct { const char *name; const struct buf *value; } values[] = {
        {"@URL@", &url}, {"@KEY@", &key}, {"@MODEL@", &s->model}, {"@CTX@", &ctx}, {"@OUTPUT@", &output},
    };
    const size_t n = sizeof values / sizeof *values;
    buf_addf(&url, "http://%s", buf_str(&s->address));
    buf_addf(&ctx, "%d", s->n_ctx);
    buf_addf(&output, "%d", s->n_ctx / 4 < LONGEST_OUTPUT ? s->n_ctx / 4 : LONGEST_OUTPUT);
    add_key(&key, buf_str(&s->key_file));
    while (*lines) {
        size_t i = 0;
        while (i < n && strncmp(lines, values[i].name, strlen(values[i].name)))
            i++;
        if (i == n)
            buf_addc(out, *lines++);
        else
            buf_adds(out, buf_str(values[i].value)), lines += strlen(values[i].name);
    }
    buf_free(&url);
    buf_free(&key);
    buf_free(&ctx);
    buf_free(&output);
}

/* Prints the lines for one program, or for all if name is NULL; returns the exit status. */
static int print(const struct control_state *s, const char *name, struct err *e)
{
    struct buf out = {0};
    int n = 0;
    for (int i = 0; i < N_CLIENTS; i++) {
        if (name && strcmp(name, clients[i].name))
            continue;
        buf_adds(&out, n++ ? "\n# " : "# ");
        add_lines(&out, clients[i].title, s);
        buf_addc(&out, '\n');
        add_lines(&out, clients[i].lines, s);
    }
    if (!n)
        err_set(e, "no settings for '%s'; q35chat serve clients lists them all", name);
    const int status = n ? process_print(&out, true, EXIT_ANSWERED) : process_fail(EXIT_USAGE, e->msg);
    buf_free(&out);
    return status;
}

int serve_clients(const struct args *a)
{
    struct buf path = {0};
    struct control_state s = {{0}};
    struct err e = {{0}};
    int status;
    control_socket(args_text(a, "socket"), &path);
    const enum control_found found = control_look(path.data, &s, &e);
    if (found == CONTROL_NONE)
        err_set(&e, "no server runs on %s: start one with q35chat serve --listen 127.0.0.1:8000", path.data);
    if (found != CONTROL_FOUND)
        status = process_fail(EXIT_FAILED, e.msg);
    else if (!s.address.len)
        status = process_fail(EXIT_FAILED, "what has the model listens on its unix socket alone, which these programs do not know: end it, then "
                                           "q35chat serve --listen 127.0.0.1:8000");
    else if (!s.n_ctx)
        status = process_fail(EXIT_FAILED, "the model is loading; ask again when it is loaded");
    else
        status = print(&s, a->words[0], &e);
    control_state_free(&s);
    buf_free(&path);
    return status;
}
