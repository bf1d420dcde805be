#include "ui/tui/feed.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tool/tool.h"
#include "chat/thumbs.h"
#include "ui/tui/numbers.h"

enum { HEAD_EVERY_MS = 250 };

void feed_init(struct feed *f, struct pane *p, struct options *o)
{
    *f = (struct feed){.pane = p, .o = o, .message = -1, .reasoning = -1, .answer = -1, .aside = -1};
}

static bool shows_reasoning(const struct feed *f)
{
    const char *how = options_text(f->o, OPT_reasoning);
    return !strcmp(how, "show") || !strcmp(how, "only");
}

static int add(struct feed *f, enum item_kind kind, int message, const char *text, size_t n)
{
    int item = pane_add(f->pane, kind, message);
    if (n)
        pane_append(f->pane, item, text, n);
    return item;
}

void feed_say(struct feed *f, enum item_kind kind, const char *fmt, ...)
{
    const struct item *last = f->pane->items.n ? &f->pane->items.at[f->pane->items.n - 1] : NULL;
    struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_addv(&text, fmt, ap);
    va_end(ap);
    while (text.len && text.data[text.len - 1] == '\n')
        text.len--;
    bool again = kind == ITEM_ERROR && last && last->kind == kind && last->source.len == text.len && !memcmp(last->source.data, text.data, text.len);
    if (text.len && !again)
        pane_end(f->pane, add(f, kind, -1, text.data, text.len));
    buf_free(&text);
}

/* --- heads ------------------------------------------------------------------------------------------------------ */

static int reasoning_tokens(const struct feed *f, int message)
{
    struct chat_token t;
    int n = chat_n_tokens(f->chat, message), count = 0;
    for (int k = 0; k < n && chat_token(f->chat, message, k, &t); k++)
        count += t.reasoning;
    return count;
}

/* Sets the head of reasoning that was loaded, whose duration is not recorded. */
static void loaded_thought_head(struct feed *f, int item, int message, size_t bytes)
{
    enum { BYTES_PER_TOKEN = 4 };
    char head[64];
    int n = reasoning_tokens(f, message);
    if (n)
        snprintf(head, sizeof head, "thought %d tok", n);
    else
        snprintf(head, sizeof head, "thought, about %zu tok", bytes / BYTES_PER_TOKEN + 1);
    pane_head(f->pane, item, head);
}

/* Sets the head of a message: its time, if that is wanted, and its place among its siblings. */
static void message_head(struct feed *f, int item, int message)
{
    struct buf head = {0};
    int which, n = chat_siblings(f->chat, message, &which);
    if (options_on(f->o, OPT_times))
        when_clock(&head, chat_message(f->chat, message).time_s, time(NULL));
    if (n > 1)
        buf_addf(&head, "%s<%d/%d>", head.len ? "  " : "", which + 1, n);
    pane_head(f->pane, item, buf_str(&head));
    buf_free(&head);
}

/* --- what stands in the conversation ---------------------------------------------------------------------------- */

/* Removes the items from this one on. */
static void cut(struct feed *f, int item)
{
    if (item < f->pane->items.n)
        pane_cut(f->pane, item);
    if (item <= f->aside)
        f->aside = -1;
}

/* Compares the items from `item` on with what messages should show, until one differs; from there on it adds. */
struct walk {
    struct feed *f;
    int  item;
    bool adding;
};

/* True if the next item is this one.  For a call its output is compared, and that it has this name. */
static bool agrees(struct walk *w, enum item_kind kind, int message, const char *name, const char *text)
{
    const struct items *items = &w->f->pane->items;
    size_t n = strlen(text);
    while (w->item < items->n && items->at[w->item].message < 0)
        w->item++;
    if (w->item == items->n || items->at[w->item].message != message || items->at[w->item].kind != kind)
        return false;
    const char *source = buf_str(&items->at[w->item].source);
    size_t len = items->at[w->item].source.len;
    if (name)
        return len >= n && !memcmp(source + len - n, text, n) && strstr(source, name);
    return len == n && !memcmp(source, text, n);
}

/* Returns the item that shows this; with *fresh there is none, and from here on all items are new. */
static int expect(struct walk *w, enum item_kind kind, int message, const char *name, const char *text, bool *fresh)
{
    struct pane *p = w->f->pane;
    *fresh = w->adding || !agrees(w, kind, message, name, text);
    if (!*fresh)
        return w->item++;
    if (!w->adding && w->item < p->items.n)
        cut(w->f, w->item);
    w->adding = true;
    return -1;
}

static int expect_text(struct walk *w, enum item_kind kind, int message, const char *text, bool *fresh)
{
    int item = expect(w, kind, message, NULL, text, fresh);
    if (*fresh) {
        item = add(w->f, kind, message, text, strlen(text));
        pane_end(w->f->pane, item);
    }
    return item;
}

/* Makes sure that the transcript shows call k of message i, with its result. */
static void expect_call(struct walk *w, int i, int k)
{
    struct pane *p = w->f->pane;
    struct chat_call call = chat_message_call(w->f->chat, i, k);
    int answer = i + 1 + k;
    bool fresh, answered = answer < chat_n_messages(w->f->chat) && !strcmp(chat_message(w->f->chat, answer).role, "tool");
    const char *output = answered ? chat_message(w->f->chat, answer).text : "";
    expect(w, ITEM_CALL, i, call.name, output, &fresh);
    if (!fresh)
        return;
    char outcome[TOOL_OUTCOME];
    int item = pane_call(p, i, call.name, call.arguments);
    pane_append(p, item, output, strlen(output));
    tool_outcome(output, strlen(output), outcome);
    if (*outcome)
        pane_head(p, item, outcome);
    pane_end(p, item);
}

/* Shows the small copy of file k of a message below its item, if it has been made. */
static void show_picture(struct feed *f, int item, int message, int k)
{
    const struct thumb *t = chat_thumb_find(f->chat, chat_thumb(f->chat, message, k));
    if (t)
        pane_picture(f->pane, item, t->number, t->w, t->h);
}

/* Shows the small copies of pictures that are there. */
static void show_pictures(struct feed *f)
{
    for (int i = 0, k = 0; f->chat && i < f->pane->items.n; i++) {
        const struct item *it = &f->pane->items.at[i];
        k = it->kind == ITEM_FILE ? k : -1;
        if (it->kind == ITEM_FILE && f->graphics && it->message < chat_n_messages(f->chat) && k < chat_n_files(f->chat, it->message))
            show_picture(f, i, it->message, k);
        k++;
    }
}

/* Makes sure that the transcript shows a message of the user with its files and pictures. */
static void expect_user(struct walk *w, int i, const char *text)
{
    struct feed *f = w->f;
    bool fresh;
    message_head(f, expect_text(w, ITEM_USER, i, text, &fresh), i);
    for (int k = 0; k < chat_n_files(f->chat, i); k++) {
        struct chat_file file = chat_file(f->chat, i, k);
        struct buf head = {0};              /* "main.c  6.1 kB  1.9k tok", "page.png  1280x720  95 kB  880 tok" */
        buf_addf(&head, "%s  ", file.path);
        if (file.w)
            buf_addf(&head, "%dx%d  ", file.w, file.h);
        number_bytes(&head, file.bytes);
        buf_adds(&head, file.estimated ? "  ~" : "  ");
        number_tokens(&head, file.tokens);
        buf_adds(&head, " tok");
        const int item = expect_text(w, ITEM_FILE, i, file.text, &fresh);
        pane_head(f->pane, item, head.data);
        if (f->graphics)
            show_picture(f, item, i, k);
        buf_free(&head);
    }
}

/* Makes sure that the transcript shows message i, unless it is the output of a tool. */
static void expect_message(struct walk *w, int i)
{
    struct feed *f = w->f;
    struct chat_message m = chat_message(f->chat, i);
    bool fresh;
    if (!strcmp(m.role, "user"))
        expect_user(w, i, m.text);
    if (!strcmp(m.role, "summary"))
        pane_head(f->pane, expect_text(w, ITEM_ANSWER, i, m.text, &fresh), "replaces everything above");
    if (strcmp(m.role, "assistant"))
        return;                         /* the output of a tool is part of its call */
    if (*m.reasoning) {
        int item = expect_text(w, ITEM_REASONING, i, m.reasoning, &fresh);
        if (fresh) {
            loaded_thought_head(f, item, i, strlen(m.reasoning));
            pane_fold(f->pane, item, !shows_reasoning(f));
        }
    }
    if (*m.text)
        message_head(f, expect_text(w, ITEM_ANSWER, i, m.text, &fresh), i);
    for (int k = 0; k < m.n_calls; k++)
        expect_call(w, i, k);
}

void feed_sync(struct feed *f)
{
    struct walk w = {.f = f};
    int n = chat_n_messages(f->chat);
    for (int i = 0; i < n; i++)
        expect_message(&w, i);
    for (; !w.adding && w.item < f->pane->items.n; w.item++)
        if (f->pane->items.at[w.item].message >= 0) {
            cut(f, w.item);
            break;
        }
}

/* --- what happens ----------------------------------------------------------------------------------------------- */

static void cut_aside(struct feed *f)
{
    if (f->aside >= 0)
        cut(f, f->aside);
}

void feed_turn(struct feed *f)
{
    while (f->pane->items.n && f->pane->items.at[f->pane->items.n - 1].kind == ITEM_OUTPUT)
        pane_cut(f->pane, f->pane->items.n - 1);         /* the output of commands was read */
    cut_aside(f);
    feed_sync(f);
    f->message = chat_n_messages(f->chat) - 1;
    const char *question = chat_asked_aside(f->chat);
    f->summary = chat_sums_up(f->chat);
    f->aside = question || f->summary ? f->pane->items.n : -1;
    if (question)
        feed_say(f, ITEM_NOTE, "aside: %s", question);
    f->complete = true;
    f->reasoning = f->answer = -1;
    f->call = f->pane->items.n;
}

/* Notes the message that the next part of an answer belongs to. */
static void begin_message(struct feed *f)
{
    if (!f->complete)
        return;
    f->complete = false;
    f->message = f->aside >= 0 ? -1 : f->message + 1;
    f->reasoning = f->answer = -1;
    f->call = f->pane->items.n;
}

/* Ends the reasoning that is shown, with its time and tokens in its head. */
static void end_reasoning(struct feed *f, int64_t ms)
{
    char head[64];
    if (f->reasoning < 0)
        return;
    int n = reasoning_tokens(f, f->message < chat_n_messages(f->chat) ? f->message : -1);
    snprintf(head, sizeof head, n ? "thought %.1f s, %d tok" : "thought %.1f s", (double)(ms - f->since_ms) / 1000, n);
    pane_head(f->pane, f->reasoning, head);
    pane_end(f->pane, f->reasoning);
    f->reasoning = -1;
}

static void close_answer(struct feed *f)
{
    if (f->answer >= 0)
        pane_end(f->pane, f->answer);
    f->answer = -1;
}

/* Appends reasoning, in an item that is folded if the user does not want to see it. */
static void on_reasoning(struct feed *f, const struct chat_event *ev, int64_t ms)
{
    begin_message(f);
    if (f->reasoning < 0) {
        f->reasoning = pane_add(f->pane, ITEM_REASONING, f->message);
        pane_fold(f->pane, f->reasoning, !shows_reasoning(f));
        f->since_ms = ms;
        f->told_ms = ms - HEAD_EVERY_MS;
    }
    pane_append(f->pane, f->reasoning, ev->text, ev->n);
    feed_tick(f, ms);
}

static void on_text(struct feed *f, const struct chat_event *ev, int64_t ms)
{
    begin_message(f);
    end_reasoning(f, ms);
    if (f->answer < 0)
        f->answer = pane_add(f->pane, ITEM_ANSWER, f->message);
    pane_append(f->pane, f->answer, ev->text, ev->n);
}

/* Shows a call below the answer so far. */
static void on_call(struct feed *f, const struct chat_event *ev, int64_t ms)
{
    begin_message(f);
    end_reasoning(f, ms);
    close_answer(f);
    int item = pane_call(f->pane, f->message, ev->name, ev->text);
    if (ev->truncated) {
        pane_head(f->pane, item, "cut off, not run");
        pane_end(f->pane, item);
    }
    f->call_ms = ms;
}

/* Finds the card of the call under way: results come in the order of the calls. */
static bool find_call(struct feed *f)
{
    while (f->call < f->pane->items.n && f->pane->items.at[f->call].kind != ITEM_CALL)
        f->call++;
    return f->call < f->pane->items.n;
}

/* Ends a call with its result, of which the output so far is shown already, and its time. */
static void on_result(struct feed *f, const struct chat_event *ev, int64_t ms)
{
    char head[TOOL_OUTCOME + 16], outcome[TOOL_OUTCOME];
    if (find_call(f)) {
        tool_outcome(ev->text, ev->n, outcome);
        bool ran = strcmp(outcome, "not run") != 0;
        snprintf(head, sizeof head, ran ? "%s%s%.1f s" : "%s", outcome, *outcome ? "  " : "", (double)(ms - f->call_ms) / 1000);
        /* The part of the result that is not shown yet; a result that does not repeat the output goes below it. */
        const struct buf *source = &f->pane->items.at[f->call].source;
        bool repeats = ev->n >= f->output && !memcmp(buf_str(source) + source->len - f->output, ev->text, f->output);
        size_t known = repeats ? f->output : 0;
        if (!repeats)
            pane_append(f->pane, f->call, "\n", 1);
        pane_append(f->pane, f->call, ev->text + known, ev->n - known);
        f->output = 0;
        pane_head(f->pane, f->call, head);
        pane_end(f->pane, f->call++);
    }
    f->call_ms = ms;                    /* the next call begins now */
    f->complete = true;
    f->message += f->aside < 0;
}

/* Returns the note about how the turn ended, or NULL.  The status line shows what Enter does next, which depends on more than this turn. */
static const char *ended(const struct feed *f, enum end end)
{
    switch (end) {
    case END_LENGTH:      return "cut off: max_tokens is reached";
    case END_CONTEXT:     return "cut off: the context is full; free space with /compact or /drop N, or start over with /new";
    case END_INTERRUPTED: return f->summary ? NULL : "stopped";
    case END_TOOL_ROUNDS: return "ended: too many rounds of tool calls, see /set tool_rounds";
    default:               return NULL;
    }
}

/* Removes the written summary; an accepted one is a message now. */
void feed_decided(struct feed *f, bool taken)
{
    cut_aside(f);
    feed_sync(f);
    feed_say(f, ITEM_NOTE, taken ? "summary accepted; /undo reverts it" : "summary discarded; nothing has changed");
}

/* Ends the turn on the screen: notes why it ended early, or that a summary waits to be accepted. */
static void on_done(struct feed *f, const struct chat_event *ev, int64_t ms)
{
    end_reasoning(f, ms);
    close_answer(f);
    f->complete = true;
    if (f->summary && ev->end == END_INTERRUPTED)
        cut_aside(f);
    feed_sync(f);                       /* removes what was taken back, updates signs, and shows the older answers again if the new one got no word */
    if (!ev->taken_back && ended(f, ev->end))
        feed_say(f, ITEM_NOTE, "%s", ended(f, ev->end));
    struct buf line = {0};
    buf_adds(&line, "this summary would ");
    if (chat_proposes(f->chat, &line)) {
        buf_adds(&line, ". Enter accepts, Esc discards");
        feed_say(f, ITEM_NOTE, "%s", line.data);
    }
    buf_free(&line);
    if (ev->end == END_LOOP)
        feed_say(f, ITEM_NOTE, "cut off: %s", ev->text);
    if (end_failed(ev->end))
        feed_say(f, ITEM_ERROR, "failed: %s", ev->text);
}

static void on_fatal(struct feed *f, const struct chat_event *ev, int64_t ms)
{
    end_reasoning(f, ms);
    close_answer(f);
    feed_say(f, ITEM_ERROR, "there is no model: %s\nThe conversation can still be read, copied and exported.", ev->text);
}

void feed_event(struct feed *f, const struct chat_event *ev, int64_t ms)
{
    switch (ev->kind) {
    case CHAT_REASONING:   on_reasoning(f, ev, ms); break;
    case CHAT_TEXT:        on_text(f, ev, ms); break;
    case CHAT_CALL:        on_call(f, ev, ms); break;
    case CHAT_RUNS:        f->call_ms = ms; break;
    case CHAT_TOOL_OUTPUT:
        if (find_call(f)) {
            pane_append(f->pane, f->call, ev->text, ev->n);
            f->output += ev->n;
        }
        break;
    case CHAT_TOOL_RESULT: on_result(f, ev, ms); break;
    case CHAT_THUMB:       show_pictures(f); break;
    case CHAT_NOTE:        feed_say(f, ITEM_NOTE, "%s", ev->text); break;
    case CHAT_DONE:        on_done(f, ev, ms); break;
    case CHAT_FATAL:       on_fatal(f, ev, ms); break;
    default:               break;
    }
}

void feed_recount(struct feed *f)
{
    enum { THOUGHTS = 200 };            /* the newest ones: each is split into its tokens */
    for (int i = f->pane->items.n - 1, n = 0; i >= 0 && n < THOUGHTS; i--) {
        const struct item *it = &f->pane->items.at[i];
        if (it->kind != ITEM_REASONING || it->message < 0)
            continue;
        loaded_thought_head(f, i, it->message, it->source.len);
        n++;
    }
    feed_sync(f);                       /* files */
}

void feed_tick(struct feed *f, int64_t ms)
{
    if (f->reasoning >= 0 && ms - f->told_ms >= HEAD_EVERY_MS) {
        struct buf head = {0}, sentence = {0};
        const struct buf *source = &f->pane->items.at[f->reasoning].source;
        buf_addf(&head, "thinking %lld s, %d tok", (long long)(ms - f->since_ms) / 1000, chat_n_tokens(f->chat, -1));
        if (strcmp(options_text(f->o, OPT_reasoning), "hide") && excerpt_sentence(buf_str(source), source->len, &sentence))
            buf_addf(&head, ", \"%s\"", sentence.data);
        pane_head(f->pane, f->reasoning, head.data);
        f->told_ms = ms;
        buf_free(&head);
        buf_free(&sentence);
    }
}
