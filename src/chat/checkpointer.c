#include <string.h>

#include "chat/state.h"
#include "session/trash.h"

static bool is_on(const struct chat *c)
{
    return c->responder->can.keeps && options_on(c->o, OPT_checkpoint) && options_int(c->o, OPT_checkpoint_room) > 0;
}

/* Of the file with the conversation. */
static void ask(struct chat *c, void (*what)(struct responder *r, uint64_t conversation, const char *path), const char *file)
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
    if (!is_on(c))
        return;
    ask(c, c->responder->ops->restore, path);
    checkpointer_turn(c);
    c->checkpoint.due = true;                 /* where nothing comes back it is computed while nothing is asked */
}

void checkpointer_turn(struct chat *c)
{
    const uint64_t conversation = state_conversation(c), home = is_on(c) ? conversation : 0;
    if (!conversation || !c->responder->can.keeps || c->checkpoint.home == home)
        return;
    if (home)
        ask(c, c->responder->ops->keep, session_path(c->persist.session));
    else
        c->responder->ops->keep(c->responder, conversation, NULL);
    c->checkpoint.home = home;
}

void checkpointer_due(struct chat *c)
{
    c->checkpoint.due = true;
}

static void save(struct chat *c)
{
    c->checkpoint.due = false;
    if (!c->persist.session || !is_on(c))
        return;
    c->checkpoint.asked = true;
    ask(c, c->responder->ops->save, session_path(c->persist.session));
}

void checkpointer_step(struct chat *c)
{
    if (c->checkpoint.due && state_ready(c) && c->turn.state == TURN_IDLE)
        save(c);
}

void checkpointer_end(struct chat *c)
{
    if (state_ready(c) && c->turn.state != TURN_DEAD && (c->checkpoint.due || c->turn.state != TURN_IDLE))
        save(c);
}

/* Those of older conversations go when there is no room for all; its own goes when it is too large alone. */
static void make_room(struct chat *c)
{
    struct buf own = {0}, note = {0};
    const size_t gb = 1000 * 1000 * 1000, room = (size_t)options_int(c->o, OPT_checkpoint_room) * gb;
    session_checkpoint(session_path(c->persist.session), &own);
    if (!trash_trim(room, own.data) && !c->checkpoint.told) {
        buf_addf(&note, "the checkpoint of this conversation has %.1f GB, more than the %d GB of checkpoint_room: it is not kept, and a resume will "
                 "compute it again", (double)c->checkpoint.bytes / (double)gb, options_int(c->o, OPT_checkpoint_room));
        state_note(c, note.data);
        c->checkpoint.told = true;
    }
    buf_free(&own);
    buf_free(&note);
}

static void on_saved(struct chat *c, const struct news *it)
{
    struct buf note = {0};
    c->checkpoint.asked = false;
    c->checkpoint.written += it->done;
    c->checkpoint.bytes = it->total;
    if (!it->text.n) {
        c->checkpoint.told = false;
        if (c->persist.session)
            make_room(c);
    } else if (!c->checkpoint.told) {
        buf_addf(&note, "the checkpoint of this conversation is not kept: %s; a resume will compute it again", it->text.p);
        state_note(c, note.data);
        c->checkpoint.told = true;
    }
    buf_free(&note);
}

static void on_restored(struct chat *c, const struct news *it)
{
    struct buf note = {0};
    c->checkpoint.restored = (int)it->done;
    if (it->text.n) {
        buf_addf(&note, "%s; the conversation is computed again", it->text.p);
        state_note(c, note.data);
    }
    buf_free(&note);
}

void checkpointer_news(struct chat *c, const struct news *it)
{
    if (it->conversation == c->checkpoint.conversation)
        (it->kind == NEWS_SAVED ? on_saved : on_restored)(c, it);
}

void chat_checkpoint(const struct chat *c, struct chat_checkpoint *k)
{
    *k = (struct chat_checkpoint){
        .on = is_on(c) && c->persist.session, .bytes = c->checkpoint.bytes, .written = c->checkpoint.written, .restored = c->checkpoint.restored,
    };
}
