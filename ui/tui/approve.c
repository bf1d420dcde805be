/* The question whether a tool may run, in place of the input.  An answer counts only if all of the call was in view, and if the key was typed some
 * time after the question appeared. */
#include <stdio.h>
#include <string.h>

#include "ui/tui/input.h"
#include "ui/tui/lines.h"
#include "ui/tui/window.h"

enum { APPROVE_DEAF_MS = 500, APPROVE_GUARD_MS = 800 };

enum { AROUND = 2 };                    /* rows above and below the arguments */

static const struct look PLAIN = {STYLE_text, 0}, BOLD = {STYLE_tool, LOOK_BOLD}, DIM = {STYLE_dim, 0};

/* The text that is typed before the answer is given: other arguments, or a reason. */
enum approve_asks { APPROVE_ASKS, APPROVE_EDITS, APPROVE_REFUSES };

struct approve {
    enum approve_asks asks;
    struct editor *reply;               /* where arguments or a reason are typed; NULL until it is needed */
    int64_t deaf_until;                 /* keys before that are ignored; INT64_MAX: the question is not completely in view */
    int64_t guard_until;                /* after the last question: until then Enter does not send the draft */
    struct buf name, arguments;         /* of the tool */
    struct buf command;                 /* what would run, and where; empty: the tool is built in */
    struct lines lines;                 /* of the arguments and the command, */
    int  columns;                       /* for so many */
    int  top;                           /* the first line in view */
    int  shown;                         /* lines in view at the last draw */
    bool seen;                          /* the last line was in view */
};

static struct approve *approve(const struct host *h)
{
    return h->state[WINDOW_approve];
}

/* Forgets the question that was asked before. */
static void reset_question(struct approve *q)
{
    q->seen = false;
    q->asks = APPROVE_ASKS;
    q->columns = q->top = q->shown = 0;
    buf_reset(&q->name);
    buf_reset(&q->arguments);
    buf_reset(&q->command);
    lines_reset(&q->lines);
}

static void free_approve(struct host *h)
{
    struct approve *q = approve(h);
    buf_free(&q->name);
    buf_free(&q->arguments);
    buf_free(&q->command);
    lines_free(&q->lines);
    editor_close(q->reply);
}

/* True while arguments or a reason are typed. */
static bool replies(const struct approve *q)
{
    return q->asks != APPROVE_ASKS;
}

/* Returns the rows that the question takes at this width. */
static int rows_for(struct approve *q, int columns)
{
    enum { INDENT = 2 };
    if (replies(q))
        return 1 + editor_rows(q->reply, columns);
    int width = columns > INDENT * 2 ? columns - INDENT : columns;
    if (q->columns != columns) {
        lines_reset(&q->lines);
        lines_wrap(&q->lines, PLAIN, buf_str(&q->arguments), q->arguments.len, 0, width > 0 ? width : 1, 0);
        if (q->command.len)
            lines_wrap(&q->lines, DIM, q->command.data, q->command.len, 0, width > 0 ? width : 1, 0);
        q->columns = columns;
    }
    return q->lines.n + AROUND;
}

static void scroll_by(struct approve *q, int lines)
{
    int last = q->lines.n - q->shown;
    q->top += lines;
    if (q->top > last)
        q->top = last;
    if (q->top < 0)
        q->top = 0;
}

/* Returns the longest text that fits; the texts come from the longest to the shortest. */
static const char *fitting(const char *const *texts, int n, int columns)
{
    while (n > 1 && (int)strlen(*texts) >= columns)     /* the cursor is after it */
        texts++, n--;
    return *texts;
}

/* Draws the row of possible answers, as long as they fit; a yes is offered only when all of the question was seen. */
static void draw_answers(const struct approve *q, struct cells *c, struct area a, int row)
{
    static const char *const yes[] = {
        "y yes  a always this tool  e edit it first  n no  Esc no, and stop: ", "y yes, a always, e edit, n no: ", "y, a always, e edit, n: ",
        "y, n, a(lways), e: "};
    static const char *const no[] = {"n no  Esc no, and stop: ", "n no, Esc stop: ", "n, Esc: "};
    char more[64];
    int left = q->lines.n - q->top - q->shown;
    snprintf(more, sizeof more, a.cols < 30 ? "%d more: PgDn " : "%d more line%s: PgDn  ", left, left == 1 ? "" : "s");
    int col = left > 0 && (!q->seen || a.cols >= 60) ? cells_puts(c, a, row, 0, BOLD, more) : 0;
    col = cells_puts(c, a, row, col, PLAIN, q->seen ? fitting(yes, 4, a.cols - col) : fitting(no, 3, a.cols - col));
    c->cursor_row = a.row + row;
    c->cursor_col = a.col + (col < a.cols ? col : a.cols - 1);
}

/* Draws the line in which the user edits the arguments or writes why the tool may not run. */
static void draw_reply(struct approve *q, struct cells *c, struct area a)
{
    bool edits = q->asks == APPROVE_EDITS, narrow = a.cols < 60;
    const char *told = edits ? (narrow ? " edited: Enter runs, Esc back" : ": edit the arguments.  Enter runs it, Esc goes back")
                             : (narrow ? ": why not? Enter, Esc" : " will not run.  Why?  Enter sends the reason, Esc goes back");
    if (a.rows > 1) {
        cells_puts(c, a, 0, cells_puts(c, a, 0, 0, BOLD, buf_str(&q->name)), DIM, told);
        a.row++;
        a.rows--;
    }
    editor_draw(q->reply, c, a, "> ");
}

/* Draws the question, and notes whether all of it was seen; keys are ignored for a moment after it appears. */
static void draw_question(struct approve *q, struct cells *c, struct area a, int64_t ms)
{
    if (replies(q)) {
        cells_blank(c, a, PLAIN);
        draw_reply(q, c, a);
        return;
    }
    rows_for(q, a.cols);
    cells_blank(c, a, PLAIN);
    q->shown = a.rows - AROUND < q->lines.n ? a.rows - AROUND : q->lines.n;
    if (q->shown < 0)
        q->shown = 0;
    scroll_by(q, 0);
    int col = cells_puts(c, a, 0, 0, BOLD, buf_str(&q->name));
    bool whole = a.rows > AROUND && col < a.cols;
    cells_puts(c, a, 0, col, DIM, " wants to run with:");
    struct area body = {a.row + 1, a.col + (a.cols > 4 ? 2 : 0), q->shown, a.cols - (a.cols > 4 ? 2 : 0)};
    for (int i = 0; i < q->shown; i++)
        lines_draw(&q->lines, q->top + i, c, body, i);
    q->seen = q->seen || (whole && q->top + q->shown >= q->lines.n);
    draw_answers(q, c, a, a.rows - 1);
    if (!whole)
        q->deaf_until = INT64_MAX;
    else if (q->deaf_until == INT64_MAX)
        q->deaf_until = ms + APPROVE_DEAF_MS;
}

/* --- its keys --------------------------------------------------------------------------------------------------- */

static bool has_seen(struct host *h)
{
    if (!approve(h)->seen)
        host_hint(h, "see the rest of it first: PgDn");
    return approve(h)->seen;
}

static void answered(struct host *h)
{
    window_close(h, WINDOW_approve);
    approve(h)->guard_until = h->ms + APPROVE_GUARD_MS;
    h->phase.asking = false;
}

static void yes(struct host *h, enum chat_answer how)
{
    if (!has_seen(h))
        return;
    answered(h);
    chat_approve(h->chat, how);
}

ACT(approve_once, yes(h, CHAT_YES))
ACT(approve_always, yes(h, CHAT_ALWAYS))

static void ask_for(struct approve *q, enum approve_asks what, const char *text)
{
    if (!q->reply)
        q->reply = editor_open();
    editor_reset(q->reply);
    editor_set(q->reply, text);
    q->asks = what;
}

void act_approve_edit(struct host *h)
{
    if (has_seen(h))
        ask_for(approve(h), APPROVE_EDITS, buf_str(&approve(h)->arguments));
}

ACT(approve_no, ask_for(approve(h), APPROVE_REFUSES, ""))

void act_reply(struct host *h)
{
    struct buf text = {0};
    struct err e = {0};
    bool edits = approve(h)->asks == APPROVE_EDITS;
    editor_text(approve(h)->reply, &text);
    if (edits && !chat_approve_edited(h->chat, buf_str(&text), text.len, &e)) {
        host_hint(h, "%s", e.msg);
    } else {
        answered(h);
        if (!edits)
            chat_refuse(h->chat, buf_str(&text));
    }
    buf_free(&text);
}

ACT(reply_up, editor_do(approve(h)->reply, EDIT_UP))
ACT(reply_down, editor_do(approve(h)->reply, EDIT_DOWN))
ACT(approve_up, scroll_by(approve(h), -1))
ACT(approve_down, scroll_by(approve(h), 1))

static int page_of_lines(const struct approve *q)
{
    return q->shown > 1 ? q->shown - 1 : 1;
}

ACT(approve_page_up, scroll_by(approve(h), -page_of_lines(approve(h))))
ACT(approve_page_down, scroll_by(approve(h), page_of_lines(approve(h))))

/* --- the window ------------------------------------------------------------------------------------------------- */

static void question_contexts(struct host *h, struct contexts *where)
{
    if (replies(approve(h))) {
        contexts_add(where, CONTEXT_reply);
        contexts_add(where, CONTEXT_edit);
    } else {
        contexts_add(where, CONTEXT_approve);
    }
}

static struct editor *reply_line(struct host *h)
{
    return replies(approve(h)) ? approve(h)->reply : NULL;
}

/* True while keys are ignored because the question has just appeared; text goes to the draft, and Ctrl-C always works. */
static bool is_deaf(struct host *h, const struct key_event *ev)
{
    struct approve *q = approve(h);
    if (!h->open[WINDOW_approve] || h->ms >= q->deaf_until)
        return false;
    if (q->deaf_until != INT64_MAX)
        q->deaf_until = h->ms + APPROVE_DEAF_MS;
    struct editor *to = replies(q) ? q->reply : window_front(h) == WINDOW_input ? h->line[WINDOW_input] : NULL;
    if (ev->kind == KEYS_TEXT && to)
        editor_insert(to, ev->text, ev->n);
    return !(ev->kind == KEYS_KEY && ev->code == 'c' && ev->mods == MOD_CTRL);
}

/* True for an Enter right after the answer, which is part of the answer and must not send the draft. */
static bool is_by_habit(struct host *h, const struct key_event *ev)
{
    struct approve *q = approve(h);
    if (ev->kind != KEYS_KEY || ev->code != KEY_ENTER || ev->mods || h->open[WINDOW_approve] || h->ms >= q->guard_until)
        return false;
    q->guard_until = 0;
    host_hint(h, "Enter ignored (it followed the question); press it again to send the draft");
    return true;
}

/* Takes keys that cannot be meant as an answer: a paste, keys right after it, since some terminals pass on a false end, and the rest of a paste that
 * stalled for so long that keys.c ended it. */
static bool take_unmeant(struct host *h, const struct key_event *ev)
{
    struct approve *q = approve(h);
    bool pasted = ev->kind == KEYS_PASTE || ev->kind == KEYS_PASTE_END;
    if ((pasted || ev->cut) && h->open[WINDOW_approve] && q->deaf_until != INT64_MAX)
        q->deaf_until = h->ms + APPROVE_DEAF_MS;
    bool mouse = ev->kind == KEYS_KEY && ev->code >= KEY_WHEEL_UP;
    return !mouse && (ev->kind == KEYS_TEXT || ev->kind == KEYS_KEY) && (is_deaf(h, ev) || is_by_habit(h, ev));
}

static bool turn_wheel(struct host *h, int rows)
{
    bool scrolls = approve(h)->shown < approve(h)->lines.n && !replies(approve(h));
    if (scrolls)
        scroll_by(approve(h), rows);
    return scrolls;
}

/* Returns to the question, else refuses the call and stops the answer. */
static bool back_or_stop(struct host *h, bool escape)
{
    (void)escape;
    if (replies(approve(h))) {
        approve(h)->asks = APPROVE_ASKS;
    } else {
        window_close(h, WINDOW_approve);
        host_stop(h);
    }
    return true;
}

static void forget_question(struct host *h)
{
    reset_question(approve(h));
}

/* Opens the window when a tool asks for approval, and closes it at the end of the turn. */
static void ask_or_end(struct host *h, const struct chat_event *ev)
{
    struct buf command = {0};
    if (ev->kind == CHAT_DONE || ev->kind == CHAT_FATAL)
        window_close(h, WINDOW_approve);
    if (ev->kind != CHAT_APPROVE)
        return;
    chat_asked_command(h->chat, &command);
    struct approve *q = approve(h);
    reset_question(q);
    q->deaf_until = INT64_MAX;
    buf_adds(&q->name, ev->name);
    buf_add(&q->arguments, ev->text, ev->n);
    buf_adds(&q->command, buf_str(&command));
    window_open(h, WINDOW_approve);
    buf_free(&command);
}

static void stay_deaf(struct host *h)
{
    approve(h)->deaf_until = INT64_MAX;
}

static int question_rows(struct host *h, const struct cells *c)
{
    return rows_for(approve(h), c->cols);
}

static void draw_approve(struct host *h, struct cells *c, struct area at)
{
    draw_question(approve(h), c, at, h->ms);
}

const struct window window_approve = {
    .asks = true, .takes_status = true, .bytes = sizeof(struct approve), .free = free_approve,
    .contexts = question_contexts, .focus = reply_line, .event = take_unmeant, .wheel = turn_wheel, .close = back_or_stop,
    .closed = forget_question, .chat = ask_or_end, .input_rows = question_rows, .draw_input = draw_approve,
    .hidden = stay_deaf, .hint = "",
};
