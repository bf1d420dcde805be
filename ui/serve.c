/* `q35chat serve`: the server's start, status and end. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "option/endpoint.h"
#include "option/options.h"
#include "option/paths.h"
#include "responder/local.h"
#include "serve/control.h"
#include "serve/keys.h"
#include "serve/server.h"
#include "serve/socket.h"
#include "ui/args.h"
#include "ui/model.h"
#include "ui/process.h"

enum { MAX_DOORS = 4 };

/* ---- start ---- */

/* Reads the config file, the environment, then the flags that are options of a chat, too.  Returns 0, or the exit status with the reason. */
static int read_options(struct options *o, const struct args *a, struct err *e)
{
    static const char *const shared[] = {"model", "backend", "threads", "ctx", "kv", "head", "mtp", "prompt-math", "draft", "conversations",
                                         "picture-tokens", "moved-room"};
    const char *file = args_text(a, "config");
    if (!(file ? options_read_file(o, file, e) : options_read_usual_file(o, e)) || !options_read_environment(o, e))
        return EXIT_USAGE;
    if (args_on(a, "no-tool-guide") && !options_set(o, OPT_tool_guide, "off", FROM_COMMAND_LINE, e))
        return EXIT_USAGE;
    if (args_on(a, "no-vision") && !options_set(o, OPT_vision, "off", FROM_COMMAND_LINE, e))
        return EXIT_USAGE;
    if (options_given(o, OPT_endpoint) && !options_set(o, OPT_endpoint, "", FROM_COMMAND_LINE, e))
        return EXIT_USAGE;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        const char *value = args_text(a, shared[i]);
        if (value && !options_set(o, (enum option_id)options_find(shared[i]), value, FROM_COMMAND_LINE, e))
            return EXIT_USAGE;
    }
    return model_choose(o, e);
}

/* The keys of clients over TCP, and their file; path empty: no key is needed. */
struct key_file {
    struct keys keys;
    struct buf  path;
    bool        at_terminal;            /* when it was read first */
};

/* Reads the file again after SIGHUP.  False if the signal means that the server's terminal has gone. */
static bool read_again(struct key_file *f)
{
    struct err e;
    if (f->at_terminal && !isatty(STDERR_FILENO))
        return false;
    if (!f->path.len)
        err_warn("there is no key file to read again: no client needs a key");
    else if (!keys_read(&f->keys, f->path.data, false, &e))
        err_warn("the keys stay as they were: %s", e.msg);
    else
        fprintf(stderr, "q35chat: the keys in %s were read again\n", f->path.data);
    return true;
}

/* Runs the server until it ends, and says once that it is ready. */
static enum server_state loop(struct server *s, struct key_file *keys, struct err *e)
{
    enum server_state state = SERVER_RUNS;
    bool told = false;
    while (state == SERVER_RUNS) {
        struct pollfd fds[SERVER_MAX_FDS + 1];
        int n = server_fds(s, fds);
        fds[n++] = (struct pollfd){.fd = interrupt_fd(), .events = POLLIN};
        poll(fds, (nfds_t)n, server_timeout(s));
        if (interrupt_taken() && (interrupt_signal() != SIGHUP || !read_again(keys)))
            return SERVER_STOPPED;
        state = server_run(s, e);
        if (!told && server_is_ready(s)) {
            socket_notify_systemd("READY=1\nSTATUS=the model is loaded");
            told = true;
        }
    }
    return state;
}

/* Reads the keys from serve.key beside the config file, unless another file was given. */
static bool read_keys(const struct args *a, struct key_file *f, struct err *e)
{
    const char *given = args_text(a, "key-file");
    bool ok = true;
    if (given)
        paths_expand(&f->path, given);
    else
        ok = paths_config_beside("serve.key", &f->path, e);
    ok = ok && keys_read(&f->keys, f->path.data, true, e);
    if (ok)
        fprintf(stderr, "q35chat: clients send %s in %s\n", f->keys.n > 1 ? "one of the keys" : "the key that is", f->path.data);
    return ok;
}

/* The sockets to listen on: those that systemd opened, else our own; and that of --listen. */
struct doors {
    int  fds[MAX_DOORS], n;
    int  lock;                          /* lock of our own socket; -1: none */
    bool tcp;                           /* clients need a key */
    int  n_given;                       /* sockets that systemd opened */
    const char *path, *address;         /* our own socket, and that of --listen; NULL: not opened */
};

/* Takes the sockets that systemd has opened.  False if there are too many or one is not allowed. */
static bool take_given(struct doors *d, int n, bool any, struct err *e)
{
    for (int i = 0; i < n; i++) {
        bool tcp = false;
        if (d->n == MAX_DOORS - 1)
            return err_set(e, "LISTEN_FDS has %d sockets, expected %d at most", n, MAX_DOORS - 1);
        if (!socket_take(SOCKET_FIRST_FD + i, any, &tcp, e))
            return false;
        d->fds[d->n++] = SOCKET_FIRST_FD + i;
        d->n_given++;
        d->tcp = d->tcp || tcp;
    }
    return true;
}

static bool take_own(struct doors *d, const char *path, struct err *e)
{
    int fd = socket_listen_unix(path, &d->lock, e);
    if (fd < 0)
        return false;
    d->fds[d->n++] = fd;
    d->path = path;
    return true;
}

/* Opens the sockets to listen on: those of systemd or its own, and the address of --listen.  False with *status. */
static bool doors_open(struct doors *d, const struct args *a, const char *path, int *status, struct err *e)
{
    const bool any = args_on(a, "i-know");
    const char *address = args_text(a, "listen");
    int given = socket_systemd();
    *d = (struct doors){.lock = -1};
    *status = EXIT_USAGE;               /* a wrong address is reported whatever else runs here */
    if (address && !socket_check_tcp(address, any, e))
        return false;
    *status = EXIT_FAILED;
    if (!(given ? take_given(d, given, any, e) : take_own(d, path, e)))
        return false;
    *status = EXIT_USAGE;
    int fd = address ? socket_listen_tcp(address, any, e) : -1;
    if (fd < 0)
        return !address;
    d->fds[d->n++] = fd;
    d->tcp = true;
    d->address = address;
    return true;
}

static int serve(struct server *s, const struct doors *d, struct key_file *keys)
{
    struct err e = {{0}};
    if (d->n_given)
        fprintf(stderr, "q35chat: listening on %d sockets that were given\n", d->n_given);
    if (d->path)
        fprintf(stderr, "q35chat: listening on %s\n", d->path);
    if (d->address)
        fprintf(stderr, "q35chat: listening on %s; q35chat serve clients prints the lines for other programs\n", d->address);
    socket_notify_systemd("STATUS=the model loads");
    enum server_state state = loop(s, keys, &e);
    socket_notify_systemd("STOPPING=1");
    if (state == SERVER_UNUSED)
        fprintf(stderr, "q35chat: no client for the time of --keep\n");
    return state == SERVER_FAILED ? process_fail(EXIT_MODEL, e.msg) : EXIT_ANSWERED;
}

/* Checks everything that needs no model before the model loads. */
static int start_on(const struct args *a, struct options *o, struct doors *d)
{
    struct err e = {{0}};
    struct key_file keys = {.at_terminal = isatty(STDERR_FILENO)};
    const char *aliases[ARGS_LISTED], *origins[ARGS_LISTED];
    struct server_options so = {.o = o, .n_waiting = args_int(a, "queue"), .send_timeout_s = args_int(a, "send-timeout"),
                                .keep_s = args_int(a, "keep") * 60, .any_host = args_on(a, "i-know"),
                                .self_check = !args_on(a, "no-self-check"),
                                .any_model = args_on(a, "any-model"), .aliases = aliases, .n_aliases = args_list(a, "alias", aliases),
                                .origins = origins, .n_origins = args_list(a, "origin", origins)};
    if (d->tcp && !read_keys(a, &keys, &e)) {
        keys_free(&keys.keys);
        buf_free(&keys.path);
        return process_fail(EXIT_USAGE, e.msg);
    }
    so.keys = d->tcp ? &keys.keys : NULL;
    so.address = d->address;
    so.key_file = d->tcp ? keys.path.data : NULL;
    struct responder *all[SERVER_ANSWERS] = {local_open(o, &e)};
    for (int i = 1; all[0] && i < SERVER_ANSWERS; i++)
        all[i] = local_guest(all[0]);
    struct server *s = server_open(all, SERVER_ANSWERS, &so, &e);
    while (s && d->n && server_listen(s, d->fds[d->n - 1], &e))
        d->n--;                         /* the server closes it */
    int status = s && !d->n ? serve(s, d, &keys) : process_fail(EXIT_MODEL, e.msg);
    server_close(s);
    keys_free(&keys.keys);
    buf_free(&keys.path);
    return status;
}

/* Opens the sockets and runs the server; removes its socket at the end.  Returns the exit status. */
static int start(const struct args *a, struct options *o, const char *path)
{
    struct err e = {{0}};
    struct doors d;
    int status;
    if (doors_open(&d, a, path, &status, &e)) {
        interrupt_open();
        status = start_on(a, o, &d);
    } else {
        process_fail(status, e.msg);
    }
    while (d.n)
        close(d.fds[--d.n]);
    if (d.lock >= 0) {
        unlink(d.path);                     /* before the lock is released: then the path belongs to the next server */
        close(d.lock);
    }
    return status;
}

int serve_start(const struct args *a)
{
    struct options *o = options_open();
    struct buf path = {0};
    struct err e = {{0}};
    control_socket(args_text(a, "socket"), &path);
    int status = read_options(o, a, &e);
    process_warn(options_warnings(o));
    status = status ? process_fail(status, e.msg) : start(a, o, path.data);
    buf_free(&path);
    options_close(o);
    return status;
}

/* ---- status and stop ---- */

static void add_count(struct buf *out, const char *before, int n, const char *one, const char *more)
{
    buf_addf(out, "%s%d %s", before, n, n == 1 ? one : more);
}

/* Prints the state of a running server; returns the exit status. */
static int tell(const struct control_state *s, const char *socket)
{
    struct buf out = {0};
    buf_addf(&out, "%s on %s\n", buf_str(&s->root), socket);
    if (s->n_ctx) {
        buf_addf(&out, "%d tokens of context; ", s->n_ctx);
        add_count(&out, "", s->n_connections, "other connection", "other connections");
        add_count(&out, ", ", s->n_running, "answer under way", "answers under way");
        add_count(&out, ", ", s->n_waiting, "request waiting", "requests waiting");
        add_count(&out, ", ", s->n_unread, "answer not read", "answers not read");
        buf_addc(&out, '\n');
    } else {
        buf_addf(&out, "loading: %.1f of %.1f GB\n", s->loaded_bytes / 1e9, s->total_bytes / 1e9);
    }
    if (s->why.len)
        buf_addf(&out, "%s\n", buf_str(&s->why));
    int status = process_print(&out, true, s->why.len ? EXIT_FAILED : EXIT_ANSWERED);
    buf_free(&out);
    return status;
}

/* Reports why no server was found.  Returns the exit status. */
static int missed(enum control_found found, const char *socket, struct err *e)
{
    if (found == CONTROL_NONE)
        err_set(e, "no server runs on %s", socket);
    return process_fail(EXIT_FAILED, e->msg);
}

int serve_status(const struct args *a)
{
    struct buf path = {0};
    struct control_state s = {{0}};
    struct err e = {{0}};
    control_socket(args_text(a, "socket"), &path);
    enum control_found found = control_look(path.data, &s, &e);
    int status = found == CONTROL_FOUND ? tell(&s, path.data) : missed(found, path.data, &e);
    control_state_free(&s);
    buf_free(&path);
    return status;
}

int serve_stop(const struct args *a)
{
    enum { STOP_S = 30 };
    struct buf path = {0};
    struct err e = {{0}};
    control_socket(args_text(a, "socket"), &path);
    enum control_found found = control_stop(path.data, STOP_S, &e);
    int status = found == CONTROL_FOUND ? EXIT_ANSWERED : missed(found, path.data, &e);
    buf_free(&path);
    return status;
}
