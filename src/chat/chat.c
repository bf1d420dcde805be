#include "chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "chat/calls.h"
#include "chat/files.h"
#include "chat/shelf.h"
#include "chat/state.h"
#include "chat/thumbs.h"
#include "chat/titler.h"
#include "option/preset.h"

/* Replaces a responder that is gone; the turn that needs the new one waits until it is ready. */
static void replace_responder(struct chat *c)
{
    struct err e = {0};
    struct responder *old = c->responder, *made = old->instead(c->o, old->ops->info(old) != NULL, &e);
    if (!made) {
        turn_fail(c, e.msg);
        return;
    }
    c->presence = RESPONDER_OPENS;
    made->fn = turn_news;
    made->arg = c;
    c->responder = made;
    old->ops->close(old);
    if (c->persist.session)
        checkpointer_load(c, session_path(c->persist.session));
}

static bool needs_another(const struct chat *c)
{
    return c->presence == RESPONDER_GONE && c->turn.state == TURN_WAITING;
}

const struct chat_event *chat_drain(struct chat *c, int *n)
{
    if (c->persist.part.due_ns)              /* before new text is shown */
        persist_part(c);
    c->responder->ops->drain(c->responder);
    if (needs_another(c))
        replace_responder(c);
    if (turn_answers(&c->turn)) {
        turn_show(c);
        persist_part(c);
    }
    if (c->turn.state == TURN_RUNNING || c->turn.state == TURN_STOPPING) {
        calls_step(c);
        turn_after_calls(c);
    }
    if (c->draft.shelf && shelf_changed(c->draft.shelf))
        ahead_files(c);
    if (c->parts.thumbs && thumbs_changed(c->parts.thumbs))
        outbox_post(&c->out, CHAT_THUMB, NULL, NULL, 0);
    ahead_step(c);
    if (persist_settled(c))                 /* a checkpoint is useless without its session on disk */
        checkpointer_step(c);
    titler_step(c);
    return outbox_take(&c->out, n);
}

int chat_fds(const struct chat *c, struct pollfd fds[CHAT_MAX_FDS])
{
    int n = c->responder->ops->fds(c->responder, fds);
    if (c->calls.run)
        n += tool_fds(c->calls.run, fds + n);
    if (c->persist.session && session_fd(c->persist.session) >= 0)
        fds[n++] = (struct pollfd){.fd = session_fd(c->persist.session), .events = POLLIN};
    if (c->draft.shelf)
        fds[n++] = (struct pollfd){.fd = shelf_fd(c->draft.shelf), .events = POLLIN};
    if (c->parts.thumbs)
        fds[n++] = (struct pollfd){.fd = thumbs_fd(c->parts.thumbs), .events = POLLIN};
    return n;
}

/* Returns the earlier of two timeouts as poll() takes them, in which a negative one never ends. */
static int sooner(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

int chat_timeout(const struct chat *c)
{
    if (outbox_waiting(&c->out) || needs_another(c))
        return 0;
    if (c->calls.run)
        return tool_timeout(c->calls.run);
    if (!c->persist.part.due_ns)
        return sooner(ahead_timeout(c), titler_timeout(c));
    int64_t left = (c->persist.part.due_ns - clock_ns()) / 1000000 + 1;
    return left > 0 ? (int)left : 0;
}

void chat_wait(const struct chat *c, int fd, int timeout_ms)
{
    struct pollfd fds[CHAT_MAX_FDS + 1];
    int n = chat_fds(c, fds), own = chat_timeout(c);
    if (fd >= 0)
        fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    if (timeout_ms < 0 || (own >= 0 && own < timeout_ms))
        timeout_ms = own;
    poll(fds, (nfds_t)n, timeout_ms);   /* an interrupted sleep is as good as one that ended */
}

/* --- messages --------------------------------------------------------------------------------------------------- */

bool chat_busy(const struct chat *c)
{
    return c->turn.state != TURN_IDLE && c->turn.state != TURN_DEAD;
}

bool chat_has_screen(const struct chat *c)
{
    return c->front.screen;
}

bool chat_ready(const struct chat *c)
{
    return state_ready(c);
}

/* Returns whether the files fit into the free context.  Files that take more than half of it are sent only if the user repeats the message; files
 * that are counted, not estimated, and take more than all of it are refused, as the engine would refuse them. */
enum room { ROOM_ENOUGH, ROOM_TIGHT, ROOM_NONE };
static enum room room_for_files(struct chat *c, const struct attached *files, struct err *e)
{
    long tokens = 0, left = c->info.n_ctx - chat_context_used(c).tokens;
    bool counted = true;
    for (int i = 0; i < files->n; i++) {
        tokens += context_file_tokens(c, &files->files[i]);
        counted = counted && context_counts(c, &files->files[i]);
    }
    if (!c->info.n_ctx || !tokens || 2 * tokens <= left)
        return ROOM_ENOUGH;
    bool none = counted && tokens > left;
    struct buf text = {0};
    buf_addf(&text, "%s%s %ld tokens; only %ld still fit", files->files[0].path.p, files->n > 1 ? " and the others have" : " has", tokens,
             left > 0 ? left : 0);
    if (none)
        turn_advise(c, &text);
    err_set(e, "%s", buf_str(&text));
    buf_free(&text);
    return none ? ROOM_NONE : ROOM_TIGHT;
}

/* Reads the files that a message names.  A word that names no file, or a file that fills the context, may be a slip: such a message is refused once,
 * and sent when it is repeated. */
static bool read_files(struct chat *c, const struct buf *text, struct attached *files, struct err *e)
{
    struct err why = {0};
    bool again = text->len == c->draft.doubted.len && !memcmp(buf_str(text), buf_str(&c->draft.doubted), text->len);
    int doubt = again ? (int)c->draft.doubt : NO_DOUBT;
    enum room room = ROOM_ENOUGH;
    if (!c->front.attaches)
        return true;
    files->pdf = files_pdf_as(c);
    files->shelf = c->draft.shelf;
    files->take = shelf_take;
    if (chat_awaits_files(c, buf_str(text), text->len))
        return err_set(e, "the files of the message are still being read");
    c->draft.doubt = NO_DOUBT;
    if (!attach_read(files, buf_str(text), text->len, doubt >= DOUBTS_FILES, &why))
        c->draft.doubt = DOUBTS_FILES;
    else if ((room = room_for_files(c, files, &why)) == ROOM_TIGHT && doubt < DOUBTS_SIZE)
        c->draft.doubt = DOUBTS_SIZE;
    buf_reset(&c->draft.doubted);
    if (room == ROOM_NONE)
        return err_set(e, "%s", why.msg);
    if (!c->draft.doubt)
        return true;
    buf_add(&c->draft.doubted, buf_str(text), text->len);
    return err_set(e, "%s; not sent; press Enter again to send it %s", why.msg, c->draft.doubt == DOUBTS_SIZE ? "anyway" : "without the file");
}

bool chat_recall(struct chat *c, const char *role, const char *text, size_t n, struct err *e)
{
    struct buf clean = {0};
    if (!state_usable(c, e))
        return false;
    unicode_replace(&clean, text, n);
    persist_entry(c, transcript_add(&c->t, strcmp(role, "user") ? ROLE_ASSISTANT : ROLE_USER, buf_str(&clean), clean.len));
    buf_free(&clean);
    return true;
}

bool chat_submit(struct chat *c, const char *text, size_t n, struct err *e)
{
    struct buf clean = {0};
    if (!state_usable(c, e))
        return false;
    struct attached files = c->draft.attached;
    c->draft.attached = (struct attached){0};
    unicode_replace(&clean, text, n);
    bool ok = read_files(c, &clean, &files, e) && files_seen(c, &files, e);
    if (ok) {
        c->edit.replaced = branch_replace(c);
        persist_system(c);
        struct entry *m = transcript_add(&c->t, ROLE_USER, buf_str(&clean), clean.len);
        for (int i = 0; i < files.n; i++)
            entry_attach(m, &files.files[i]);
        persist_entry(c, m);
        turn_begin(c, TURN_SUBMITTED);
    }
    buf_free(&clean);
    attach_free(&files);
    return ok;
}

/* Answers the last message of the user again. */
static bool answer_again(struct chat *c, const uint64_t *seed, const struct entry *replays, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    int last = transcript_last_user(&c->t);
    if (last < 0)
        return err_set(e, "no message to answer yet");
    if (c->t.entries[last]->summary)
        return err_set(e, "the last message is a summary; /undo reverts it");
    persist_cut(c, last + 1);
    c->turn.prefix.seeded = seed != NULL;
    c->turn.prefix.seed = seed ? *seed : 0;
    c->turn.replays = replays;
    turn_begin(c, TURN_AGAIN);
    return true;
}

bool chat_regenerate(struct chat *c, struct err *e)
{
    return answer_again(c, NULL, NULL, e);
}

bool chat_regenerate_seed(struct chat *c, uint64_t seed, struct err *e)
{
    return answer_again(c, &seed, NULL, e);
}

bool chat_replay(struct chat *c, struct err *e)
{
    int i = transcript_last_user(&c->t) + 1;
    const struct entry *m = i > 0 && i < c->t.n ? c->t.entries[i] : NULL;
    if (!state_usable(c, e))
        return false;
    if (!m)
        return err_set(e, "no answer to repeat");
    if (!m->made.n || !m->made.seeded)
        return err_set(e, "the seed of the last answer is not known; /regen SEED uses one that you give");
    return answer_again(c, &m->made.seed, m, e);
}

void chat_interrupt(struct chat *c)
{
    turn_stop(c);
}

bool chat_new(struct chat *c, struct err *e)
{
    if (!persist_can_leave(c, e))
        return false;
    titler_leave(c);
    transcript_clear(&c->t);
    c->edit = (struct edit){0};
    attach_free(&c->draft.attached);
    session_close(c->persist.session);
    c->persist.session = NULL;
    c->turn.stats = (struct stats){.ctx_total = c->info.n_ctx};
    return true;
}

bool chat_aside(struct chat *c, const char *question, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    if (!state_ready(c))
        return err_set(e, "the model is not there yet");
    if (!*question)
        return err_set(e, "/aside needs a question");
    if (files_named(question))
        return err_set(e, "an aside takes no files: send them with a message");
    struct buf text = {0};
    unicode_replace(&text, question, strlen(question));
    transcript_free(&c->aside);
    transcript_add(&c->aside, ROLE_USER, buf_str(&text), text.len);
    buf_free(&text);
    turn_begin(c, TURN_ASIDE);
    return true;
}

bool chat_compact(struct chat *c, const char *hint, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    if (!state_ready(c))
        return err_set(e, "the model is not loaded yet");
    if (!summary_request(c, hint, e))
        return false;
    turn_begin(c, TURN_SUMMARY);
    return true;
}

bool chat_check_bias(const struct chat *c, const char *item, struct err *e)
{
    const struct responder_ops *ops = c->responder->ops;
    return !*item || !state_ready(c) || !ops->check_biases || !bias_check(item, &(struct err){{0}}) || ops->check_biases(c->responder, &item, 1, e);
}

bool chat_offer_tools(struct chat *c, const char *list, struct err *e)
{
    if (c->turn.state != TURN_DEAD && !state_usable(c, e))
        return false;
    return tools_offer(c->calls.tools, strcmp(list, "auto") ? list : c->front.tools, e) && options_set(c->o, OPT_tools, list, FROM_SET, e);
}

bool chat_set_approval(struct chat *c, const char *who, struct err *e)
{
    return tools_check_policy(c->calls.tools, who, e) && options_set(c->o, OPT_tools_approve, who, FROM_SET, e);
}

void chat_describe_sampling(const struct chat *c, struct buf *out)
{
    preset_describe(c->o, c->responder->ops->info(c->responder), out);
}

void chat_explain(const struct chat *c, enum option_id id, struct buf *out)
{
    preset_explain(c->o, c->responder->ops->info(c->responder), id, out);
}

void chat_sampling_name(const struct chat *c, struct buf *out)
{
    preset_name(c->o, c->responder->ops->info(c->responder), out);
}

void chat_list_tools(const struct chat *c, struct buf *out)
{
    tools_list(c->calls.tools, out);
}

/* --- open and close --------------------------------------------------------------------------------------------- */

struct chat *chat_open(struct responder *r, struct options *o, const struct chat_front *front, struct err *e)
{
    if (!r)
        return NULL;
    struct chat *c = memory_zeroed(1, sizeof *c);
    c->o = o;
    c->front = *front;
    c->persist.save_as = options_name(o, OPT_save);
    c->persist.wanted = (front->keeps || c->persist.save_as) && !options_off(o, OPT_save) && !options_on(o, OPT_private);
    c->responder = r;
    r->fn = turn_news;
    r->arg = c;
    c->calls.tools = tools_open(o, e);
    const char *list = options_text(o, OPT_tools);
    if (!c->calls.tools || !tools_offer(c->calls.tools, strcmp(list, "auto") ? list : front->tools, e)
        || !tools_check_policy(c->calls.tools, options_text(o, OPT_tools_approve), e)) {
        chat_close(c);
        return NULL;
    }
    return c;
}

void chat_close(struct chat *c)
{
    if (!c)
        return;
    tool_close(c->calls.run);
    persist_wait(c);
    persist_retry(c);
    checkpointer_end(c);
    session_close(c->persist.session);          /* the next program need not wait until the model has ended */
    c->responder->ops->close(c->responder);
    transcript_free(&c->t);
    buf_free(&c->title.shown);
    buf_free(&c->title.written);
    free(c->parts.all);
    answer_free(&c->turn.answer);
    arena_free(&c->turn.asked);
    tokens_free(&c->turn.prefix);
    buf_free(&c->turn.refill);
    tools_close(c->calls.tools);
    outbox_free(&c->out);
    buf_free(&c->calls.always);
    attach_free(&c->draft.attached);
    shelf_close(c->draft.shelf);
    thumbs_close(c->parts.thumbs);
    buf_free(&c->calls.edited);
    buf_free(&c->draft.doubted);
    buf_free(&c->persist.doomed);
    buf_free(&c->summary.request);
    buf_free(&c->summary.text);
    transcript_free(&c->aside);
    buf_free(&c->ahead.draft);
    buf_free(&c->ahead.read);
    free(c);
}

void chat_machine(const struct chat *c, struct machine_figures *m)
{
    *m = (struct machine_figures){0};
    if (c->responder->ops->machine)
        c->responder->ops->machine(c->responder, m);
}

/* --- a server with several models ------------------------------------------------------------------------------- */

int chat_models(const struct chat *c, const char *const **names)
{
    return c->responder->can.choose ? c->responder->ops->models(c->responder, names) : 0;
}

const char *chat_model_meant(const struct chat *c, const char *word)
{
    const char *const *names;
    char *end;
    int n = chat_models(c, &names);
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], word))
            return names[i];
    long number = strtol(word, &end, 10);
    return !*end && number >= 1 && number <= n ? names[number - 1] : NULL;
}

/* True if the model may be changed now. */
static bool may_choose(struct chat *c, struct err *e)
{
    if (c->turn.state == TURN_DEAD)
        return state_usable(c, e);
    if (!c->responder->can.choose)
        return err_set(e, "the model of this chat is chosen when it starts: q35chat --model NAME");
    if (c->turn.state != TURN_IDLE && c->turn.state != TURN_WAITING)
        return err_set(e, "the last message is still being answered; Ctrl-C stops it");
    if (titler_stop(c))
        return err_set(e, "the model was just writing a title, which is stopped now: try again");
    return c->presence != RESPONDER_OPENS || err_set(e, "the server has not sent its list of models yet");
}

bool chat_choose_model(struct chat *c, const char *name, struct err *e)
{
    if (!may_choose(c, e))
        return false;
    c->presence = RESPONDER_OPENS;
    c->responder->ops->choose(c->responder, name);
    return true;
}

bool chat_list_models(struct chat *c, struct err *e)
{
    bool ok = may_choose(c, e);
    if (ok)
        c->responder->ops->choose(c->responder, "");
    return ok;
}

int chat_others(const struct chat *c)
{
    return c->responder->ops->others ? c->responder->ops->others(c->responder) : 0;
}

const struct model_info *chat_info(const struct chat *c)
{
    return state_ready(c) ? &c->info : NULL;
}

const char *chat_model_dir(const struct chat *c)
{
    return c->responder->model;
}

const char *chat_held_with(const struct chat *c)
{
    return state_model(c);
}

const char *chat_notice(const struct chat *c)
{
    return c->responder->notice;
}

int chat_n_messages(const struct chat *c)
{
    return c->t.n;
}

const struct stats *chat_last_stats(const struct chat *c)
{
    return &c->turn.stats;
}

struct chat_message chat_message(const struct chat *c, int i)
{
    const struct entry *m = c->t.entries[i];
    return (struct chat_message){
        .role = state_role(m),
        .text = m->m.content.p ? m->m.content.p : "",
        .reasoning = m->m.reasoning.p ? m->m.reasoning.p : "",
        .name = m->tool.p ? m->tool.p : "",
        .time_s = m->time_s,
        .n_calls = m->m.n_calls,
        .stopped = m->stopped,
    };
}

struct chat_call chat_message_call(const struct chat *c, int i, int k)
{
    const struct call *call = &c->t.entries[i]->m.calls[k];
    return (struct chat_call){call->name.p, call->arguments.p};
}
