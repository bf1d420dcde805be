#include "ui/tui/windows.h"

#include <stdio.h>
#include <string.h>


static const struct look TEXT = {STYLE_popup, 0}, DIM = {STYLE_dim, 0}, CHOSEN = {STYLE_selected, 0}, BAR = {STYLE_bar, 0};

enum { INSPECT_ROWS = 11 };

struct inspect {
    int message;                        /* of chat_token(); -1: the answer under way */
    int token;
    int choice;                         /* of the token's alternatives */
    struct area list;                   /* their area on the screen */
};

static struct inspect *inspect(const struct host *h)
{
    return h->state[WINDOW_inspect];
}

/* Returns the message that chat_token() takes: -1 for the answer under way. */
static int tokens_of(const struct host *h, int message)
{
    return message < chat_n_messages(h->chat) ? message : -1;
}

/* Fills in the token under inspection, moved into the range that there is.  False if there is none. */
static bool current_token(struct host *h, struct chat_token *t)
{
    struct inspect *s = inspect(h);
    int message = tokens_of(h, s->message), n = chat_n_tokens(h->chat, message);
    if (s->token >= n)
        s->token = n - 1;
    if (s->token < 0 || !chat_token(h->chat, message, s->token, t))
        return false;
    if (s->choice >= t->n_alternatives)
        s->choice = t->n_alternatives - 1;
    if (s->choice < 0)
        s->choice = 0;
    return true;
}

/* Marks the token in the item that shows it. */
static void mark_token(struct host *h)
{
    struct chat_token t;
    if (!current_token(h, &t))
        return;
    enum item_kind kind = t.reasoning ? ITEM_REASONING : ITEM_ANSWER;
    for (int i = h->pane->items.n - 1; i >= 0; i--)
        if (h->pane->items.at[i].message == inspect(h)->message && h->pane->items.at[i].kind == kind) {
            pane_select(h->pane, i, t.at, t.n ? t.n : 1);
            pane_show(h->pane, i, t.at);
            return;
        }
}

/* Goes to a token; the choice that was made is the first one under the cursor. */
static void go_to_token(struct host *h, int token)
{
    struct inspect *s = inspect(h);
    struct chat_token t;
    s->token = token < 0 ? 0 : token;
    s->choice = 0;
    if (!current_token(h, &t))
        return;
    for (int i = 0; i < t.n_alternatives; i++)
        if (t.alternatives[i].n == t.n && !memcmp(t.alternatives[i].text, t.text, t.n))
            s->choice = i;
    mark_token(h);
}

static bool is_blank(const struct chat_token *t)
{
    size_t i = 0;
    while (i < t->n && strchr(" \n\t", t->text[i]))
        i++;
    return i == t->n;
}

/* Opens the inspector at the first token of a message's answer. */
static void inspect_message(struct host *h, int message)
{
    struct chat_token t;
    int n = chat_n_tokens(h->chat, tokens_of(h, message)), first = 0;
    while (first < n && chat_token(h->chat, tokens_of(h, message), first, &t) && (t.reasoning || is_blank(&t)))
        first++;                        /* starts at the answer, not at its reasoning */
    *inspect(h) = (struct inspect){.message = message};
    window_open(h, WINDOW_inspect);
    go_to_token(h, first < n ? first : 0);
}

static bool has_tokens(const struct host *h, int message)
{
    return message >= 0 && chat_n_tokens(h->chat, tokens_of(h, message)) > 0;
}

void inspect_answer(struct host *h, int nth)
{
    int last = -2;
    for (int item = h->pane->items.n - 1; item >= 0; item--) {
        int message = h->pane->items.at[item].message;
        if (message == last || !has_tokens(h, message))
            continue;
        last = message;
        if (--nth > 0)
            continue;
        inspect_message(h, message);
        return;
    }
    host_hint(h, "no answer to inspect yet");
}

/* Inspects the answer in view mode, else the newest one. */
void act_inspect(struct host *h)
{
    int item = pane_here(h->pane), message = item >= 0 ? h->pane->items.at[item].message : -1;
    if (window_front(h) == WINDOW_inspect)
        act_inspect_end(h);
    else if (window_front(h) == WINDOW_view && has_tokens(h, message))
        inspect_message(h, message);
    else
        inspect_answer(h, 1);
}

ACT(inspect_end, window_close(h, WINDOW_inspect))
ACT(token_left, go_to_token(h, inspect(h)->token - 1))
ACT(token_right, go_to_token(h, inspect(h)->token + 1))
ACT(token_first, go_to_token(h, 0))
ACT(token_last, go_to_token(h, chat_n_tokens(h->chat, tokens_of(h, inspect(h)->message)) - 1))
ACT(choice_up, inspect(h)->choice--)

void act_choice_down(struct host *h)
{
    inspect(h)->choice++;               /* current_token() limits it at both ends */
}

void act_branch_token(struct host *h)
{
    struct chat_token t;
    struct err e = {0};
    struct inspect s = *inspect(h);
    if (host_busy(h)) {
        host_hint(h, "the answer is not finished");
        return;
    }
    if (!current_token(h, &t) || !t.n_alternatives) {
        host_hint(h, "no other choices are known for this token");
        return;
    }
    s.choice = inspect(h)->choice;
    window_open(h, WINDOW_input);
    host_began(h, chat_branch_token(h->chat, s.message, s.token, s.choice, &e), &e);
}

/* --- drawing ---------------------------------------------------------------------------------------------------- */

/* Returns how a token came about, in words. */
static const char *name_of_source(enum token_source source)
{
    static const char *const names[] = {
        "sampled",
#define DRAFT_SOURCE(ID, key, share, row, fate, token) token,
#include "config/draft_sources.def"
        "forced",
    };
    return names[source];
}

/* Draws an alternative with its probability and a bar. */
static void draw_choice(struct cells *c, struct area a, int row, bool chosen, const char *text, size_t n, float prob)
{
    enum { PROB_COLUMNS = 8, BAR_COLUMNS = 24 };
    char number[16];
    int name = a.cols / 3 > 12 ? a.cols / 3 : a.cols - PROB_COLUMNS;
    struct look look = chosen ? CHOSEN : TEXT;
    if (chosen) {
        cells_puts(c, a, row, 2, TEXT, ">");
        c->cursor_row = a.row + row;
        c->cursor_col = a.col + 2;
    }
    struct area piece = {a.row + row, a.col, 1, name};
    cells_put(c, piece, 0, 4, look, text, n);
    snprintf(number, sizeof number, "%.3f", prob < 0 ? 0 : prob);
    cells_puts(c, a, row, name + 1, TEXT, number);
    for (int i = 0; i < (int)(prob * BAR_COLUMNS + 0.5f); i++)
        cells_puts(c, a, row, name + PROB_COLUMNS + i, BAR, "#");
}

/* Chooses the alternative that was clicked.  True if it was chosen already, which counts as Enter. */
static bool click_choice(struct host *h, int row, int col)
{
    struct chat_token t;
    struct inspect *s = inspect(h);
    int choice = row - s->list.row, before = s->choice;
    if (!area_has(s->list, row, col) || !current_token(h, &t) || choice >= t.n_alternatives)
        return false;
    s->choice = choice;
    return choice == before;
}

static bool turn_wheel(struct host *h, int rows)
{
    inspect(h)->choice += rows;         /* current_token() limits it */
    return true;
}

/* Draws the token, its alternatives and the keys. */
static void draw_tokens(struct host *h, struct cells *c, struct area at)
{
    struct chat_token t;
    inspect(h)->list = (struct area){at.row + 1, at.col, at.rows - 2, at.cols};
    char line[160], prob[32] = "not known";
    cells_blank(c, at, TEXT);
    if (!current_token(h, &t))
        return;
    if (t.prob >= 0)
        snprintf(prob, sizeof prob, "%.3f", t.prob);
    snprintf(line, sizeof line, "  token %d of %d%s   p %s   %s", inspect(h)->token + 1,
             chat_n_tokens(h->chat, tokens_of(h, inspect(h)->message)), t.reasoning ? ", reasoning" : "", prob, name_of_source(t.source));
    cells_puts(c, at, 0, 0, TEXT, line);
    for (int i = 0; i < t.n_alternatives && i + 2 < at.rows; i++)
        draw_choice(c, at, 1 + i, i == inspect(h)->choice, t.alternatives[i].text, t.alternatives[i].n, t.alternatives[i].prob);
    if (!t.n_alternatives)
        cells_puts(c, at, 1, 4, DIM, "no alternatives: they are recorded only for answers of this run");
    cells_puts(c, at, at.rows - 1, 0, DIM, "  Left/Right token  Up/Down choice  Enter branches here  q back");
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void unmark_token(struct host *h)
{
    pane_select(h->pane, 0, 0, 0);
}

static bool tell_token(struct host *h, char *out, size_t n)
{
    snprintf(out, n, "inspect %d/%d", inspect(h)->token + 1, chat_n_tokens(h->chat, tokens_of(h, inspect(h)->message)));
    return true;
}

/* Returns the rows of the inspector; one row of the transcript stays in view. */
static int inspector_rows(struct host *h, int rows)
{
    (void)h;
    return rows > INSPECT_ROWS ? INSPECT_ROWS : rows > 1 ? rows - 1 : 0;
}

const struct window window_inspect = {
    .bytes = sizeof(struct inspect), .in = {{CONTEXT_inspect}, 1}, .click = click_choice, .wheel = turn_wheel,
    .closed = unmark_token, .state = tell_token,
    .cover_rows = inspector_rows, .draw_cover = draw_tokens, .hint = "Esc back",
};
