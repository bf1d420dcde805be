#include <string.h>

#include "chat/state.h"

/* A disk that fails must not end the talk: said once, and no more is written. */
static void kept(struct chat *c, bool ok, const struct err *e)
{
    if (ok)
        return;
    struct buf note = {0};
    buf_addf(&note, "this conversation is no longer kept: %s", e->msg);
    round_post(c, CHAT_NOTE, note.data);
    buf_free(&note);
    session_close(c->session);
    c->session = NULL;
    c->keep = false;
}

void keep_entry(struct chat *c, const struct entry *m)
{
    struct err e = {0};
    if (c->keep && !c->session) {
        c->session = session_create(NULL, c->dir.data, &e);
        bool ok = c->session && (!c->t.system || session_system(c->session, c->t.system, &e));
        kept(c, ok, &e);
    }
    if (c->session)
        kept(c, session_append(c->session, m, &e), &e);
}

void keep_cut(struct chat *c, int n)
{
    struct err e = {0};
    if (n == c->t.n)
        return;
    transcript_cut(&c->t, n);
    if (c->session)
        kept(c, session_keep(c->session, n, &e), &e);
}

void keep_system(struct chat *c)
{
    const char *wanted = options_text(c->o, OPT_system), *have = c->t.system ? c->t.system : "";
    struct err e = {0};
    if (!strcmp(wanted, have))
        return;
    transcript_system(&c->t, wanted);
    if (c->session)
        kept(c, session_system(c->session, wanted, &e), &e);
}

bool chat_save(struct chat *c, const char *name, struct err *e)
{
    struct session *s = session_create(name, c->dir.data, e);
    bool ok = s && (!c->t.system || session_system(s, c->t.system, e));
    for (int i = 0; i < c->t.n && ok; i++)
        ok = session_append(s, c->t.entries[i], e);
    if (!ok) {
        session_close(s);
        return false;
    }
    session_close(c->session);
    c->session = s;
    return true;
}

bool chat_load(struct chat *c, const char *name, struct buf *note, struct err *e)
{
    struct transcript t = {0};
    if (c->state != DEAD && !chat_usable(c, e))
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
    session_close(c->session);
    c->t = t;
    c->session = s;
    return true;
}
