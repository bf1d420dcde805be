#include "chat/titler.h"


#include <string.h>

#include "base/clock.h"
#include "chat/saving.h"
#include "chat/state.h"
#include "session/transcript.h"

#define WISH "Write a title for our conversation so far: two to six words, in its language, on one line, and nothing else. No quotation marks."

enum {
    QUIET_MS = 1500,                    /* time without a key or a turn */
    TRIES = 3,                          /* requests for one conversation; an interrupted one is repeated */
    TOKENS = 24,
};

/* --- when --------------------------------------------------------------------------------------------------------- */

/* True if titles are wanted.  auto: if the engine is in this process, where idle time costs nothing, and the model is not the demo (which has a
 * notice), which cannot write titles. */
static bool is_wanted(const struct chat *c)
{
    const char *when = options_text(c->o, OPT_auto_title);
    return c->front.reads_ahead && (!strcmp(when, "on") || (!strcmp(when, "auto") && c->responder->can.idle && !c->responder->notice));
}

/* True if the conversation is saved and has no title, and nothing else is under way. */
static bool may_run(const struct chat *c)
{
    const struct responder *r = c->responder;
    const struct entry *last = c->t.n ? c->t.entries[c->t.n - 1] : NULL;
    const bool answered = last && last->m.role == ROLE_ASSISTANT && !last->stopped && !last->m.n_calls;
    return is_wanted(c) && c->persist.session && !c->persist.unsaved && !c->t.named && answered
        && state_ready(c) && c->turn.state == TURN_IDLE && !c->summary.text.len && !c->title.typing && !c->edit.on
        && !c->checkpoint.due && !c->checkpoint.asked && !(r->ops->others && r->ops->others(r));
}

static bool is_due(const struct chat *c)
{
    return c->title.due && !c->title.under_way && c->title.tries < TRIES && may_run(c);
}

static int64_t left_ms(const struct chat *c)
{
    const int64_t left = QUIET_MS - (clock_ns() - c->title.quiet_ns) / 1000000;
    return left > 0 ? left : 0;
}

int titler_timeout(const struct chat *c)
{
    return is_due(c) ? (int)left_ms(c) : -1;
}

void titler_turn_ended(struct chat *c)
{
    c->title.due = true;
    c->title.quiet_ns = clock_ns();
}

void titler_typed(struct chat *c, bool some)
{
    c->title.typing = some;
    c->title.quiet_ns = clock_ns();
    titler_stop(c);
}

void titler_leave(struct chat *c)
{
    titler_stop(c);
    c->title.due = false;
    c->title.tries = 0;
}

/* --- the request -------------------------------------------------------------------------------------------------- */

/* Requests a title for the conversation, apart from its answers.  A refused request is not tried again. */
static void begin_request(struct chat *c)
{
    struct arena mem = {0};
    struct request q = {
        .conversation = state_conversation(c), .no_calls = true, .apart = true, .sampling = {.max_tokens = TOKENS}, .patience_ms = DUE_PATIENCE_MS,
    };
    q.messages = sent_messages(&c->t, WISH, &mem, &q.n_messages);
    q.tools = tools_schemas(c->calls.tools, &q.n_tools);
    c->title.conversation = q.conversation;
    c->title.tries++;
    c->title.under_way = true;          /* before request(), which may post its news */
    c->title.stopping = false;
    buf_reset(&c->title.written);
    if (c->responder->ops->request(c->responder, &q, NULL) != REQUEST_TAKEN) {
        c->title.under_way = false;
        c->title.tries = TRIES;
    }
    arena_free(&mem);
}

void titler_step(struct chat *c)
{
    if (c->title.under_way && !may_run(c))
        titler_stop(c);
    else if (is_due(c) && !left_ms(c))
        begin_request(c);
}

bool titler_stop(struct chat *c)
{
    if (c->title.under_way && !c->title.stopping) {
        c->title.stopping = true;
        c->responder->ops->interrupt(c->responder);
    }
    return c->title.under_way;
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

/* Records the title, if it is a valid one and the conversation has not changed. */
static void record_written(struct chat *c)
{
    struct buf title = {0};
    c->title.tries = TRIES;
    if (c->title.conversation == state_conversation(c) && !c->t.named && title_written(&title, buf_str(&c->title.written))) {
        c->title.due = false;
        persist_title(c, title.data);
        outbox_post(&c->out, CHAT_TITLED, NULL, title.data, title.len);
    }
    buf_free(&title);
}

/* Collects the text of the title and stops the request after its first line. */
static void on_text(struct chat *c, const struct news *it)
{
    struct buf *b = &c->title.written;
    if (c->title.stopping)
        return;
    buf_add(b, it->text.p, it->text.n);
    const struct text line = text_trim((struct text){b->data, b->len});
    if (!line.n || !memchr(line.p, '\n', (size_t)(b->data + b->len - line.p)))
        return;
    record_written(c);                            /* the first line is enough */
    titler_stop(c);
}

/* Takes the title at the end of its request; after a failure no other one is requested. */
static void on_done(struct chat *c, const struct news *it)
{
    c->title.under_way = false;
    if (!c->title.stopping && it->end == END_STOP)
        record_written(c);
    else if (!c->title.stopping)
        c->title.tries = TRIES;         /* cut off or failed: another one would be, too */
    c->ahead.print = 0;                 /* the next prompt is read ahead again */
}

bool titler_news(struct chat *c, const struct news *it)
{
    if (!c->title.under_way)
        return false;
    switch (it->kind) {
    case NEWS_READING:
    case NEWS_REFILL:
    case NEWS_TOKEN:
    case NEWS_REASONING:
    case NEWS_CALL_BEGIN:
    case NEWS_CALL: return true;
    case NEWS_TEXT:
        on_text(c, it);
        return true;
    case NEWS_DONE:
        on_done(c, it);
        return true;
    case NEWS_GONE:
    case NEWS_FATAL:
        c->title.under_way = false;     /* no DONE follows */
        return false;
    default:
        return false;
    }
}
