#include "ui/tui/feed.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/when.h"
#include "tool/tool.h"
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

static bool said_last(const struct feed *f, enum item_kind kind, const char *text, size_t n)
{
    int last = pane_n(f->pane) - 1;
    struct buf source = {0};
    bool same = last >= 0 && pane_kind(f->pane, last) == kind;
    if (same)
        pane_source(f->pane, last, &source);
    same = same && source.len == n && !memcmp(source.data, text, n);
    buf_free(&source);
    return same;
}

void feed_say(struct feed *f, enum item_kind kind, const char *text)
{
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n')
        n--;
    if (n && !(kind == ITEM_ERROR && said_last(f, kind, text, n)))
        pane_end(f->pane, add(f, kind, -1, text, n));
}

/* --- heads ------------------------------------------------------------------------------------------------------ */

static void thinking_head(struct feed *f, int64_t ms)
{
    struct buf head = {0}, sentence = {0};
    buf_addf(&head, "thinking %lld s, %d tok", (long long)(ms - f->since_ms) / 1000, chat_n_tokens(f->chat, -1));
    if (strcmp(options_text(f->o, OPT_reasoning), "hide") && pane_sentence(f->pane, f->reasoning, &sentence))
        buf_addf(&head, ", \"%s\"", sentence.data);
    pane_head(f->pane, f->reasoning, head.data);
    f->told_ms = ms;
    buf_free(&head);
    buf_free(&sentence);
}

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

/* Sets the head of a file: "main.c  6.1 kB  1.9k tok". */
static void file_head(struct feed *f, int item, const struct chat_file *file)
{
    struct buf head = {0};
    buf_addf(&head, "%s  ", file->path);
    number_bytes(&head, file->bytes);
    buf_adds(&head, file->estimated ? "  ~" : "  ");
    number_tokens(&head, file->tokens);
    buf_adds(&head, " tok");
    pane_head(f->pane, item, head.data);
    buf_free(&head);
}

/* --- what stands in the conversation ---------------------------------------------------------------------------- */

/* Removes the items from this one on. */
static void cut(struct feed *f, int item)
{
    if (item < pane_n(f->pane))
        pane_cut(f->pane, item);
    if (item <= f->aside)
        f->aside = -1;
}

/* Compares the items from `item` on with what messages should show, until one differs; from there on it adds. */
struct walk {
    struct feed *f;
    int  item;
    bool adding;
    struct buf source;
};

/* True if the next item is this one.  For a call its output is compared, and that it has this name. */
static bool agrees(struct walk *w, enum item_kind kind, int message, const char *name, const char *text)
{
    struct pane *p = w->f->pane;
    size_t n = strlen(text);
    while (w->item < pane_n(p) && pane_message(p, w->item) < 0)
        w->item++;
    if (w->item == pane_n(p) || pane_message(p, w->item) != message || pane_kind(p, w->item) != kind)
        return false;
    buf_reset(&w->source);
    pane_source(p, w->item, &w->source);
    const char *source = buf_str(&w->source);
    size_t len = w->source.len;
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
    if (!w->adding && w->item < pane_n(p))
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

static void expect_user(struct walk *w, int i, const char *text)
{
    struct feed *f = w->f;
    bool fresh;
    message_head(f, expect_text(w, ITEM_USER, i, text, &fresh), i);
    for (int k = 0; k < chat_n_files(f->chat, i); k++) {
        struct chat_file file = chat_file(f->chat, i, k);
        file_head(f, expect_text(w, ITEM_FILE, i, file.text, &fresh), &file);
    }
}

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
    for (; !w.adding && w.item < pane_n(f->pane); w.item++)
        if (pane_message(f->pane, w.item) >= 0) {
            cut(f, w.item);
            break;
        }
    buf_free(&w.source);
}

/* --- what happens ----------------------------------------------------------------------------------------------- */

static void cut_aside(struct feed *f)
{
    if (f->aside >= 0)
        cut(f, f->aside);
}

void feed_turn(struct feed *f)
{
    while (pane_n(f->pane) && pane_kind(f->pane, pane_n(f->pane) - 1) == ITEM_OUTPUT)
        pane_cut(f->pane, pane_n(f->pane) - 1);         /* the output of commands was read */
    cut_aside(f);
    feed_sync(f);
    f->message = chat_n_messages(f->chat) - 1;
    const char *question = chat_asked_aside(f->chat);
    f->summary = chat_sums_up(f->chat);
    f->aside = question || f->summary ? pane_n(f->pane) : -1;
    if (question) {
        struct buf line = {0};
        buf_addf(&line, "aside: %s", question);
        feed_say(f, ITEM_NOTE, line.data);
        buf_free(&line);
    }
    f->complete = true;
    f->reasoning = f->answer = -1;
    f->call = pane_n(f->pane);
}

/* Notes the message that the next part of an answer belongs to. */
static void begin_message(struct feed *f)
{
    if (!f->complete)
        return;
    f->complete = false;
    f->message = f->aside >= 0 ? -1 : f->message + 1;
    f->reasoning = f->answer = -1;
    f->call = pane_n(f->pane);
}

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
    while (f->call < pane_n(f->pane) && pane_kind(f->pane, f->call) != ITEM_CALL)
        f->call++;
    return f->call < pane_n(f->pane);
}

/* Appends the part of the result that is not shown yet; a result that does not repeat the output goes below it. */
static void append_result(struct feed *f, const struct chat_event *ev)
{
    struct buf source = {0};
    pane_source(f->pane, f->call, &source);
    bool repeats = ev->n >= f->output && !memcmp(buf_str(&source) + source.len - f->output, ev->text, f->output);
    size_t known = repeats ? f->output : 0;
    if (!repeats)
        pane_append(f->pane, f->call, "\n", 1);
    pane_append(f->pane, f->call, ev->text + known, ev->n - known);
    f->output = 0;
    buf_free(&source);
}

static void on_result(struct feed *f, const struct chat_event *ev, int64_t ms)
{
    char head[TOOL_OUTCOME + 16], outcome[TOOL_OUTCOME];
    if (find_call(f)) {
        tool_outcome(ev->text, ev->n, outcome);
        bool ran = strcmp(outcome, "not run") != 0;
        snprintf(head, sizeof head, ran ? "%s%s%.1f s" : "%s", outcome, *outcome ? "  " : "", (double)(ms - f->call_ms) / 1000);
        append_result(f, ev);
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

static void ask_summary(struct feed *f)
{
    struct buf line = {0};
    buf_adds(&line, "this summary would ");
    if (chat_proposes(f->chat, &line)) {
        buf_adds(&line, ". Enter accepts, Esc discards");
        feed_say(f, ITEM_NOTE, line.data);
    }
    buf_free(&line);
}

static void on_done(struct feed *f, const struct chat_event *ev, int64_t ms)
{
    end_reasoning(f, ms);
    close_answer(f);
    f->complete = true;
    if (f->summary && ev->end == END_INTERRUPTED)
        cut_aside(f);
    feed_sync(f);                       /* removes what was taken back, updates signs, and shows the older answers again if the new one got no word */
    if (!ev->taken_back && ended(f, ev->end))
        feed_say(f, ITEM_NOTE, ended(f, ev->end));
    ask_summary(f);
    if (ev->end == END_LOOP) {
        struct buf line = {0};
        buf_addf(&line, "cut off: %s", ev->text);
        feed_say(f, ITEM_NOTE, line.data);
        buf_free(&line);
    }
    if (end_failed(ev->end)) {
        struct buf line = {0};
        buf_addf(&line, "failed: %s", ev->text);
        feed_say(f, ITEM_ERROR, line.data);
        buf_free(&line);
    }
}

static void on_fatal(struct feed *f, const struct chat_event *ev, int64_t ms)
{
    struct buf line = {0};
    end_reasoning(f, ms);
    close_answer(f);
    buf_addf(&line, "the model has ended: %s\nThe conversation can still be read, copied and exported.", ev->text);
    feed_say(f, ITEM_ERROR, line.data);
    buf_free(&line);
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
    case CHAT_NOTE:        feed_say(f, ITEM_NOTE, ev->text); break;
    case CHAT_DONE:        on_done(f, ev, ms); break;
    case CHAT_FATAL:       on_fatal(f, ev, ms); break;
    default:               break;
    }
}

void feed_recount(struct feed *f)
{
    enum { THOUGHTS = 200 };            /* the newest ones: each is split into its tokens */
    struct buf source = {0};
    for (int i = pane_n(f->pane) - 1, n = 0; i >= 0 && n < THOUGHTS; i--) {
        if (pane_kind(f->pane, i) != ITEM_REASONING || pane_message(f->pane, i) < 0)
            continue;
        buf_reset(&source);
        pane_source(f->pane, i, &source);
        loaded_thought_head(f, i, pane_message(f->pane, i), source.len);
        n++;
    }
    buf_free(&source);
    feed_sync(f);                       /* files */
}

void feed_tick(struct feed *f, int64_t ms)
{
    if (f->reasoning >= 0 && ms - f->told_ms >= HEAD_EVERY_MS)
        thinking_head(f, ms);
}
