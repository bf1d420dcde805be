#include "responder/local.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "responder/local_state.h"
#include "option/paths.h"

static struct local *own(struct responder *r)
{
    return (struct local *)r;
}

static const struct local *own_const(const struct responder *r)
{
    return (const struct local *)r;
}

/* --- loading ------------------------------------------------------------------------------------------------------- */

static void tell_text(const struct local *l, enum news_kind kind, const char *text)
{
    responder_tell(&l->base, &(struct news){.kind = kind, .text = text_of(text)});
}

static void die(struct local *l, const char *why)
{
    l->dead = true;
    local_break_off(l);
    tell_text(l, NEWS_FATAL, why);
}

/* Reads how large the pictures are that the model sees, of at most so many tokens.  False with the reason. */
static bool read_limits(struct local *l, const char *dir, int most_tokens, struct image_limits *to, struct err *e)
{
    if (!image_limits_within(to, dir, most_tokens, e))
        return false;
    l->base.least_pixels = (int)to->min_pixels;
    l->base.most_pixels = (int)to->max_pixels;
    return true;
}

/* Notes whether the model sees pictures, and how large ones. */
static void set_sight(struct local *l)
{
    struct local *host = l->host ? l->host : l;
    struct image_limits limits;
    struct err e = {0};
    l->pad = tokenizer_special(l->tok, "<|image_pad|>");
    if (!l->source->pixels || !l->info.picture_tokens || l->pad < 0)
        return;
    if (!read_limits(l, host->dir.data, l->info.picture_tokens, &limits, &e)) {
        tell_text(l, NEWS_NOTE, e.msg);
        return;
    }
    if (l->source->files)
        host->views.limits = limits;
    else if (!host->views.worker.step && !views_open(&host->views, limits, &e)) {
        tell_text(l, NEWS_NOTE, e.msg);
        return;
    }
    l->base.can.pictures = true;
}

/* Reports READY when both the engine and the tokenizer are there. */
static void tell_if_ready(struct local *l)
{
    if (l->ready || !l->known || !l->tok)
        return;
    l->ready = true;
    set_sight(l);
    if (l->with_note)
        tell_text(l, NEWS_NOTE, "attached to the model that another q35chat has loaded");
    tell_text(l, NEWS_READY, "");
}

/* Takes the tokenizer when its loader has finished, for the guests of this engine, too; without it they cannot answer. */
static void take_tokenizer(struct local *l)
{
    struct err e = {0};
    if (!l->loader || !loader_take(l->loader, &l->tok, &e))
        return;
    l->vocabulary = loader_take_vocabulary(l->loader);
    loader_stop(l->loader);
    l->loader = NULL;
    if (!l->tok) {
        die(l, e.msg);
        for (struct local *guest = l->guests; guest; guest = guest->next)
            die(guest, e.msg);
        return;
    }
    l->base.can.count = l->base.can.tokens = l->base.can.plain = true;
    if (tokenizer_notice(l->tok))
        tell_text(l, NEWS_NOTE, tokenizer_notice(l->tok));
    tell_if_ready(l);
    for (struct local *guest = l->guests; guest; guest = guest->next) {
        guest->tok = l->tok;
        guest->base.can.count = guest->base.can.tokens = guest->base.can.plain = true;
        tell_if_ready(guest);
    }
}

/* Turns an event of the engine into news; those of an answer go to local_event(). */
static void take_event(struct local *l, const struct event *ev)
{
    switch (ev->kind) {
    case EV_LOADING:
        responder_tell(&l->base, &(struct news){.kind = NEWS_LOADING, .done = ev->done, .total = ev->total});
        break;
    case EV_READY:
        l->info = *l->source->ops->info(l->source);
        l->known = true;
        tell_if_ready(l);
        break;
    case EV_RESTORED:
        responder_tell(&l->base, &(struct news){
            .kind = NEWS_RESTORED, .conversation = ev->sequence, .done = ev->done, .text = text_of(ev->message),
        });
        break;
    case EV_SAVED:
        responder_tell(&l->base, &(struct news){
            .kind = NEWS_SAVED, .conversation = ev->sequence, .done = ev->done, .total = ev->total, .text = text_of(ev->message),
        });
        break;
    case EV_FATAL:
        die(l, ev->message);
        break;
    default:
        local_event(l, ev);
    }
}

static void tell_event(struct local *l, const struct event *ev)
{
    l->telling = true;
    take_event(l, ev);
    l->telling = false;
}

/* Posts news of everything that has happened, to this responder's owner and to those of its guests. */
static void drain(struct responder *r)
{
    struct local *l = own(r);
    if (l->host)                        /* whose drain() reports for this one, too */
        return;
    take_tokenizer(l);
    if (l->dead)
        return;
    struct event_list list = l->source->ops->drain(l->source);
    for (int i = 0; i < list.n && !l->dead; i++) {
        tell_event(l, &list.events[i]);
        for (struct local *guest = l->guests; guest; guest = guest->next)
            tell_event(guest, &list.events[i]);
    }
    if (views_changed(&l->views)) {
        local_seen(l);
        for (struct local *guest = l->guests; guest; guest = guest->next)
            local_seen(guest);
    }
    if (l->source->note)
        tell_text(l, NEWS_NOTE, l->source->note);
    l->source->note = NULL;
    if (l->source->gone && !l->gone && l->base.instead)
        local_gone(l);
    else if (l->source->gone && !l->gone)
        die(l, "the q35chat that had loaded the model has ended");
}

/* Lists the file descriptors to poll; returns how many. */
static int fds(const struct responder *r, struct pollfd fds[RESPONDER_MAX_FDS])
{
    const struct local *l = own_const(r);
    int n = 0;
    if (!l->dead && !l->host)
        fds[n++] = (struct pollfd){.fd = l->source->ops->fd(l->source), .events = POLLIN};
    if (l->loader)
        fds[n++] = (struct pollfd){.fd = loader_fd(l->loader), .events = POLLIN};
    if (l->views.worker.step)
        fds[n++] = (struct pollfd){.fd = l->views.fd, .events = POLLIN};
    return n;
}

/* --- functions that hand on ----------------------------------------------------------------------------------------- */

static const struct model_info *info(const struct responder *r)
{
    return own_const(r)->known ? &own_const(r)->info : NULL;
}

static void machine(struct responder *r, struct machine_figures *m)
{
    own(r)->source->ops->machine(own(r)->source, m);
}

static void save(struct responder *r, uint64_t conversation, const char *path)
{
    own(r)->source->ops->save(own(r)->source, conversation, path);
}

static void restore(struct responder *r, uint64_t conversation, const char *path)
{
    own(r)->source->ops->restore(own(r)->source, conversation, path);
}

static void keep(struct responder *r, uint64_t conversation, const char *path)
{
    own(r)->source->ops->keep(own(r)->source, conversation, path);
}

static void encode(const struct responder *r, struct text t, bool controls, struct ids *out)
{
    tokenizer_encode(own_const(r)->tok, t.p ? t.p : "", t.n, controls, out);
}

/* Returns the number of tokens of a text. */
static int count(const struct responder *r, struct text t)
{
    struct ids ids = {0};
    encode(r, t, false, &ids);
    int n = ids.n;
    ids_free(&ids);
    return n;
}

static struct text piece(const struct responder *r, int32_t id)
{
    size_t n;
    const char *bytes = tokenizer_bytes(own_const(r)->tok, id, &n);
    return bytes ? (struct text){bytes, n} : text_of("");
}

/* --- open and close ------------------------------------------------------------------------------------------------- */

/* Reads the checkpoint's notice.txt, if it has one. */
static void read_notice(struct local *l)
{
    struct buf path = {0}, text = {0};
    buf_addf(&path, "%s/notice.txt", l->dir.data);
    if (file_read(&text, path.data, 4096, NULL))
        unicode_replace(&l->notice, buf_str(&text), text.len - (text.len && text.data[text.len - 1] == '\n'));
    if (l->notice.len)
        l->base.notice = l->notice.data;
    buf_free(&path);
    buf_free(&text);
}

/* Resolves links and dots in the path, if the directory exists. */
static void clean_path(struct buf *dir)
{
    char *real = realpath(dir->data, NULL);
    if (!real)
        return;
    buf_reset(dir);
    buf_adds(dir, real);
    free(real);
}

static const char *given(const struct options *o, enum option_id id)
{
    return *options_text(o, id) ? options_text(o, id) : NULL;
}

/* Takes a guest off its host's list. */
static void leave(struct local *l)
{
    struct local **at = &l->host->guests;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
}

/* Frees the responder; a guest leaves its host, a host closes the engine. */
static void close_local(struct responder *r)
{
    struct local *l = own(r);
    if (l->host) {
        local_interrupt(r);
        leave(l);
    } else {
        if (l->source)
            l->source->ops->close(l->source);
        loader_stop(l->loader);
    }
    local_free_answer(l);
    if (!l->host)
        tokenizer_close(l->tok);
    buf_free(&l->dir);
    buf_free(&l->notice);
    free(l);
}

static const struct responder_ops ops = {
    .request = local_request, .interrupt = local_interrupt, .end_thought = local_end_thought, .fds = fds, .drain = drain, .info = info,
    .machine = machine, .used = local_used, .count = count, .count_prompt = local_count_prompt, .encode = encode, .prompt = local_prompt,
    .compile = local_compile,    .look = local_look, .read_ahead = local_read_ahead, .save = save, .restore = restore, .keep = keep,
    .tokens = local_tokens, .says = local_says, .piece = piece, .check_biases = local_check_biases,
    .close = close_local,
};

/* Opens the engine with the options of the chat.  NULL with the reason. */
static struct source *load(struct local *l, const struct options *o, struct err *e)
{
    struct buf machine = {0}, moved = {0};
    const bool moves = !options_on(o, OPT_private) && paths_machine(&moved);
    buf_adds(&moved, "/moved");
    const struct engine_options eo = {
        .model_dir = l->dir.data,
        .weights_in = options_text(o, OPT_weights_in),
        .machine_dir = paths_machine(&machine) ? machine.data : NULL,
        .backend = given(o, OPT_backend),
        .kv = given(o, OPT_kv),
        .head = given(o, OPT_head),
        .mtp = given(o, OPT_mtp),
        .math = options_text(o, OPT_prompt_math),
        .no_vision = !options_on(o, OPT_vision),
        .picture_tokens = options_int(o, OPT_picture_tokens),
        .n_threads = options_int(o, OPT_threads),
        .n_ctx = options_int(o, OPT_ctx),
        .chunk = options_int(o, OPT_chunk),
        .draft_depth = options_drafts(o) ? -1 : 0,
        .n_sequences = options_int(o, OPT_conversations),
        .n_snapshots = options_int(o, OPT_snapshots),
        .moved_dir = moves ? moved.data : NULL,
        .moved_bytes = (size_t)options_int(o, OPT_moved_room) * 1000 * 1000 * 1000,
    };
    struct source *s = source_near(&eo, e);
    buf_free(&machine);
    buf_free(&moved);
    return s;
}

struct responder *local_guest(struct responder *first)
{
    struct local *host = own(first), *l = memory_zeroed(1, sizeof *l);
    l->base = (struct responder){.ops = &ops, .can = host->base.can, .model = host->base.model, .more_room = host->base.more_room,
                               .least_pixels = host->base.least_pixels, .most_pixels = host->base.most_pixels};
    l->base.can.read_ahead = l->base.can.keeps = false;
    l->source = host->source;
    l->tok = host->tok;
    l->known = host->known;
    l->ready = host->ready;
    l->dead = host->dead;
    l->info = host->info;
    l->pad = host->pad;
    l->host = host;
    l->next = host->guests;
    host->guests = l;
    return &l->base;
}

static struct local *local_new(void)
{
    struct local *l = memory_zeroed(1, sizeof *l);
    pthread_mutex_init(&l->made_lock, NULL);
    l->base = (struct responder){
        .ops = &ops, .can = {.logprobs = true, .begin_tokens = true, .end_thought = true, .read_ahead = true, .keeps = true},
        .more_room = "a larger --ctx holds more",
    };
    return l;
}

/* Starts to load the tokenizer.  picture_tokens: of a picture at most; 0: the usual number.  NULL, with the responder closed, if that fails or there
 * is no source of tokens. */
static struct responder *finish_open(struct local *l, int picture_tokens, struct err *e)
{
    struct image_limits limits;
    l->base.model = l->dir.data;
    if (!l->source || !(l->loader = loader_start(l->dir.data, l->source->ops->guides, e))) {
        close_local(&l->base);
        return NULL;
    }
    read_notice(l);
    /* set_sight() reports what is wrong */
    read_limits(l, l->dir.data, picture_tokens ? picture_tokens : USUAL_PICTURE_TOKENS, &limits, NULL);
    return &l->base;
}

struct responder *local_open(const struct options *o, struct err *e)
{
    struct local *l = local_new();
    l->base.can.idle = true;
    if (options_model_dir(o, &l->dir, e)) {
        clean_path(&l->dir);
        l->source = load(l, o, e);
    }
    return finish_open(l, options_int(o, OPT_picture_tokens), e);
}

struct responder *local_attach(const char *socket, const char *dir, bool with_note, struct err *e)
{
    struct local *l = local_new();
    l->with_note = with_note;
    buf_adds(&l->dir, dir);
    l->source = source_far(socket, e);
    return finish_open(l, 0, e);
}
