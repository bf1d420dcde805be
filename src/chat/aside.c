/* A question aside.  The request is the conversation as it stands and one more message; neither that message nor what follows it becomes
 * an entry of the conversation, so no later prompt has them and nothing that the engine has read is read again. */
#include <string.h>

#include "base/unicode.h"
#include "chat/state.h"

/* An aside has no entry that could hold files. */
static bool names_files(const char *question)
{
    struct attached files = {0};
    bool some = attach_read(&files, question, strlen(question), true, NULL) && files.n;
    attach_free(&files);
    return some;
}

bool chat_aside(struct chat *c, const char *question, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    if (!state_ready(c))
        return err_set(e, "the model is not there yet");
    if (!*question)
        return err_set(e, "/aside needs a question");
    if (names_files(question))
        return err_set(e, "an aside takes no files: send them with a message");
    struct buf text = {0};
    unicode_replace(&text, question, strlen(question));
    transcript_free(&c->aside);
    transcript_add(&c->aside, ROLE_USER, buf_str(&text), text.len);
    buf_free(&text);
    turn_begin(c, TURN_ASIDE);
    return true;
}

const char *chat_asked_aside(const struct chat *c)
{
    return c->turn.kind == TURN_ASIDE ? c->aside.entries[0]->m.content.p : NULL;
}

void aside_calls(const struct chat *c, struct request *q, struct arena *mem)
{
    struct message *all = arena_array(mem, (size_t)q->n_messages + (size_t)c->aside.n, sizeof *all);
    memcpy(all, q->messages, (size_t)q->n_messages * sizeof *all);
    for (int i = 1; i < c->aside.n; i++)
        all[q->n_messages++] = c->aside.entries[i]->m;
    q->messages = all;
}

/* An aside that was cut off says so in a note: unlike an answer it cannot be continued. */
enum end aside_end(struct chat *c, enum end end, const char **why)
{
    const struct answer *a = &c->turn.answer;
    if (a->n_calls && end == END_STOP) {           /* they could not be run */
        *why = a->too_many ? "the model made too many tool calls in one answer; none of them was run"
                           : "the model broke off in the middle of a tool call";
        return END_FAILED;
    }
    const char *cut = a->looped ? ", and was cut off because it repeats itself" : end == END_LENGTH ? ", and was cut off: max_tokens is reached"
                    : end == END_CONTEXT ? ", and was cut off: the context is full" : "";
    struct buf note = {0};
    buf_addf(&note, "aside: it is not part of the conversation%s", cut);
    state_note(c, note.data);
    buf_free(&note);
    return a->looped || end == END_LENGTH || end == END_CONTEXT ? END_STOP : end;
}
