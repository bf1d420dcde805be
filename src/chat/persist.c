#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "chat/state.h"

/* A disk that fails must not end the talk: said once; persist_retry() writes it all when the disk takes it again. */
static void kept(struct chat *c, bool ok, const struct err *e)
{
    struct buf note = {0};
    if (ok)
        return;
    c->persist.unsaved = true;
    buf_addf(&note, "this conversation is not being saved: %s", e->msg);
    state_note(c, note.data);
    buf_free(&note);
}

bool persist_settled(struct chat *c)
{
    struct err e = {0};
    struct session *s = c->persist.session;
    const bool settled = !s || session_settled(s);
    if (s && !c->persist.unsaved)
        kept(c, session_check(s, &e), &e);
    return settled;
}

void persist_wait(struct chat *c)
{
    struct err e = {0};
    if (c->persist.session && !c->persist.unsaved)
        kept(c, session_wait(c->persist.session, &e), &e);
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
        kept(c, session_put(s, line, &e), &e);
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
    if (!s || (session_put(s, &lines, e) && (t != &c->t || keep_continued(c, s, e))))
        return s;
    unlink(session_path(s));
    session_close(s);
    return NULL;
}

/* Of the conversation under way.  A name that was given is for the first one. */
static struct session *own_session(struct chat *c, struct err *e)
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
        (c->persist.place == INSTEAD ? record_instead : c->persist.place == BESIDE ? record_beside : record_entry)(&line, m);
        put_record(c, &line);
    } else if (c->persist.wanted && !c->persist.session && !c->persist.unsaved) {
        c->persist.session = own_session(c, &e);
        kept(c, c->persist.session != NULL, &e);
    }
    c->persist.place = BEHIND;
}

void persist_instead(struct chat *c, const struct entry *old)
{
    transcript_go(&c->t, old);
    c->persist.place = transcript_can_forget(&c->t) ? INSTEAD : BESIDE;
    if (c->persist.place == INSTEAD)
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

static size_t same_beginning(const struct buf *now, struct text before)
{
    size_t n = 0, end = now->len < before.n ? now->len : before.n;
    while (n < end && now->data[n] == before.p[n])
        n++;
    while (n < end && n && ((unsigned char)now->data[n] & 0xc0) == 0x80)       /* not into the middle of a character */
        n--;
    return n;
}

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
    kept(c, session_part(s, &p, &e), &e);
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

void persist_mark(struct chat *c, struct entry *m, int file, enum mark mark)
{
    struct buf line = {0};
    entry_mark(m, file, mark);
    record_mark(&line, m, file);
    put_record(c, &line);
}

/* The file was written anew: of an answer under way it has what that began with, and gets the rest with the next drain. */
static void written_anew(struct chat *c)
{
    c->persist.unsaved = false;
    persist_begun(c);
    c->persist.part.due_ns = turn_answers(&c->turn) ? 1 : 0;
}

static bool rewrite(struct chat *c, struct err *e)
{
    return session_rewrite(c->persist.session, &c->t, e) && keep_continued(c, c->persist.session, e);
}

void persist_model(struct chat *c)
{
    struct err e = {0};
    if (c->persist.session && c->persist.early && session_model(c->persist.session, state_model(c)) && !c->persist.unsaved)
        kept(c, rewrite(c, &e), &e);
    c->persist.early = false;
}

bool persist_again(struct chat *c, struct err *e)
{
    bool written = c->persist.session ? rewrite(c, e) : (c->persist.session = own_session(c, e)) != NULL;
    if (written && session_wait(c->persist.session, e))
        written_anew(c);
    return !c->persist.unsaved;
}

void persist_moved(struct chat *c, struct session *s)
{
    session_close(c->persist.session);
    c->persist.session = s;
    c->persist.early = !state_ready(c);
    written_anew(c);
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
    struct buf note = {0};
    if (!c->persist.unsaved || !persist_again(c, NULL))
        return;
    buf_addf(&note, "this conversation is being saved again, in %s", session_path(c->persist.session));
    state_note(c, note.data);
    buf_free(&note);
}

void persist_title(struct chat *c, const char *title)
{
    struct buf line = {0};
    transcript_title(&c->t, title);
    record_title(&line, title);
    put_record(c, &line);
}
