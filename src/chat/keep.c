#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "chat/sessions.h"
#include "chat/state.h"
#include "chat/title.h"
#include "chat/trash.h"

/* A disk that fails must not end the talk: said once; keep_retry() writes it all when the disk takes it again. */
static void kept(struct chat *c, bool ok, const struct err *e)
{
    struct buf note = {0};
    if (ok)
        return;
    c->unsaved = true;
    buf_addf(&note, "this conversation is not being saved: %s", e->msg);
    round_post(c, CHAT_NOTE, note.data);
    buf_free(&note);
}

/* Records go to the file one by one as long as every one of them got there. */
static struct session *session_for_records(const struct chat *c)
{
    return c->unsaved ? NULL : c->session;
}

static struct session *fresh_session(struct chat *c, const char *name, struct err *e)
{
    struct session *s = session_create(name, c->responder->model, e);
    if (!s || session_add(s, &c->t, e))
        return s;
    unlink(session_path(s));
    session_close(s);
    return NULL;
}

/* Of the conversation under way.  A name that was given is for the first one. */
static struct session *own_session(struct chat *c, struct err *e)
{
    struct session *s = fresh_session(c, c->save_as, e);
    if (s)
        c->save_as = NULL;
    return s;
}

void keep_entry(struct chat *c, const struct entry *m)
{
    struct err e = {0};
    struct session *s = session_for_records(c);
    if (s) {
        kept(c, (c->place == INSTEAD ? session_replace : c->place == BESIDE ? session_beside : session_append)(s, m, &e), &e);
    } else if (c->keep && !c->session && !c->unsaved) {
        c->session = own_session(c, &e);
        kept(c, c->session != NULL, &e);
    }
    c->place = BEHIND;
}

void keep_instead(struct chat *c, const struct entry *old)
{
    transcript_go(&c->t, old);
    c->place = transcript_can_forget(&c->t) ? INSTEAD : BESIDE;
    if (c->place == INSTEAD)
        transcript_forget(&c->t);
    else
        transcript_cut(&c->t, old->depth);
}

void keep_cut(struct chat *c, int n)
{
    struct err e = {0};
    struct session *s = session_for_records(c);
    if (n == c->t.n)
        return;
    transcript_cut(&c->t, n);
    if (s)
        kept(c, session_keep(s, n, &e), &e);
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

void keep_begun(struct chat *c)
{
    const struct entry *m = c->continued;
    c->on_disk = (struct on_disk){0};
    if (!m)
        return;
    c->on_disk.reasoning = same_beginning(&c->answer.reasoning, m->m.reasoning);
    c->on_disk.content = same_beginning(&c->answer.content, m->m.content);
    c->on_disk.ids = same_ids(&c->answer.ids, &m->ids);
}

void keep_part(struct chat *c)
{
    enum { EVERY_MS = 500, BYTES = 4096 };
    struct on_disk *d = &c->on_disk;
    const struct answer *a = &c->answer;
    struct session *s = session_for_records(c);
    struct err e = {0};
    size_t gained = c->state == ANSWERING && s && !c->compact.on ? a->reasoning.len - d->reasoning + a->content.len - d->content : 0;
    if (!gained) {
        d->due_ns = 0;
        return;
    }
    if (!d->due_ns)
        d->due_ns = clock_ns() + (int64_t)EVERY_MS * 1000000;
    if (gained < BYTES && clock_ns() < d->due_ns)
        return;
    struct answer_part p = {
        .reasoning_at = d->reasoning, .content_at = d->content, .ids_at = d->ids,
        .reasoning = {a->reasoning.data + d->reasoning, a->reasoning.len - d->reasoning},
        .content = {a->content.data + d->content, a->content.len - d->content},
        .ids = a->ids.data + d->ids, .n_ids = a->ids.n - d->ids,
    };
    kept(c, session_part(s, &p, &e), &e);
    *d = (struct on_disk){.reasoning = a->reasoning.len, .content = a->content.len, .ids = a->ids.n};
}

/* --- the path ------------------------------------------------------------------------------------------------------ */

void keep_go(struct chat *c, const struct entry *end)
{
    struct err e = {0};
    struct session *s = session_for_records(c);
    if (!end) {
        keep_cut(c, 0);
        return;
    }
    transcript_go(&c->t, end);
    if (s)
        kept(c, session_go(s, end->number, &e), &e);
}

void keep_forget(struct chat *c)
{
    struct err e = {0};
    struct session *s = session_for_records(c);
    if (!transcript_can_forget(&c->t)) {
        keep_cut(c, c->t.n - 1);
        return;
    }
    transcript_forget(&c->t);
    if (s)
        kept(c, session_forget(s, c->t.n, &e), &e);
}

void keep_system(struct chat *c)
{
    const char *wanted = options_text(c->o, OPT_system), *have = c->t.system ? c->t.system : "";
    struct err e = {0};
    struct session *s = session_for_records(c);
    if (!strcmp(wanted, have))
        return;
    transcript_system(&c->t, wanted);
    if (s)
        kept(c, session_system(s, wanted, &e), &e);
}

void keep_mark(struct chat *c, struct entry *m, int file, enum mark mark)
{
    struct err e = {0};
    struct session *s = session_for_records(c);
    entry_mark(m, file, mark);
    if (s)
        kept(c, session_mark(s, m, file, &e), &e);
}

/* The file was written anew: of an answer under way it has nothing, and gets it with the next drain. */
static void written_anew(struct chat *c)
{
    c->unsaved = false;
    c->on_disk = (struct on_disk){.due_ns = c->state == ANSWERING ? 1 : 0};
}

static bool retry(struct chat *c, struct err *e)
{
    if (c->session ? session_rewrite(c->session, &c->t, e) : (c->session = own_session(c, e)) != NULL)
        written_anew(c);
    return !c->unsaved;
}

void keep_retry(struct chat *c)
{
    struct buf note = {0};
    if (!c->unsaved || !retry(c, NULL))
        return;
    buf_addf(&note, "this conversation is saved again, in %s", session_path(c->session));
    round_post(c, CHAT_NOTE, note.data);
    buf_free(&note);
}

bool chat_unsaved(const struct chat *c)
{
    return c->unsaved;
}

bool chat_keep(struct chat *c, struct err *e)
{
    struct err why = {0};
    if (!c->unsaved || retry(c, &why))
        return true;
    return c->session ? err_set(e, "what was said since the disk failed is not saved: %s", why.msg)
                      : err_set(e, "this conversation is not saved: %s", why.msg);
}

bool chat_may_quit(struct chat *c, struct err *e)
{
    struct err why = {0};
    if (chat_keep(c, &why) || c->warned)
        return true;
    c->warned = true;
    return err_set(e, "/save PATH keeps this conversation somewhere else, /quit again leaves without it; %s", why.msg);
}

bool chat_save(struct chat *c, const char *name, struct err *e)
{
    struct session *s = fresh_session(c, name, e);
    if (!s)
        return false;
    session_close(c->session);
    c->session = s;
    written_anew(c);
    return true;
}

/* What one comes back to, if that is no whole answer. */
static void tell_rest(const struct chat *c, struct buf *note)
{
    static const struct { const char *is, *does; } told[] = {
        [CHAT_STOPPED] = {"the last answer was stopped before its end", "goes on with it"},
        [CHAT_CUT] = {"the last answer breaks off, because the program ended in the middle of it", "goes on with it"},
        [CHAT_UNANSWERED] = {"the last message has no answer yet", "answers it"},
        [CHAT_UNRUN] = {"the tools that the last answer called have not all answered", "asks the model again"},
    };
    enum chat_rest rest = chat_rest(c);
    if (rest == CHAT_WHOLE)
        return;
    buf_addf(note, "%s%s", note->len ? "; " : "", told[rest].is);
    if (c->front.can_ask)
        buf_addf(note, ": /continue%s %s", c->front.enter_continues ? ", or Enter on an empty draft," : "", told[rest].does);
}

bool chat_load(struct chat *c, const char *name, struct buf *note, struct err *e)
{
    struct transcript t = {0};
    if (!chat_can_leave(c, e))
        return false;
    struct buf path = {0};
    bool same = c->session && session_path_of(name, &path, NULL) && !strcmp(path.data, session_path(c->session));
    buf_free(&path);
    if (same)
        return err_set(e, "this conversation is the one that is open");
    struct session *s = session_open(name, &t, note, e);
    if (!s || !options_set(c->o, OPT_system, t.system ? t.system : "", FROM_SET, e)) {
        session_close(s);
        transcript_free(&t);
        return false;
    }
    transcript_free(&c->t);
    c->edit = (struct edit){0};
    session_close(c->session);
    c->t = t;
    c->session = s;
    c->unsaved = false;
    tell_rest(c, note);
    return true;
}

/* A conversation that is open elsewhere, perhaps on a line that was dropped: its text is read, and this goes its own way. */
static bool fork_of(struct chat *c, const char *name, struct buf *note, struct err *e)
{
    struct transcript t = {0};
    if (!session_read(name, &t, note, e) || !options_set(c->o, OPT_system, t.system ? t.system : "", FROM_SET, e)) {
        transcript_free(&t);
        return false;
    }
    transcript_free(&c->t);
    c->edit = (struct edit){0};
    c->t = t;
    c->session = fresh_session(c, NULL, e);
    if (!c->session) {
        transcript_clear(&c->t);
        return false;
    }
    buf_addf(note, "%s%s is open in another q35chat: this is a copy of it, which goes its own way", note->len ? "; " : "", name);
    tell_rest(c, note);
    return true;
}

/* The newest one.  A program that is just ending gets a moment for it. */
static bool resume_newest(struct chat *c, const char *name, struct buf *note, struct err *e)
{
    enum { TRIES = 20, TRY_MS = 50 };
    for (int i = 0; i < TRIES && session_in_use(name); i++)
        usleep(TRY_MS * 1000);
    return session_in_use(name) ? fork_of(c, name, note, e) : chat_load(c, name, note, e);
}

bool chat_resume(struct chat *c, struct buf *note, struct err *e)
{
    struct buf name = {0};
    bool ok = true;
    if (c->keep)
        trash_sweep(time(NULL));
    if (*options_text(c->o, OPT_resume))
        ok = chat_load(c, options_text(c->o, OPT_resume), note, e);
    else if (options_on(c->o, OPT_continue))
        ok = sessions_newest(&name) ? resume_newest(c, name.data, note, e) : err_set(e, "there is no conversation to go on with");
    buf_free(&name);
    return ok;
}

bool chat_saved_name(const struct chat *c, struct buf *name)
{
    struct buf own = {0};
    const char *path = chat_saved_as(c), *slash = path ? strrchr(path, '/') : NULL, *dot = slash ? strrchr(slash, '.') : NULL;
    if (!path || !c->t.n)
        return false;
    buf_add(name, slash ? slash + 1 : path, dot ? (size_t)(dot - slash - 1) : strlen(slash ? slash + 1 : path));
    if (!session_path_of(name->data, &own, NULL) || strcmp(own.data, path)) {
        buf_reset(name);
        buf_adds(name, path);
    }
    buf_free(&own);
    return true;
}

bool chat_delete(struct chat *c, const char *name, struct buf *told, struct err *e)
{
    struct buf path = {0}, as = {0};
    bool asked = c->doomed.len && !strcmp(c->doomed.data, name), ok;
    int fd = sessions_hold(name, &path, e);
    if (fd >= 0)
        close(fd);
    buf_reset(&c->doomed);
    buf_adds(&as, name);
    if (fd >= 0 && !asked) {
        ok = true;
        buf_adds(&c->doomed, name);
        buf_addf(told, "/delete %s once more moves it to the trash\n", name);
    } else if ((ok = fd >= 0 && trash_put(&as, &path, e))) {
        buf_addf(told, "deleted %s; /restore %s brings it back within %d days, it is in %s\n", name, as.data, TRASH_DAYS, path.data);
    }
    buf_free(&path);
    buf_free(&as);
    return ok;
}

bool chat_rename(struct chat *c, const char *title, struct err *e)
{
    enum { LONGEST = 1000 };
    struct err why = {0};
    struct buf clean = {0};
    struct session *s = session_for_records(c);
    title_clean(&clean, text_of(title));
    bool ok = clean.len <= LONGEST || err_set(e, "a title has at most %d bytes", LONGEST);
    if (ok) {
        transcript_title(&c->t, buf_str(&clean));
        if (s)
            kept(c, session_title(s, buf_str(&clean), &why), &why);
    }
    buf_free(&clean);
    return ok;
}
