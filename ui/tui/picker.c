#include "ui/tui/windows.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "session/file.h"
#include "session/list.h"
#include "session/search.h"
#include "session/trash.h"
#include "ui/tui/find.h"
#include "ui/tui/input.h"
#include "ui/tui/lines.h"
#include "ui/tui/numbers.h"
#include "ui/tui/popup.h"

enum { LINE = 2048 };                   /* bytes of a text that a list shows at most */

struct picked {
    const char *name, *title;           /* of a session; name is also an address; NULL: the row is no session */
    int id;                             /* index of the message or node, number of the part */
};

struct picker {
    enum picker_kind kind;
    struct popup popup;
    struct popup_row *rows;
    struct picked *of;                  /* [n] what the rows stand for */
    int  n;                             /* number of rows */
    int  cap;                           /* rows allocated */
    int  doomed;                        /* the row that the next Ctrl-D deletes, or -1 */
    struct scan scan;                   /* searches texts for the words of the filter */
    struct arena hits;                  /* the lines that it found */
    int  n_scanned;                     /* rows whose texts were searched; `n`: all */
    bool preview;                       /* the text of the chosen session is shown above */
    int  previewed;                     /* the row whose text `lines` has, */
    int  preview_columns;               /* for so many columns */
    struct lines lines;
    struct arena mem;
};

static struct picker *picker(const struct host *h)
{
    return h->state[WINDOW_picker];
}

/* --- rows ------------------------------------------------------------------------------------------------------- */

/* Appends a row for an item of this name or number. */
static struct popup_row *add_row(struct picker *p, const char *name, int id)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 32;
        p->rows = memory_resized(p->rows, (size_t)p->cap * sizeof *p->rows);
        p->of = memory_resized(p->of, (size_t)p->cap * sizeof *p->of);
    }
    p->of[p->n] = (struct picked){.name = name, .id = id};
    struct popup_row *row = &p->rows[p->n++];
    *row = (struct popup_row){0};
    return row;
}

static const char *first_line(struct picker *p, int indent, const char *sign, const char *text)
{
    text += strspn(text, " \n\t");
    size_t n = strcspn(text, "\n");
    return arena_printf(&p->mem, "%*s%s%.*s", indent, "", sign, (int)(n < LINE ? n : unicode_complete(text, LINE)), text);
}

/* Frees the list. */
static void empty_list(struct picker *p)
{
    arena_free(&p->mem);
    free(p->rows);
    free(p->of);
    scan_free(&p->scan);
    arena_free(&p->hits);
    lines_free(&p->lines);
    *p = (struct picker){0};
}

static void begin_list(struct picker *p, enum picker_kind kind, const char *title, const char *help)
{
    empty_list(p);
    p->kind = kind;
    p->doomed = -1;
    p->popup = (struct popup){.title = title, .help = help, .filter = "", .chosen = -1};
}

static void end_list(struct picker *p, int chosen)
{
    p->popup.rows = p->rows;
    p->popup.n = p->n;
    p->popup.chosen = chosen;
    p->n_scanned = p->n;
    popup_settle(&p->popup);
}

/* Lists the saved conversations.  False with the reason. */
static bool put_sessions(struct picker *p, const struct chat *c, int64_t now_s, struct err *e)
{
    struct sessions s = {0};
    struct buf label = {0};
    const char *open = chat_saved_as(c);
    if (!sessions_list(&s, NULL, e))
        return false;
    begin_list(p, PICK_SESSION, "sessions", "Enter opens  Tab previews  F2 renames  Ctrl-D deletes  Esc closes");
    for (int i = 0; i < s.n; i++) {
        const struct sessions_item *item = &s.items[i];
        struct popup_row *row = add_row(p, arena_strdup(&p->mem, item->name), i);
        buf_reset(&label);
        sessions_label(item, &label);
        row->text = first_line(p, 0, "", label.data);
        struct buf note = {0};
        buf_addf(&note, "%d turn%s  ", item->n_turns, item->n_turns == 1 ? "" : "s");         /* "3 turns  today 14:02" */
        when_ago(&note, item->changed_s, now_s);
        row->note = arena_strdup(&p->mem, note.data);
        buf_free(&note);
        p->of[p->n - 1].title = arena_strdup(&p->mem, item->title);
        row->cut = true;
        row->here = open && item->path && !strcmp(open, item->path);
    }
    buf_free(&label);
    sessions_free(&s);
    end_list(p, 0);
    return true;
}

/* Lists the user's messages, newest first. */
static void put_messages(struct picker *p, const struct chat *c)
{
    begin_list(p, PICK_MESSAGE, "edit an earlier message", "Enter edits it; sending it creates a branch  Esc closes");
    p->popup.empty = "no matching message";
    for (int i = chat_n_messages(c) - 1; i >= 0; i--) {
        struct chat_message m = chat_message(c, i);
        if (!strcmp(m.role, "user"))
            add_row(p, NULL, i)->text = first_line(p, 0, "", m.text);
    }
    end_list(p, 0);
}
/* The tree as links between its nodes. */
struct link { int parent, first, next, n_children, depth; };

/* Links the nodes to a tree.  A node is deeper than its parent only if that has several children: most conversations are straight. */
static struct link *link_nodes(const struct chat *c, int n)
{
    struct link *l = memory_zeroed((size_t)n + 1, sizeof *l);
    for (int k = 0; k <= n; k++)
        l[k].first = l[k].next = -1;
    for (int k = n - 1; k >= 0; k--) {                  /* backward, so that the first child made is the first in the list */
        int parent = l[k].parent = chat_node(c, k).parent;
        struct link *up = &l[parent < 0 ? n : parent];  /* node n is the parent of roots */
        l[k].next = up->first;
        up->first = k;
        up->n_children++;
    }
    for (int k = 0; k < n; k++) {
        const struct link *up = &l[l[k].parent < 0 ? n : l[k].parent];
        l[k].depth = up->depth + (up->n_children > 1);
    }
    return l;
}

/* Appends a message of the tree, indented by its depth; outputs of tools are left out. */
static void add_node(struct picker *p, const struct chat *c, int k, int depth)
{
    struct chat_node node = chat_node(c, k);
    if (!strcmp(node.role, "tool"))
        return;
    struct popup_row *row = add_row(p, NULL, k);
    struct buf line = {0};
    if (!node.text[strspn(node.text, " \n\t")])
        chat_node_title(&node, &line);
    row->text = first_line(p, 2 * depth, strcmp(node.role, "user") ? "" : "you: ", line.len ? line.data : node.text);
    buf_free(&line);
    row->here = node.on_path;
    if (node.on_path)
        p->popup.chosen = p->n - 1;
}


/* Lists all branches of the conversation. */
static void put_tree(struct picker *p, const struct chat *c)
{
    int n = chat_n_nodes(c);
    struct link *l = link_nodes(c, n);
    begin_list(p, PICK_NODE, "the tree of this conversation", "Enter goes there  Esc closes");
    for (int k = l[n].first; k >= 0;) {                 /* children are below their node */
        add_node(p, c, k, l[k].depth);
        if (l[k].first >= 0) {
            k = l[k].first;
        } else {
            while (k >= 0 && l[k].next < 0)
                k = l[k].parent;
            k = k < 0 ? -1 : l[k].next;
        }
    }
    free(l);
    end_list(p, p->popup.chosen);
}

/* Lists the addresses of a text, each once. */
static void put_urls(struct picker *p, const char *text, size_t n)
{
    size_t at = 0, len;
    begin_list(p, PICK_URL, "addresses", "typing narrows  Enter copies it  Esc closes");
    for (; excerpt_url(text, n, &at, &len); at += len) {
        const char *url = arena_strndup(&p->mem, text + at, len);
        bool known = false;
        for (int i = 0; i < p->n; i++)
            known = known || !strcmp(p->of[i].name, url);
        if (!known)
            add_row(p, url, p->n)->text = url;
    }
    end_list(p, 0);
}

/* Returns "812 tok  pinned", "4 tok  dropped, 1.2k without". */
static const char *part_note(struct picker *p, const struct chat_part *part)
{
    static const char *const signs[] = {[CHAT_PLAIN] = "", [CHAT_DROPPED] = "  dropped: ", [CHAT_PINNED] = "  pinned"};
    struct buf note = {0};
    buf_adds(&note, part->estimated ? "~" : "");
    number_tokens(&note, part->tokens);
    buf_addf(&note, " tok%s", signs[part->mark]);
    if (part->mark == CHAT_DROPPED)
        number_tokens(&note, part->whole);
    const char *text = arena_strdup(&p->mem, buf_str(&note));
    buf_free(&note);
    return text;
}

/* Returns the title with the tokens used. */
static const char *context_title(struct picker *p, struct chat *c)
{
    struct buf title = {0};
    struct chat_count used = chat_context_used(c);
    buf_addf(&title, "context: %s", used.estimated ? "~" : "");
    number_tokens(&title, used.tokens);
    if (chat_info(c) && chat_info(c)->n_ctx) {
        buf_adds(&title, " of ");
        number_context(&title, chat_info(c)->n_ctx);
    }
    const char *text = arena_strdup(&p->mem, buf_str(&title));
    buf_free(&title);
    return text;
}

/* Lists the parts of the context. */
static void put_parts(struct picker *p, struct chat *c)
{
    const struct chat_part *parts;
    int n = chat_context(c, &parts);
    begin_list(p, PICK_PART, NULL, "d drops or restores it  p pins it  q closes");
    p->popup.filter = NULL;
    p->popup.title = context_title(p, c);
    for (int i = 0; i < n; i++) {
        struct popup_row *row = add_row(p, NULL, parts[i].number);
        row->text = arena_printf(&p->mem, parts[i].number ? "%4d  %-7s %s" : "%4.0d  %-7s %s", parts[i].number, parts[i].what, parts[i].label);
        row->note = part_note(p, &parts[i]);
        row->cut = true;
        row->here = parts[i].mark == CHAT_PINNED;
    }
    end_list(p, p->n - 1);
}

static bool is_narrowed(const struct picker *p)
{
    return p->kind != PICK_PART;
}

/* Settles the choice; an empty list says whether the search has ended. */
static void settle_list(struct picker *p)
{
    p->popup.empty = p->kind != PICK_SESSION ? p->popup.empty : p->n_scanned < p->n ? "searching ..." : "no matching conversation";
    popup_settle(&p->popup);
}

/* Lists the rows with these words at once, and sessions with these words in their texts as they are found. */
static void filter_list(struct picker *p, const char *words)
{
    p->popup.filter = arena_strdup(&p->mem, words);
    p->doomed = -1;
    scan_begin(&p->scan, words);
    arena_free(&p->hits);
    for (int i = 0; i < p->n; i++) {
        p->rows[i].found = false;
        p->rows[i].more = NULL;
    }
    p->n_scanned = p->kind == PICK_SESSION && p->scan.words.n ? 0 : p->n;
    settle_list(p);
}

static bool searches(const struct host *h)
{
    return picker(h)->n_scanned < picker(h)->n;
}

/* Searches texts for a few milliseconds, so that no key waits longer. */
static void search_on(struct host *h)
{
    enum { SLICE_MS = 4 };
    struct picker *p = picker(h);
    struct buf path = {0};
    for (int64_t start = clock_ns(); searches(h) && clock_ms_since(start) < SLICE_MS;) {
        struct popup_row *row = &p->rows[p->n_scanned];
        const struct picked *of = &p->of[p->n_scanned];
        enum scan_result result = session_path_of(of->name, &path, NULL) ? scan_step(&p->scan, of->name, of->title, path.data) : SCAN_NOT;
        if (result == SCAN_MORE)
            continue;
        p->n_scanned++;
        row->found = result == SCAN_FOUND;
        if (row->found && p->scan.found.hit.len)
            row->more = arena_strdup(&p->hits, words_near(&p->scan.words, p->scan.found.hit.data));
    }
    settle_list(p);
    buf_free(&path);
}

/* --- what was said in a session --------------------------------------------------------------------------------- */

/* Makes the preview again if the choice or the width has changed. */
static void make_preview(struct picker *p, int columns)
{
    struct buf text = {0};
    struct err e = {0};
    int row = p->popup.chosen;
    if (p->previewed == row && p->preview_columns == columns)
        return;
    p->previewed = row;
    p->preview_columns = columns;
    lines_reset(&p->lines);
    if (row >= 0 && !sessions_text(p->of[row].name, &text, &e))
        buf_adds(&text, e.msg);
    lines_wrap(&p->lines, (struct look){STYLE_text, 0}, buf_str(&text), text.len, 0, columns > 1 ? columns : 1, 0);
    while (p->lines.n && !lines_columns(&p->lines, p->lines.n - 1))
        lines_cut(&p->lines, p->lines.n - 1);
    buf_free(&text);
}

/* --- its keys --------------------------------------------------------------------------------------------------- */

void picker_open(struct host *h, enum picker_kind kind)
{
    struct err e = {0};
    if (host_busy(h)) {
        host_hint(h, "the answer is not finished");
        return;
    }
    if (kind == PICK_SESSION && !put_sessions(picker(h), h->chat, (int64_t)time(NULL), &e)) {
        host_hint(h, "%s", e.msg);
        return;
    }
    if (kind == PICK_MESSAGE)
        put_messages(picker(h), h->chat);
    if (kind == PICK_NODE)
        put_tree(picker(h), h->chat);
    if (kind == PICK_PART)
        put_parts(picker(h), h->chat);
    if (!picker(h)->n) {
        host_hint(h, kind == PICK_SESSION ? "no saved conversation yet" : "no messages yet");
        window_close(h, WINDOW_picker);
        empty_list(picker(h));
        return;
    }
    window_open(h, WINDOW_picker);
    editor_reset(h->line[WINDOW_picker]);
    picker(h)->previewed = -1;
}

void picker_find(struct host *h, const char *words)
{
    picker_open(h, PICK_SESSION);
    if (!h->open[WINDOW_picker])
        return;
    editor_set(h->line[WINDOW_picker], words);
    filter_list(picker(h), words);
}

/* Lists the addresses in the message of view mode; Esc goes back there. */
void act_urls(struct host *h)
{
    static const struct buf none;
    int item = pane_here(h->pane);
    const struct buf *text = item >= 0 ? &h->pane->items.at[item].source : &none;
    put_urls(picker(h), buf_str(text), text->len);
    if (picker(h)->n) {
        editor_reset(h->line[WINDOW_picker]);
        window_open(h, WINDOW_picker);
    } else {
        empty_list(picker(h));
        host_hint(h, "no address in this message");
    }
}

/* Opens a saved conversation and shows it, or the reason why it cannot be read. */
static void load_session(struct host *h, const char *name)
{
    struct buf note = {0};
    struct err e = {0};
    bool ok = chat_load(h->chat, name, &note, &e);
    if (ok) {
        pane_reset(h->pane);
        host_changed(h);
    }
    pane_to_end(h->pane);
    if (note.len)
        feed_say(&h->feed, ITEM_NOTE, "%s", note.data);
    if (!ok)
        feed_say(&h->feed, ITEM_ERROR, "%s", e.msg);
    else
        input_restore(h);
    buf_free(&note);
}

void act_picker_take(struct host *h)
{
    struct picker *p = picker(h);
    struct err e = {0};
    int row = p->popup.chosen;
    if (row < 0 || p->kind == PICK_PART)
        return;
    if (p->kind == PICK_URL) {
        struct buf text = {0};
        buf_adds(&text, p->of[row].name);
        host_copy(h, &text, "address");
    } else if (p->kind == PICK_SESSION && p->rows[row].here)
        pane_to_end(h->pane);           /* the session is open already */
    else if (p->kind == PICK_SESSION)
        load_session(h, p->of[row].name);
    else if (p->kind == PICK_MESSAGE)
        revise_begin(h, p->of[row].id);
    else if (chat_go(h->chat, p->of[row].id, &e))
        feed_sync(&h->feed);
    else
        host_hint(h, "%s", e.msg);
    window_close(h, WINDOW_picker);
}

/* --- the context ------------------------------------------------------------------------------------------------- */

/* Sets the mark of the chosen part, or removes it. */
static void mark_part(struct host *h, enum chat_mark wanted)
{
    struct err e = {0};
    const struct chat_part *parts;
    int row = picker(h)->popup.chosen, n = chat_context(h->chat, &parts);
    if (row < 0 || row >= n)
        return;
    if (!picker(h)->of[row].id)
        err_set(&e, "/system and /tools change that");
    else
        chat_mark(h->chat, parts[row].number, parts[row].mark == wanted ? CHAT_PLAIN : wanted, &e);
    put_parts(picker(h), h->chat);
    popup_choose(&picker(h)->popup, row);
    h->recount = true;
    if (*e.msg)
        host_hint(h, "%s", e.msg);
}

ACT(part_drop, mark_part(h, CHAT_DROPPED))
ACT(part_pin, mark_part(h, CHAT_PINNED))
ACT(part_end, window_close(h, WINDOW_picker))

/* --- moving ------------------------------------------------------------------------------------------------------ */

static void move_choice(struct host *h, int by)
{
    popup_move(&picker(h)->popup, by);
    picker(h)->doomed = -1;
}

ACT(picker_up, move_choice(h, -1))
ACT(picker_down, move_choice(h, 1))
ACT(picker_page_up, move_choice(h, -POPUP_ROWS + 1))
ACT(picker_page_down, move_choice(h, POPUP_ROWS - 1))

/* Makes the list again, with the same session chosen, or the one in its place. */
static void list_again(struct host *h, int row)
{
    struct picker *p = picker(h);
    bool preview = p->preview;
    char *name = memory_strdup(p->of[row].name);
    picker_open(h, PICK_SESSION);
    for (int i = 0; i < p->n; i++)
        if (!strcmp(p->of[i].name, name))
            row = i;
    if (p->n)
        popup_choose(&p->popup, row < p->n ? row : p->n - 1);
    p->preview = preview;
    free(name);
}

void act_picker_delete(struct host *h)
{
    struct picker *p = picker(h);
    struct err e = {0};
    int row = p->popup.chosen;
    if (p->kind != PICK_SESSION || row < 0)
        return;
    if (p->doomed != row) {
        p->doomed = row;
        host_hint(h, "Ctrl-D again moves it to the trash");
        return;
    }
    struct buf name = {0}, path = {0};
    buf_adds(&name, p->of[row].name);
    if (trash_put(&name, &path, &e)) {
        list_again(h, row);
        host_hint(h, "deleted; /restore %s brings it back", name.data);
    } else {
        host_hint(h, "%s", e.msg);
        p->doomed = -1;
    }
    buf_free(&name);
    buf_free(&path);
}

void act_picker_preview(struct host *h)
{
    if (picker(h)->kind == PICK_SESSION)
        picker(h)->preview = !picker(h)->preview;
}

/* Gives the chosen conversation another title. */
static void rename_chosen(struct host *h, const char *title)
{
    struct picker *p = picker(h);
    struct err e = {0};
    int row = p->popup.chosen;
    bool ok = p->rows[row].here ? chat_rename(h->chat, title, &e) : sessions_rename(p->of[row].name, title, &e);
    list_again(h, row);
    if (!ok)
        host_hint(h, "%s", e.msg);
}

void act_picker_rename(struct host *h)
{
    static const struct prompt_ask ask = {.sign = "> ", .told = "new title; empty: the first line again", .done = rename_chosen};
    struct picker *p = picker(h);
    if (p->kind != PICK_SESSION || p->popup.chosen < 0)
        return;
    editor_reset(h->line[WINDOW_picker]);        /* the whole list is shown afterwards */
    filter_list(p, "");
    prompt_open(h, &ask, p->of[p->popup.chosen].title);
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void picker_contexts(struct host *h, struct contexts *where)
{
    bool typed = is_narrowed(picker(h));
    if (!typed)
        contexts_add(where, CONTEXT_map);
    contexts_add(where, CONTEXT_picker);
    if (typed)
        contexts_add(where, CONTEXT_edit);
}

static struct editor *filter_line(struct host *h)
{
    return is_narrowed(picker(h)) ? h->line[WINDOW_picker] : NULL;
}

static void filter_by_line(struct host *h)
{
    struct buf text = {0};
    if (!is_narrowed(picker(h)))
        return;
    editor_text(h->line[WINDOW_picker], &text);
    filter_list(picker(h), buf_str(&text));
    buf_free(&text);
}

static void empty_picker(struct host *h)
{
    empty_list(picker(h));
}

static struct popup *picker_list(struct host *h)
{
    struct picker *p = picker(h);
    p->popup.half = p->preview;         /* the preview above it needs some rows, too */
    if (p->popup.chosen != p->doomed)
        p->doomed = -1;
    return &p->popup;
}

/* Draws the end of the chosen conversation as a preview. */
static void draw_said(struct host *h, struct cells *c, struct area at)
{
    struct picker *p = picker(h);
    if (window_active(h) != WINDOW_picker || !p->preview || at.rows < 1)
        return;
    make_preview(p, at.cols);
    cells_blank(c, at, (struct look){STYLE_text, 0});
    for (int i = 0; i < at.rows && i < p->lines.n; i++)
        lines_draw(&p->lines, p->lines.n > at.rows ? p->lines.n - at.rows + i : i, c, at, i);
}

const struct window window_picker = {
    .bytes = sizeof(struct picker), .free = empty_picker, .contexts = picker_contexts, .has_line = true,
    .focus = filter_line, .edited = filter_by_line, .closed = empty_picker, .works = searches, .work = search_on, .list = picker_list,
    .draw_rest = draw_said, .hint = "Esc back",
};

/* --- the list of models -------------------------------------------------------------------------------------------- */

/* The list of a server's models: one is chosen before the first message goes, another one later (/model). */
struct models {
    struct buf words;                   /* its text */
    struct popup popup;
    struct popup_row *rows;
    struct buf names;                   /* of the rows, each ended by a zero byte */
};

static struct models *models(const struct host *h)
{
    return h->state[WINDOW_models];
}

static void forget_models(struct host *h)
{
    struct models *m = models(h);
    free(m->rows);
    buf_free(&m->names);
    buf_free(&m->words);
    *m = (struct models){0};
}

/* Fills the list; the choice is the model that answers, or the first one. */
static void put_models(struct host *h)
{
    struct models *m = models(h);
    const char *const *names;
    const int n = chat_models(h->chat, &names);
    const struct model_info *now = chat_info(h->chat);
    forget_models(h);
    m->rows = memory_zeroed((size_t)n, sizeof *m->rows);
    for (int i = 0; i < n; i++)
        buf_add(&m->names, names[i], strlen(names[i]) + 1);
    m->popup = (struct popup){.title = "which model", .help = "typing narrows  Enter chooses  Esc leaves it open", .filter = "",
                              .empty = "no model of that name", .rows = m->rows, .n = n};
    const char *name = m->names.data;
    for (int i = 0; i < n; i++, name += strlen(name) + 1) {
        m->rows[i].text = name;
        m->rows[i].here = now && !strcmp(now->model, name);
        if (m->rows[i].here)
            m->popup.chosen = i;
    }
    editor_reset(h->line[WINDOW_models]);
    popup_settle(&m->popup);
}

/* True if the user writes, or reads another list, which the list must not cover; the next message asks instead. */
static bool is_disturbed(const struct host *h)
{
    return !host_busy(h) && (window_active(h) != WINDOW_input || !editor_empty(h->line[WINDOW_input]));
}

/* Opens the list of models when one of them must be chosen, unless the user is busy. */
static void take_models(struct host *h, const struct chat_event *ev)
{
    const char *const *names;
    if (ev->kind == CHAT_READY || ev->kind == CHAT_DONE || ev->kind == CHAT_FATAL)
        window_close(h, WINDOW_models);
    if (ev->kind != CHAT_MODELS || !chat_models(h->chat, &names))
        return;
    if (!h->open[WINDOW_models] && is_disturbed(h)) {
        feed_say(&h->feed, ITEM_NOTE, "the server has several models: which one is meant is asked with the message; /model lists them");
    } else {
        put_models(h);
        window_open(h, WINDOW_models);
    }
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

void act_models_take(struct host *h)
{
    struct models *m = models(h);
    struct err e = {0};
    if (m->popup.chosen < 0)
        return;
    if (!chat_choose_model(h->chat, m->rows[m->popup.chosen].text, &e))
        host_hint(h, "%s", e.msg);
    window_close(h, WINDOW_models);
}

ACT(models_up, popup_move(&models(h)->popup, -1))
ACT(models_down, popup_move(&models(h)->popup, 1))
ACT(models_page_up, popup_move(&models(h)->popup, -POPUP_ROWS + 1))
ACT(models_page_down, popup_move(&models(h)->popup, POPUP_ROWS - 1))

/* --- the window -------------------------------------------------------------------------------------------------- */

/* Closes the list; a message that waits for the choice comes back to the draft. */
static bool leave_open(struct host *h, bool escape)
{
    (void)escape;
    window_close(h, WINDOW_models);
    if (host_busy(h) && !chat_ready(h->chat))
        host_stop(h);
    else if (!chat_ready(h->chat))
        host_hint(h, "a message asks again, and so does /model");
    return true;
}

static void narrow(struct host *h)
{
    struct models *m = models(h);
    buf_reset(&m->words);
    editor_text(h->line[WINDOW_models], &m->words);
    m->popup.filter = buf_str(&m->words);
    popup_settle(&m->popup);
}

static struct popup *models_list(struct host *h)
{
    return &models(h)->popup;
}

const struct window window_models = {
    .bytes = sizeof(struct models), .free = forget_models, .in = {{CONTEXT_models, CONTEXT_edit}, 2}, .has_line = true,
    .edited = narrow, .close = leave_open, .closed = forget_models, .chat = take_models, .list = models_list,
    .hint = "Enter chooses, Esc leaves it open\tEnter chooses",
};
