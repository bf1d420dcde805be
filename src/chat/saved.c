/* Conversations on disk as the user sees them: saved, loaded, resumed, named, deleted. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "session/held.h"
#include "session/list.h"
#include "chat/state.h"
#include "session/title.h"
#include "session/trash.h"

bool chat_unsaved(const struct chat *c)
{
    return c->persist.unsaved;
}

bool chat_keep(struct chat *c, struct err *e)
{
    struct err why = {0};
    persist_wait(c);
    if (!c->persist.unsaved || persist_again(c, &why))
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
        persist_moved(c, s);
    return s != NULL;
}

/* Appends a sentence about the end of the conversation, if that is no whole answer. */
static void tell_rest(const struct chat *c, struct buf *note)
{
    static const struct { const char *is, *does; } told[] = {
        [CHAT_STOPPED] = {"the last answer was stopped before its end", "continues it"},
        [CHAT_CUT] = {"the last answer is incomplete: the program ended while it was being written", "continues it"},
        [CHAT_UNANSWERED] = {"the last message has no answer yet", "answers it"},
        [CHAT_UNRUN] = {"the tools that the last answer called have not all answered", "asks the model again"},
    };
    enum chat_rest rest = chat_rest(c);
    if (rest == CHAT_WHOLE)
        return;
    buf_addf(note, "%s%s", note->len ? "; " : "", told[rest].is);
    if (c->front.can_ask)
        buf_addf(note, ": /continue%s %s", c->front.screen ? ", or Enter on an empty draft," : "", told[rest].does);
}

/* Answers may differ from those before, and nothing that the other model computed can be used. */
static void tell_model(const struct chat *c, const char *name, struct buf *note)
{
    struct buf model = {0};
    const char *now = state_model(c);
    if (held_with(name, &model) && !held_same(model.data, now) && held_gone(model.data))
        buf_addf(note, "%sthis conversation was held with %s, which is no longer there; %s answers now", note->len ? "; " : "", model.data, now);
    else if (model.len && !held_same(model.data, now))
        buf_addf(note, "%sthis conversation was held with %s; %s answers now", note->len ? "; " : "", model.data, now);
    buf_free(&model);
}

static void loaded(struct chat *c, const char *name, struct buf *note)
{
    tell_model(c, name, note);
    tell_rest(c, note);
}

/* Reads the text only, and writes it to a file of its own, or in private to none. */
static bool load_copy(struct chat *c, const char *name, struct buf *note, struct err *e)
{
    struct transcript t = {0};
    struct session *s = NULL;
    const bool private = options_on(c->o, OPT_private);
    if (!session_read(name, &t, note, e) || !options_set(c->o, OPT_system, t.system ? t.system : "", FROM_SET, e)
        || (!private && !(s = persist_fresh(c, &t, NULL, e)))) {
        transcript_free(&t);
        return false;
    }
    titler_leave(c);
    persist_replace(c, &t, s);
    struct buf path = {0};
    if (s && session_path_of(name, &path, NULL))
        checkpointer_load(c, path.data);
    buf_free(&path);
    buf_addf(note, private ? "%sthis is a private copy of %s: nothing is written" : "%s%s is open in another q35chat: this is a copy of it",
             note->len ? "; " : "", name);
    loaded(c, name, note);
    return true;
}

/* The conversation in a file that cannot be written: its next message goes to a copy, or what is wrong is shown then. */
static void go_without_file(struct chat *c, const char *name, struct transcript *t, struct buf *note)
{
    titler_leave(c);
    persist_replace(c, t, NULL);
    c->persist.wanted = !options_off(c->o, OPT_save);
    buf_addf(note, "%s%s cannot be written: what is said from now on goes to a copy of it, if one can be made", note->len ? "; " : "", name);
}

bool chat_load(struct chat *c, const char *name, struct buf *note, struct err *e)
{
    struct transcript t = {0};
    if (!persist_can_leave(c, e))
        return false;
    if (options_on(c->o, OPT_private))
        return load_copy(c, name, note, e);
    struct buf path = {0};
    bool same = c->persist.session && session_path_of(name, &path, NULL) && !strcmp(path.data, session_path(c->persist.session));
    buf_free(&path);
    if (same)
        return err_set(e, "this conversation is already open");
    const bool read_only = session_read_only(name);
    struct session *s = read_only ? NULL : session_open(name, &t, note, e);
    bool ok = read_only ? session_read(name, &t, note, e) : s != NULL;
    if (!ok || !options_set(c->o, OPT_system, t.system ? t.system : "", FROM_SET, e)) {
        session_close(s);
        transcript_free(&t);
        return false;
    }
    if (s) {
        titler_leave(c);
        persist_replace(c, &t, s);
        checkpointer_load(c, session_path(s));
    } else {
        go_without_file(c, name, &t, note);
    }
    loaded(c, name, note);
    return true;
}

/* Loads the newest one; a program that is just ending gets a moment for it.  If it is open elsewhere, perhaps on a line that was dropped, loads a
 * copy. */
static bool resume_newest(struct chat *c, struct buf *note, struct err *e)
{
    enum { TRIES = 20, TRY_MS = 50 };
    struct buf name = {0}, rest = {0};
    if (!sessions_newest(&name) && c->front.can_ask) {
        buf_adds(note, "no saved conversation to continue: this is a new one");
        return true;
    }
    bool ok = name.len || err_set(e, "no saved conversation to continue");
    for (int i = 0; ok && i < TRIES && session_in_use(name.data); i++)
        usleep(TRY_MS * 1000);
    ok = ok && (session_in_use(name.data) ? load_copy : chat_load)(c, name.data, &rest, e);
    if (ok && c->front.can_ask) {
        buf_adds(note, "continuing \"");
        title_of(note, &c->t);
        buf_adds(note, rest.len ? "\"; " : "\"");
    }
    buf_adds(note, buf_str(&rest));
    buf_free(&name);
    buf_free(&rest);
    return ok;
}

bool chat_resume(struct chat *c, struct buf *note, struct err *e)
{
    if (c->persist.wanted)
        trash_sweep(time(NULL));
    if (*options_text(c->o, OPT_resume))
        return chat_load(c, options_text(c->o, OPT_resume), note, e);
    return !options_on(c->o, OPT_continue) || resume_newest(c, note, e);
}

const char *chat_saved_as(const struct chat *c)
{
    return c->persist.session ? session_path(c->persist.session) : NULL;
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
    bool asked = c->persist.doomed.len && !strcmp(c->persist.doomed.data, name), ok;
    int fd = sessions_hold(name, &path, e);
    if (fd >= 0)
        close(fd);
    buf_reset(&c->persist.doomed);
    buf_adds(&as, name);
    if (fd >= 0 && !asked) {
        ok = true;
        buf_adds(&c->persist.doomed, name);
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
    struct buf clean = {0};
    title_clean(&clean, text_of(title));
    bool ok = clean.len <= LONGEST || err_set(e, "a title has at most %d bytes", LONGEST);
    if (ok)
        persist_title(c, buf_str(&clean));
    buf_free(&clean);
    return ok;
}
