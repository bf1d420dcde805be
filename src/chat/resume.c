#include "chat/resume.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "chat/forms.h"
#include "chat/saving.h"
#include "chat/state.h"
#include "chat/steer.h"
#include "chat/titler.h"
#include "session/export.h"
#include "session/held.h"
#include "session/list.h"
#include "session/transcript.h"
#include "session/trash.h"

/* Appends a sentence about the end of the conversation, unless it is a whole answer. */
static void note_rest(const struct chat *c, struct buf *note)
{
    static const struct { const char *is, *does; } rests[] = {
        [CHAT_STOPPED] = {"the last answer was stopped before its end", "continues it"},
        [CHAT_CUT] = {"the last answer is incomplete: the program ended while it was being written", "continues it"},
        [CHAT_UNANSWERED] = {"the last message has no answer yet", "answers it"},
        [CHAT_UNRUN] = {"the tools that the last answer called have not all answered", "asks the model again"},
    };
    enum chat_rest rest = chat_rest(c);
    if (rest == CHAT_WHOLE)
        return;
    buf_addf(note, "%s%s", note->len ? "; " : "", rests[rest].is);
    if (c->front.can_ask)
        buf_addf(note, ": /continue%s %s", c->front.screen ? ", or Enter on an empty draft," : "", rests[rest].does);
}

/* Appends a sentence if the conversation was held with another model than the one that answers now, whether or not that one is still there. */
static void note_model(const struct chat *c, const char *name, struct buf *note)
{
    struct buf model = {0};
    const char *now = state_model(c);
    if (held_with(name, &model) && !held_same(model.data, now) && held_gone(model.data))
        buf_addf(note, "%sthis conversation was held with %s, which is no longer there; %s answers now", note->len ? "; " : "", model.data, now);
    else if (model.len && !held_same(model.data, now))
        buf_addf(note, "%sthis conversation was held with %s; %s answers now", note->len ? "; " : "", model.data, now);
    buf_free(&model);
}

/* Loads a copy of a conversation, into a new file, or in private into none. */
static bool load_copy(struct chat *c, const char *name, struct buf *note, struct err *e)
{
    struct transcript t = {0};
    struct session *s = NULL;
    const bool private = options_on(c->o, OPT_private);
    if (!session_read(name, &t, note, e) || !options_set(c->o, OPT_system, t.system ? t.system : "", FROM_CONVERSATION, e)
        || (!private && !(s = persist_fresh(c, &t, NULL, e)))) {
        transcript_free(&t);
        return false;
    }
    titler_leave(c);
    forms_restore(c->o, t.form);
    persist_replace(c, &t, s);
    struct buf path = {0};
    if (s && session_path_of(name, &path, NULL))
        checkpointer_load(c, path.data);
    buf_free(&path);
    buf_addf(note, private ? "%sthis is a private copy of %s: nothing is written" : "%s%s is open in another q35chat: this is a copy of it",
             note->len ? "; " : "", name);
    note_model(c, name, note);
    note_rest(c, note);
    return true;
}

/* Takes over a conversation whose file cannot be written: the next message makes a copy, or shows why that fails. */
static void take_without_file(struct chat *c, const char *name, struct transcript *t, struct buf *note)
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
    if (!ok || !options_set(c->o, OPT_system, t.system ? t.system : "", FROM_CONVERSATION, e)) {
        session_close(s);
        transcript_free(&t);
        return false;
    }
    forms_restore(c->o, t.form);
    if (s) {
        titler_leave(c);
        persist_replace(c, &t, s);
        checkpointer_load(c, session_path(s));
    } else {
        take_without_file(c, name, &t, note);
    }
    note_model(c, name, note);
    note_rest(c, note);
    return true;
}

/* Loads the newest conversation, after a moment if a program that is ending still has it open.  If it stays open elsewhere, loads a copy. */
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

bool chat_delete(struct chat *c, const char *name, struct buf *note, struct err *e)
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
        buf_addf(note, "/delete %s once more moves it to the trash\n", name);
    } else if ((ok = fd >= 0 && trash_put(&as, &path, e))) {
        buf_addf(note, "deleted %s; /restore %s brings it back within %d days, it is in %s\n", name, as.data, TRASH_DAYS, path.data);
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

const char *chat_title(struct chat *c)
{
    buf_reset(&c->title.shown);
    title_of(&c->title.shown, &c->t);
    return buf_str(&c->title.shown);
}

bool chat_export_pictures(const struct chat *c, const char *file, struct err *e)
{
    return export_pictures(file, &c->t, e);
}

bool chat_export(const struct chat *c, const char *format, const char *file, struct buf *out, struct err *e)
{
    return export_transcript(&c->t, format, file, out, e);
}
