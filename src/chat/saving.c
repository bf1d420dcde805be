#include "chat/saving.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "chat/forms.h"
#include "chat/state.h"
#include "session/kept.h"
#include "session/trash.h"

/* --- records ------------------------------------------------------------------------------------------------------- */

/* Reports once that the disk failed; persist_retry() writes everything when the disk works again. */
static void report_disk(struct chat *c, bool ok, const struct err *e)
{
    if (ok)
        return;
    c->persist.unsaved = true;
    state_note(c, "this conversation is not being saved: %s", e->msg);
}

bool persist_settled(struct chat *c)
{
    struct err e = {0};
    struct session *s = c->persist.session;
    const bool settled = !s || session_settled(s);
    if (s && !c->persist.unsaved)
        report_disk(c, session_check(s, &e), &e);
    return settled;
}

void persist_wait(struct chat *c)
{
    struct err e = {0};
    if (c->persist.session && !c->persist.unsaved)
        report_disk(c, session_wait(c->persist.session, &e), &e);
}

bool persist_can_leave(struct chat *c, struct err *e)
{
    if (c->turn.state != TURN_DEAD && !state_usable(c, e))
        return false;
    persist_wait(c);
    return !c->persist.unsaved || err_set(e, "this conversation could not be saved; /save PATH keeps it somewhere else");
}

/* Returns the file, if all earlier records are in it. */
static struct session *session_for_records(const struct chat *c)
{
    return c->persist.unsaved ? NULL : c->persist.session;
}

/* Appends a record, and frees it. */
static void put_record(struct chat *c, struct buf *line)
{
    struct err e = {0};
    struct session *s = session_for_records(c);
    if (s)
        report_disk(c, session_put(s, line, &e), &e);
    buf_free(line);
}

/* Moves the end of the path in the file to a stopped answer that is being continued: there the answer stays until there is more of it. */
static bool keep_continued(const struct chat *c, struct session *s, struct err *e)
{
    struct buf line = {0};
    if (!c->turn.continued)
        return true;
    record_go(&line, c->turn.continued->number);
    return session_put(s, &line, e);
}

struct session *persist_fresh(const struct chat *c, const struct transcript *t, const char *name, struct err *e)
{
    struct session *s = session_create(name, state_model(c), e);
    struct buf lines = {0};
    if (s)
        record_transcript(&lines, t);
    if (!s || (kept_write(session_path(s), t, e) && session_put(s, &lines, e) && (t != &c->t || keep_continued(c, s, e))))
        return s;
    kept_delete(session_path(s));
    unlink(session_path(s));
    session_close(s);
    buf_free(&lines);
    return NULL;
}

/* Creates the session file.  --save NAME applies to the first conversation only. */
static struct session *create_session(struct chat *c, struct err *e)
{
    struct session *s = persist_fresh(c, &c->t, c->persist.save_as, e);
    if (s)
        c->persist.save_as = NULL;
    c->persist.early = !state_ready(c);
    return s;
}

void persist_entry(struct chat *c, struct entry *m)
{
    struct err e = {0};
    struct buf line = {0};
    m->time_s = time(NULL);
    if (session_for_records(c)) {
        report_disk(c, kept_write_entry(session_path(c->persist.session), m, &e), &e);
        (c->persist.place == PLACE_INSTEAD ? record_instead : c->persist.place == PLACE_BESIDE ? record_beside : record_entry)(&line, m);
        put_record(c, &line);
    } else if (c->persist.wanted && !c->persist.session && !c->persist.unsaved) {
        c->persist.session = create_session(c, &e);
        report_disk(c, c->persist.session != NULL, &e);
    }
    c->persist.place = PLACE_NEXT;
}

void persist_instead(struct chat *c, const struct entry *old)
{
    transcript_go(&c->t, old);
    c->persist.place = transcript_can_forget(&c->t) ? PLACE_INSTEAD : PLACE_BESIDE;
    if (c->persist.place == PLACE_INSTEAD)
        transcript_forget(&c->t);
    else
        transcript_cut(&c->t, old->depth);
}

void persist_cut(struct chat *c, int n)
{
    struct buf line = {0};
    if (n == c->t.n)
        return;
    transcript_cut(&c->t, n);
    record_keep(&line, n);
    put_record(c, &line);
}

/* --- the answer under way ---------------------------------------------------------------------------------------- */

/* Returns the length of the common beginning of two texts, or of two lists of ids. */
static size_t same_beginning(const struct buf *now, struct text before)
{
    size_t n = 0, end = now->len < before.n ? now->len : before.n;
    while (n < end && now->data[n] == before.p[n])
        n++;
    while (n < end && n && ((unsigned char)now->data[n] & 0xc0) == 0x80)       /* not within a character */
        n--;
    return n;
}

/* Returns how many ids are the same from the beginning on. */
static int same_ids(const struct ids *now, const struct ids *before)
{
    int n = 0;
    while (n < now->n && n < before->n && now->data[n] == before->data[n])
        n++;
    return n;
}

void persist_begun(struct chat *c)
{
    const struct entry *m = c->turn.continued;
    c->persist.part = (struct persist_part){0};
    if (!m)
        return;
    c->persist.part.reasoning = same_beginning(&c->turn.answer.reasoning, m->m.reasoning);
    c->persist.part.content = same_beginning(&c->turn.answer.content, m->m.content);
    c->persist.part.ids = same_ids(&c->turn.answer.ids, &m->ids);
}

void persist_part(struct chat *c)
{
    enum { EVERY_MS = 500, BYTES = 4096 };
    struct persist_part *d = &c->persist.part;
    const struct answer *a = &c->turn.answer;
    struct session *s = session_for_records(c);
    struct err e = {0};
    size_t gained = turn_answers(&c->turn) && s && turn_is_kept(c->turn.kind) ? a->reasoning.len - d->reasoning + a->content.len - d->content : 0;
    if (!gained) {
        d->due_ns = 0;
        return;
    }
    if (!d->due_ns)
        d->due_ns = clock_ns() + (int64_t)EVERY_MS * 1000000;
    if (gained < BYTES && clock_ns() < d->due_ns)
        return;
    struct answer_part p = {
        .reasoning_at = d->reasoning, .content_at = d->content, .ids_at = d->ids, .time_s = time(NULL),
        .reasoning = {a->reasoning.data + d->reasoning, a->reasoning.len - d->reasoning},
        .content = {a->content.data + d->content, a->content.len - d->content},
        .ids = a->ids.n ? a->ids.data + d->ids : NULL, .n_ids = a->ids.n - d->ids,
    };
    report_disk(c, session_part(s, &p, &e), &e);
    *d = (struct persist_part){.reasoning = a->reasoning.len, .content = a->content.len, .ids = a->ids.n};
}

/* --- the path ------------------------------------------------------------------------------------------------------ */

void persist_go(struct chat *c, const struct entry *end)
{
    struct buf line = {0};
    if (!end) {
        persist_cut(c, 0);
        return;
    }
    transcript_go(&c->t, end);
    record_go(&line, end->number);
    put_record(c, &line);
}

void persist_forget(struct chat *c)
{
    struct buf line = {0};
    if (!transcript_can_forget(&c->t)) {
        persist_cut(c, c->t.n - 1);
        return;
    }
    transcript_forget(&c->t);
    record_forget(&line, c->t.n);
    put_record(c, &line);
}

void persist_system(struct chat *c)
{
    const char *wanted = options_text(c->o, OPT_system), *have = c->t.system ? c->t.system : "";
    struct buf line = {0};
    if (!strcmp(wanted, have))
        return;
    transcript_system(&c->t, wanted);
    record_system(&line, wanted);
    put_record(c, &line);
}

void persist_form(struct chat *c)
{
    struct buf wanted = {0}, line = {0};
    forms_describe(c->o, &wanted);
    if (strcmp(buf_str(&wanted), c->t.form ? c->t.form : "")) {
        transcript_form(&c->t, buf_str(&wanted));
        record_form(&line, buf_str(&wanted));
        put_record(c, &line);
    }
    buf_free(&wanted);
}

void persist_mark(struct chat *c, struct entry *m, int file, enum mark mark)
{
    struct buf line = {0};
    entry_mark(m, file, mark);
    record_mark(&line, m, file);
    put_record(c, &line);
}

/* Notes that the whole file was written.  It has the beginning of an answer under way; the next drain writes the rest. */
static void all_written(struct chat *c)
{
    c->persist.unsaved = false;
    persist_begun(c);
    c->persist.part.due_ns = turn_answers(&c->turn) ? 1 : 0;
}

static bool rewrite_session(struct chat *c, struct err *e)
{
    struct session *s = c->persist.session;
    return kept_write(session_path(s), &c->t, e) && session_rewrite(s, &c->t, e) && keep_continued(c, s, e);
}

void persist_model(struct chat *c)
{
    struct err e = {0};
    if (c->persist.session && c->persist.early && session_model(c->persist.session, state_model(c)) && !c->persist.unsaved)
        report_disk(c, rewrite_session(c, &e), &e);
    c->persist.early = false;
}

/* Writes the whole file after a failure.  False if writing still fails. */
static bool write_again(struct chat *c, struct err *e)
{
    bool written = c->persist.session ? rewrite_session(c, e) : (c->persist.session = create_session(c, e)) != NULL;
    if (written && session_wait(c->persist.session, e))
        all_written(c);
    return !c->persist.unsaved;
}

/* Changes to another file, which has all of the conversation. */
static void moved(struct chat *c, struct session *s)
{
    session_close(c->persist.session);
    c->persist.session = s;
    c->persist.early = !state_ready(c);
    all_written(c);
}

void persist_replace(struct chat *c, struct transcript *t, struct session *s)
{
    transcript_free(&c->t);
    c->t = *t;
    c->edit = (struct edit){0};
    session_close(c->persist.session);
    c->persist.session = s;
    c->persist.early = c->persist.unsaved = false;
}

void persist_retry(struct chat *c)
{
    if (c->persist.unsaved && write_again(c, NULL))
        state_note(c, "this conversation is being saved again, in %s", session_path(c->persist.session));
}

void persist_title(struct chat *c, const char *title)
{
    struct buf line = {0};
    transcript_title(&c->t, title);
    record_title(&line, title);
    put_record(c, &line);
}

bool chat_unsaved(const struct chat *c)
{
    return c->persist.unsaved;
}

bool chat_keep(struct chat *c, struct err *e)
{
    struct err why = {0};
    persist_wait(c);
    if (!c->persist.unsaved || write_again(c, &why))
        return true;
    return c->persist.session ? err_set(e, "messages since the disk failed are not saved: %s", why.msg)
                      : err_set(e, "this conversation is not saved: %s", why.msg);
}

bool chat_may_quit(struct chat *c, struct err *e)
{
    struct err why = {0};
    if (chat_keep(c, &why) || c->persist.warned)
        return true;
    c->persist.warned = true;
    return err_set(e, "/save PATH keeps this conversation somewhere else, /quit again leaves without it; %s", why.msg);
}

bool chat_save(struct chat *c, const char *name, struct err *e)
{
    struct session *s = persist_fresh(c, &c->t, name, e);
    if (s)
        moved(c, s);
    return s != NULL;
}

const char *chat_saved_as(const struct chat *c)
{
    return c->persist.session ? session_path(c->persist.session) : NULL;
}

/* --- the checkpoint ------------------------------------------------------------------------------------------------ */

/* True if this conversation has checkpoints. */
static bool has_checkpoint(const struct chat *c)
{
    return c->responder->can.keeps && options_on(c->o, OPT_checkpoint) && options_int(c->o, OPT_checkpoint_room) > 0;
}

/* Requests something for the checkpoint of this session file. */
static void request_checkpoint(struct chat *c, void (*what)(struct responder *r, uint64_t conversation, const char *path), const char *file)
{
    struct buf path = {0};
    session_checkpoint(file, &path);
    c->checkpoint.conversation = state_conversation(c);
    what(c->responder, c->checkpoint.conversation, path.data);
    buf_free(&path);
}

void checkpointer_load(struct chat *c, const char *path)
{
    c->checkpoint.bytes = 0;
    c->checkpoint.home = 0;
    if (!has_checkpoint(c))
        return;
    request_checkpoint(c, c->responder->ops->restore, path);
    checkpointer_turn(c);
    c->checkpoint.due = true;                 /* if nothing is restored, it is computed while no turn is under way */
}

void checkpointer_turn(struct chat *c)
{
    const uint64_t conversation = state_conversation(c), home = has_checkpoint(c) ? conversation : 0;
    if (!conversation || !c->responder->can.keeps || c->checkpoint.home == home)
        return;
    if (home)
        request_checkpoint(c, c->responder->ops->keep, session_path(c->persist.session));
    else
        c->responder->ops->keep(c->responder, conversation, NULL);
    c->checkpoint.home = home;
}

void checkpointer_due(struct chat *c)
{
    c->checkpoint.due = true;
}

/* Has the responder write its checkpoint of this conversation, if it keeps any. */
static void save_checkpoint(struct chat *c)
{
    c->checkpoint.due = false;
    if (!c->persist.session || !has_checkpoint(c))
        return;
    c->checkpoint.asked = true;
    request_checkpoint(c, c->responder->ops->save, session_path(c->persist.session));
}

void checkpointer_step(struct chat *c)
{
    if (c->checkpoint.due && state_ready(c) && c->turn.state == TURN_IDLE)
        save_checkpoint(c);
}

void checkpointer_end(struct chat *c)
{
    if (state_ready(c) && c->turn.state != TURN_DEAD && (c->checkpoint.due || c->turn.state != TURN_IDLE))
        save_checkpoint(c);
}

/* Deletes checkpoints of older conversations if there is no room for all, and this one if it is too large alone. */
static void make_room(struct chat *c)
{
    struct buf own = {0};
    const size_t gb = 1000 * 1000 * 1000, room = (size_t)options_int(c->o, OPT_checkpoint_room) * gb;
    session_checkpoint(session_path(c->persist.session), &own);
    if (!trash_trim(room, own.data) && !c->checkpoint.reported) {
        state_note(c, "the checkpoint of this conversation has %.1f GB, more than the %d GB of checkpoint_room: it is not kept, and a resume will "
                      "compute it again", (double)c->checkpoint.bytes / (double)gb, options_int(c->o, OPT_checkpoint_room));
        c->checkpoint.reported = true;
    }
    buf_free(&own);
}

/* The responder has saved the checkpoint, or could not. */
static void on_saved(struct chat *c, const struct news *it)
{
    c->checkpoint.asked = false;
    c->checkpoint.written += it->done;
    c->checkpoint.bytes = it->total;
    if (!it->text.n) {
        c->checkpoint.reported = false;
        if (c->persist.session)
            make_room(c);
    } else if (!c->checkpoint.reported) {
        state_note(c, "the checkpoint of this conversation is not kept: %s; a resume will compute it again", it->text.p);
        c->checkpoint.reported = true;
    }
}

/* The responder has restored the checkpoint, or could not. */
static void on_restored(struct chat *c, const struct news *it)
{
    c->checkpoint.restored = (int)it->done;
    if (it->text.n)
        state_note(c, "%s; the conversation is computed again", it->text.p);
}

void checkpointer_news(struct chat *c, const struct news *it)
{
    if (it->conversation == c->checkpoint.conversation)
        (it->kind == NEWS_SAVED ? on_saved : on_restored)(c, it);
}

void chat_checkpoint(const struct chat *c, struct chat_checkpoint *k)
{
    *k = (struct chat_checkpoint){
        .on = has_checkpoint(c) && c->persist.session, .bytes = c->checkpoint.bytes, .written = c->checkpoint.written,
        .restored = c->checkpoint.restored,
    };
}
