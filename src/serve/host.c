#include "serve/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "serve/server.h"
#include "serve/socket.h"

enum { WAITING = 64, SEND_TIMEOUT_S = 300 };    /* as the defaults of `q35chat serve` */

struct host {
    struct responder base;
    struct responder *person;
    struct server *server;
    struct buf socket;
    host_leave *leave;
    int  lock;                          /* of the socket */
    int  timer;                         /* readable when the server has something to do that no descriptor shows */
    bool asked;                         /* the person's answer is under way */
    struct options *usual;              /* values for what a request leaves open */
};

static struct host *own(struct responder *r)
{
    return (struct host *)r;
}

static const struct host *own_const(const struct responder *r)
{
    return (const struct host *)r;
}

/* ---- the person's answers ---- */

static void on_news(const struct news *it, void *arg)
{
    struct host *h = arg;
    h->base.can = h->person->can;
    if (it->kind == NEWS_DONE)
        h->asked = false;               /* before it is reported: the next request may be made there */
    responder_tell(&h->base, it);
}

/* True if the person's answer and one of the others can be under way at once. */
static bool goes_beside(const struct host *h)
{
    const struct model_info *info = h->person->ops->info(h->person);
    return info && info->at_once > 1;
}

/* Sends a request of the person at this chat; the server's clients wait meanwhile, if both cannot be answered side by side. */
static enum request_result request(struct responder *r, const struct request *q, struct err *e)
{
    struct host *h = own(r);
    server_hold(h->server, !goes_beside(h));
    h->asked = true;
    enum request_result result = h->person->ops->request(h->person, q, e);
    if (result != REQUEST_TAKEN)
        h->asked = false;
    return result;
}

static void set_timer(struct host *h)
{
    int ms = server_timeout(h->server);
    struct itimerspec at = {.it_value = {.tv_sec = ms / 1000, .tv_nsec = ms > 0 ? ms % 1000 * 1000000L : 1}};
    timerfd_settime(h->timer, 0, ms < 0 ? &(struct itimerspec){{0}} : &at, NULL);
}

/* Posts the person's news and runs the server. */
static void drain(struct responder *r)
{
    struct host *h = own(r);
    struct err ignored = {{0}};
    h->person->ops->drain(h->person);
    h->base.can = h->person->can;
    server_hold(h->server, h->asked && !goes_beside(h));
    server_run(h->server, &ignored);    /* if the model is gone, the person has seen the message */
    set_timer(h);
}

static int fds(const struct responder *r, struct pollfd fds[RESPONDER_MAX_FDS])
{
    const struct host *h = own_const(r);
    int n = h->person->ops->fds(h->person, fds);
    fds[n++] = (struct pollfd){.fd = server_fd(h->server), .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = h->timer, .events = POLLIN};
    return n;
}

/* ---- passed on to the person's responder ---- */

static void interrupt(struct responder *r)
{
    own(r)->person->ops->interrupt(own(r)->person);
}

static bool end_thought(struct responder *r)
{
    return own(r)->person->ops->end_thought(own(r)->person);
}

static const struct model_info *info(const struct responder *r)
{
    return own_const(r)->person->ops->info(own_const(r)->person);
}

static void machine(struct responder *r, struct machine_figures *m)
{
    own(r)->person->ops->machine(own(r)->person, m);
}

static int used(const struct responder *r)
{
    return own_const(r)->person->ops->used(own_const(r)->person);
}

static int count(const struct responder *r, struct text t)
{
    return own_const(r)->person->ops->count(own_const(r)->person, t);
}

static int count_prompt(struct responder *r, const struct request *q, struct err *e)
{
    return own(r)->person->ops->count_prompt(own(r)->person, q, e);
}

static void encode(const struct responder *r, struct text t, bool controls, struct ids *out)
{
    own_const(r)->person->ops->encode(own_const(r)->person, t, controls, out);
}

static bool prompt(struct responder *r, const struct request *q, struct ids *out, int *snapshot_pos, struct err *e)
{
    return own(r)->person->ops->prompt(own(r)->person, q, out, snapshot_pos, e);
}

static void read_ahead(struct responder *r, const struct request *q)
{
    own(r)->person->ops->read_ahead(own(r)->person, q);
}

static void save(struct responder *r, uint64_t conversation, const char *path)
{
    own(r)->person->ops->save(own(r)->person, conversation, path);
}

static void restore(struct responder *r, uint64_t conversation, const char *path)
{
    own(r)->person->ops->restore(own(r)->person, conversation, path);
}

static void keep(struct responder *r, uint64_t conversation, const char *path)
{
    own(r)->person->ops->keep(own(r)->person, conversation, path);
}

static bool tokens(struct responder *r, const struct spoken *s, struct tokens *out)
{
    return own(r)->person->ops->tokens(own(r)->person, s, out);
}

static bool says(struct responder *r, const struct spoken *s, const struct tokens *t)
{
    return own(r)->person->ops->says(own(r)->person, s, t);
}

static bool check_biases(const struct responder *r, const char *const *items, int n, struct err *e)
{
    return own_const(r)->person->ops->check_biases(own_const(r)->person, items, n, e);
}

static struct text piece(const struct responder *r, int32_t id)
{
    return own_const(r)->person->ops->piece(own_const(r)->person, id);
}

/* ---- open and close ---- */

static int others(const struct responder *r)
{
    return server_n_others(own_const(r)->server);
}

static void wait_a_while(struct host *h)
{
    struct pollfd all[RESPONDER_MAX_FDS];
    int n = fds(&h->base, all);
    poll(all, (nfds_t)n, -1);
}

/* Serves until no other program uses the model.  The chat is over, and its session is on the disk. */
static void stay_for_others(struct host *h)
{
    struct err ignored = {{0}};
    char said[200];
    int n = others(&h->base);
    snprintf(said, sizeof said, n > 1 ? "q35chat: %d other programs use the model: it stays loaded for them (q35chat serve stop ends that)\n"
                                      : "q35chat: %d other program uses the model: it stays loaded for it (q35chat serve stop ends that)\n", n);
    if (!n || !h->leave || !h->leave(said))
        return;
    server_leave_chat(h->server);
    for (drain(&h->base); server_run(h->server, &ignored) == SERVER_RUNS && others(&h->base); drain(&h->base))
        wait_a_while(h);
}

/* Waits until the answers under way have ended; no others begin. */
static void finish_others(struct host *h)
{
    struct err ignored = {{0}};
    int n = server_n_open(h->server);
    server_shut(h->server);
    if (n)
        fprintf(stderr, n > 1 ? "q35chat: %d answers for other programs are under way, then this ends (Ctrl-C: now)\n"
                              : "q35chat: %d answer for another program is under way, then this ends (Ctrl-C: now)\n", n);
    for (drain(&h->base); server_n_open(h->server) && server_run(h->server, &ignored) == SERVER_RUNS; drain(&h->base))
        wait_a_while(h);
}

static void nothing(const struct news *it, void *arg)
{
    (void)it, (void)arg;
}

/* Closes the server and frees the host, but not the person's responder. */
static void free_host(struct host *h)
{
    server_close(h->server);
    if (h->timer >= 0)
        close(h->timer);
    if (h->lock >= 0)
        close(h->lock);
    buf_free(&h->socket);
    options_close(h->usual);
    free(h);
}

/* Ends the chat's own answer, lets those of other clients finish, and closes everything. */
static void close_host(struct responder *r)
{
    struct host *h = own(r);
    struct responder *person = h->person;
    h->base.fn = nothing;               /* the chat is being taken apart */
    if (h->asked)
        person->ops->interrupt(person);
    h->asked = false;
    stay_for_others(h);
    unlink(h->socket.data);             /* before the lock goes: then it is the next server's */
    finish_others(h);
    const int lock = h->lock;           /* held until the memory of the model is free */
    h->lock = -1;
    free_host(h);
    person->ops->close(person);
    if (lock >= 0)
        close(lock);
}

static const struct responder_ops ops = {
    .request = request, .interrupt = interrupt, .end_thought = end_thought, .fds = fds, .drain = drain, .info = info, .machine = machine,
    .used = used, .count = count, .count_prompt = count_prompt, .encode = encode, .prompt = prompt, .read_ahead = read_ahead, .save = save,
    .restore = restore, .keep = keep, .tokens = tokens, .says = says, .piece = piece,
    .check_biases = check_biases, .others = others, .close = close_host,
};

/* Opens the options of the config file: the defaults for requests of other programs, whatever is set in the chat. */
static struct options *options_of_file(const struct options *o)
{
    struct options *usual = options_open();
    struct err ignored = {{0}};         /* the chat has read it */
    const char *file = options_text(o, OPT_config);
    *file ? options_read_file(usual, file, &ignored) : options_read_usual_file(usual, &ignored);
    return usual;
}

/* Listens on the chat's socket for other programs of this user.  Owns the guests, also when it fails.  False with
 * the reason. */
static bool start(struct host *h, struct responder *const *guests, int n, const struct options *o, struct err *e)
{
    const struct server_options so = {
        .o = h->usual, .engine = o, .n_waiting = WAITING, .send_timeout_s = SEND_TIMEOUT_S, .n_spare = 1, .of_chat = true,
    };
    int fd = socket_listen_unix(h->socket.data, &h->lock, e);
    h->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0) {
        for (int i = 0; i < n; i++)
            guests[i]->ops->close(guests[i]);
        return false;
    }
    h->server = server_open(guests, n, &so, e);
    if (h->server && server_listen(h->server, fd, e))
        return true;
    unlink(h->socket.data);
    close(fd);
    return false;
}

struct responder *host_open(struct responder *person, struct responder *const *guests, int n, const char *socket, const struct options *o,
                            host_leave *leave, struct err *e)
{
    struct host *h = memory_zeroed(1, sizeof *h);
    h->base = *person;
    h->base.ops = &ops;
    h->person = person;
    h->leave = leave;
    h->lock = -1;
    h->usual = options_of_file(o);
    buf_adds(&h->socket, socket);
    if (!start(h, guests, n, o, e)) {
        free_host(h);
        return NULL;
    }
    person->fn = on_news;
    person->arg = h;
    return &h->base;
}
