#include "ui/tui/picker.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "chat/sessions.h"
#include "chat/trash.h"
#include "ui/tui/app.h"
#include "ui/tui/figure.h"
#include "ui/tui/prompt.h"
#include "ui/tui/url.h"

enum { LINE = 200 };                    /* bytes of a text that can be seen of it in a list */

/* --- rows ------------------------------------------------------------------------------------------------------- */

static struct popup_row *add(struct picker *p, const char *name, int id)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 32;
        p->rows = memory_resized(p->rows, (size_t)p->cap * sizeof *p->rows);
        p->names = memory_resized(p->names, (size_t)p->cap * sizeof *p->names);
        p->ids = memory_resized(p->ids, (size_t)p->cap * sizeof *p->ids);
    }
    p->names[p->n] = name;
    p->ids[p->n] = id;
    struct popup_row *row = &p->rows[p->n++];
    *row = (struct popup_row){0};
    return row;
}

static const char *first_line(struct picker *p, int indent, const char *sign, const char *text)
{
    text += strspn(text, " \n\t");
    size_t n = strcspn(text, "\n");
    return arena_printf(&p->mem, "%*s%s%.*s", indent, "", sign, (int)(n < LINE ? n : LINE), text);
}

static void begin(struct picker *p, enum picker_kind kind, const char *title, const char *help)
{
    picker_free(p);
    p->kind = kind;
    p->doomed = -1;
    p->popup = (struct popup){.title = title, .help = help, .filter = "", .chosen = -1};
}

static void end(struct picker *p, int chosen)
{
    p->popup.rows = p->rows;
    p->popup.n = p->n;
    p->popup.chosen = chosen;
    popup_settle(&p->popup);
}

static const char *ago(struct picker *p, int64_t seconds)
{
    long long s = seconds > 0 ? seconds : 0;
    if (s < 60)
        return "just now";
    if (s < 3600)
        return arena_printf(&p->mem, "%lld min", s / 60);
    if (s < 2 * 86400)
        return arena_printf(&p->mem, "%lld h", s / 3600);
    return arena_printf(&p->mem, "%lld days", s / 86400);
}

/* Does another session have the title of this one?  Then its name tells them apart. */
static bool same_title(const struct sessions *s, int i)
{
    for (int k = 0; k < s->n; k++)
        if (k != i && s->items[k].title && !strcmp(s->items[k].title, s->items[i].title))
            return true;
    return false;
}

bool picker_sessions(struct picker *p, const struct chat *c, const char *find, int64_t now_s, struct err *e)
{
    struct sessions s = {0};
    const char *open = chat_saved_as(c);
    if (!sessions_list(&s, find, e))
        return false;
    char *kept = find ? memory_strdup(find) : NULL;     /* it may be the list's own */
    begin(p, PICK_SESSION, "sessions", "Enter goes on with it  Tab shows it  F2 renames  Ctrl-D deletes  Esc closes");
    p->find = kept;
    p->popup.empty = "no session of that kind";
    for (int i = 0; i < s.n; i++) {
        const struct sessions_item *item = &s.items[i];
        struct popup_row *row = add(p, arena_strdup(&p->mem, item->name), i);
        bool twin = same_title(&s, i);
        row->text = first_line(p, 0, "", item->title && *item->title ? item->title : item->name);
        row->note = arena_printf(&p->mem, "%s%s%d turn%s  %s", twin ? item->name : "", twin ? "  " : "", item->n_turns, item->n_turns == 1 ? "" : "s", ago(p, now_s - item->changed_s));
        row->cut = true;
        row->here = open && item->path && !strcmp(open, item->path);
    }
    sessions_free(&s);
    end(p, 0);
    return true;
}

void picker_messages(struct picker *p, const struct chat *c)
{
    begin(p, PICK_MESSAGE, "edit an earlier message", "Enter takes it into the input; sent, it stands beside this one  Esc closes");
    p->popup.empty = "no message of that kind";
    for (int i = chat_n_messages(c) - 1; i >= 0; i--) {
        struct chat_message m = chat_message(c, i);
        if (strcmp(m.role, "user"))
            continue;
        add(p, NULL, i)->text = first_line(p, 0, "", m.text);
    }
    end(p, 0);
}

/* The tree as links between its nodes. */
struct link { int parent, first, next, n_children, depth; };

/* A node stands deeper than its parent only where that has several children: most conversations are straight. */
static struct link *link_nodes(const struct chat *c, int n)
{
    struct link *l = memory_zeroed((size_t)n + 1, sizeof *l);
    for (int k = 0; k <= n; k++)
        l[k].first = l[k].next = -1;
    for (int k = n - 1; k >= 0; k--) {                  /* backward: the first child made is the first in the list */
        int parent = l[k].parent = chat_node(c, k).parent;
        struct link *up = &l[parent < 0 ? n : parent];  /* roots hang on one more */
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

static void add_node(struct picker *p, const struct chat *c, int k, int depth)
{
    struct chat_node node = chat_node(c, k);
    if (!strcmp(node.role, "tool"))
        return;
    struct popup_row *row = add(p, NULL, k);
    row->text = first_line(p, 2 * depth, strcmp(node.role, "user") ? "" : "you: ", node.text);
    row->here = node.on_path;
    if (node.on_path)
        p->popup.chosen = p->n - 1;
}

void picker_tree(struct picker *p, const struct chat *c)
{
    int n = chat_n_nodes(c);
    struct link *l = link_nodes(c, n);
    begin(p, PICK_NODE, "the tree of this conversation", "Enter goes there  Esc closes");
    for (int k = l[n].first; k >= 0;) {                 /* what grew from a node stands below it */
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
    end(p, p->popup.chosen);
}

void picker_urls(struct picker *p, const char *text, size_t n)
{
    size_t at = 0, len;
    begin(p, PICK_URL, "addresses", "typing narrows  Enter copies it  Esc closes");
    for (; url_next(text, n, &at, &len); at += len) {
        const char *url = arena_strndup(&p->mem, text + at, len);
        bool known = false;
        for (int i = 0; i < p->n; i++)
            known = known || !strcmp(p->names[i], url);
        if (!known)
            add(p, url, p->n)->text = url;
    }
    end(p, 0);
}

/* "812 tok  pinned", "4 tok  dropped, 1.2k without" */
static const char *part_note(struct picker *p, const struct chat_part *part)
{
    static const char *const signs[] = {[CHAT_PLAIN] = "", [CHAT_DROPPED] = "  dropped: ", [CHAT_PINNED] = "  pinned"};
    struct buf note = {0};
    buf_adds(&note, part->estimated ? "~" : "");
    figure_tokens(&note, part->tokens);
    buf_addf(&note, " tok%s", signs[part->mark]);
    if (part->mark == CHAT_DROPPED)
        figure_tokens(&note, part->whole);
    const char *text = arena_strdup(&p->mem, buf_str(&note));
    buf_free(&note);
    return text;
}

static const char *context_title(struct picker *p, struct chat *c)
{
    struct buf title = {0};
    struct chat_count used = chat_context_used(c);
    buf_addf(&title, "context: %s", used.estimated ? "~" : "");
    figure_tokens(&title, used.tokens);
    if (chat_info(c)) {
        buf_adds(&title, " of ");
        figure_window(&title, chat_info(c)->n_ctx);
    }
    const char *text = arena_strdup(&p->mem, buf_str(&title));
    buf_free(&title);
    return text;
}

void picker_parts(struct picker *p, struct chat *c)
{
    const struct chat_part *parts;
    int n = chat_context(c, &parts);
    begin(p, PICK_PART, NULL, "d drops it from the next prompts, or takes it back  p pins it  q closes");
    p->popup.filter = NULL;
    p->popup.title = context_title(p, c);
    for (int i = 0; i < n; i++) {
        struct popup_row *row = add(p, NULL, parts[i].number);
        row->text = arena_printf(&p->mem, parts[i].number ? "%4d  %-7s %s" : "%4.0d  %-7s %s", parts[i].number, parts[i].what, parts[i].label);
        row->note = part_note(p, &parts[i]);
        row->cut = true;
        row->here = parts[i].mark == CHAT_PINNED;
    }
    end(p, p->n - 1);
}

bool picker_narrows(const struct picker *p)
{
    return p->kind != PICK_PART;
}

void picker_filter(struct picker *p, const char *words)
{
    p->popup.filter = arena_strdup(&p->mem, words);
    p->doomed = -1;
    popup_settle(&p->popup);
}

void picker_free(struct picker *p)
{
    arena_free(&p->mem);
    free(p->rows);
    free(p->names);
    free(p->ids);
    free(p->find);
    lines_free(&p->lines);
    *p = (struct picker){0};
}

/* --- what was said in a session --------------------------------------------------------------------------------- */

/* Anew where the choice or the width has changed. */
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
    if (row >= 0 && !sessions_text(p->names[row], &text, &e))
        buf_adds(&text, e.msg);
    lines_wrap(&p->lines, (struct look){STYLE_text, 0}, buf_str(&text), text.len, 0, columns > 1 ? columns : 1, 0);
    while (p->lines.n && !lines_columns(&p->lines, p->lines.n - 1))
        lines_cut(&p->lines, p->lines.n - 1);
    buf_free(&text);
}

void picker_draw_preview(struct picker *p, struct cells *c, struct area a)
{
    if (!p->preview || a.rows < 1)
        return;
    make_preview(p, a.cols);
    cells_blank(c, a, (struct look){STYLE_text, 0});
    for (int i = 0; i < a.rows && i < p->lines.n; i++)
        lines_draw(&p->lines, p->lines.n > a.rows ? p->lines.n - a.rows + i : i, c, a, i);
}

/* --- its keys --------------------------------------------------------------------------------------------------- */

static void pick(struct app *a, enum picker_kind kind, const char *find)
{
    struct err e = {0};
    if (app_busy(a)) {
        app_hint(a, "the answer is not finished");
        return;
    }
    if (kind == PICK_SESSION && !picker_sessions(&a->picker, a->chat, find, (int64_t)time(NULL), &e)) {
        app_hint(a, "%s", e.msg);
        return;
    }
    if (kind == PICK_MESSAGE)
        picker_messages(&a->picker, a->chat);
    if (kind == PICK_NODE)
        picker_tree(&a->picker, a->chat);
    if (kind == PICK_PART)
        picker_parts(&a->picker, a->chat);
    if (!a->picker.n) {
        app_hint(a, kind != PICK_SESSION ? "nothing was said yet" : a->picker.find ? "no conversation holds all these words" : "no conversation was kept yet");
        window_close(a, WINDOW_picker);
        picker_free(&a->picker);
        return;
    }
    window_open(a, WINDOW_picker);
    editor_reset(a->line);
    a->picker.previewed = -1;
}

void app_pick(struct app *a, enum picker_kind kind)
{
    pick(a, kind, NULL);
}

void app_find(struct app *a, const char *words)
{
    pick(a, PICK_SESSION, *words ? words : NULL);
}

/* Of the message that view mode stands at; Esc goes back there. */
void act_urls(struct app *a)
{
    struct buf text = {0};
    int item = pane_here(a->pane);
    if (item >= 0)
        pane_source(a->pane, item, &text);
    picker_urls(&a->picker, buf_str(&text), text.len);
    if (a->picker.n) {
        editor_reset(a->line);
        window_open(a, WINDOW_picker);
    } else {
        picker_free(&a->picker);
        app_hint(a, "no address in this message");
    }
    buf_free(&text);
}

static void copy_url(struct app *a, const char *url)
{
    struct buf text = {0};
    buf_adds(&text, url);
    browse_copy(a, &text, "address");
}

static void load(struct app *a, const char *name)
{
    struct buf note = {0};
    struct err e = {0};
    bool ok = chat_load(a->chat, name, &note, &e);
    if (ok) {
        pane_reset(a->pane);
        app_changed(a);
    }
    pane_to_end(a->pane);
    if (note.len)
        feed_say(&a->feed, ITEM_NOTE, note.data);
    if (!ok)
        feed_say(&a->feed, ITEM_ERROR, e.msg);
    else
        input_restore(a);
    buf_free(&note);
}

void act_picker_take(struct app *a)
{
    struct picker *p = &a->picker;
    struct err e = {0};
    int row = p->popup.chosen;
    if (row < 0 || p->kind == PICK_PART)
        return;
    if (p->kind == PICK_URL)
        copy_url(a, p->names[row]);
    else if (p->kind == PICK_SESSION)
        load(a, p->names[row]);
    else if (p->kind == PICK_MESSAGE)
        revise_begin(a, p->ids[row]);
    else if (chat_go(a->chat, p->ids[row], &e))
        feed_sync(&a->feed);
    else
        app_hint(a, "%s", e.msg);
    window_close(a, WINDOW_picker);
}

/* --- the context ------------------------------------------------------------------------------------------------- */

/* The chosen part gets that mark, or loses it. */
static void mark(struct app *a, enum chat_mark wanted)
{
    struct err e = {0};
    const struct chat_part *parts;
    int row = a->picker.popup.chosen, n = chat_context(a->chat, &parts);
    if (row < 0 || row >= n)
        return;
    if (!a->picker.ids[row])
        err_set(&e, "/system and /tools change that");
    else
        chat_mark(a->chat, parts[row].number, parts[row].mark == wanted ? CHAT_PLAIN : wanted, &e);
    picker_parts(&a->picker, a->chat);
    popup_choose(&a->picker.popup, row);
    app_count_context(a);
    if (*e.msg)
        app_hint(a, "%s", e.msg);
}

void act_part_drop(struct app *a)
{
    mark(a, CHAT_DROPPED);
}

void act_part_pin(struct app *a)
{
    mark(a, CHAT_PINNED);
}

void act_part_end(struct app *a)
{
    window_close(a, WINDOW_picker);
}

/* --- moving ------------------------------------------------------------------------------------------------------ */

static void move(struct app *a, int by)
{
    popup_move(&a->picker.popup, by);
    a->picker.doomed = -1;
}

void act_picker_up(struct app *a)
{
    move(a, -1);
}

void act_picker_down(struct app *a)
{
    move(a, 1);
}

void act_picker_page_up(struct app *a)
{
    move(a, -POPUP_ROWS + 1);
}

void act_picker_page_down(struct app *a)
{
    move(a, POPUP_ROWS - 1);
}

/* The list anew, with the same session chosen, or what has taken its place. */
static void list_again(struct app *a, int row)
{
    struct picker *p = &a->picker;
    bool preview = p->preview;
    char *name = memory_strdup(p->names[row]);
    pick(a, PICK_SESSION, p->find);
    for (int i = 0; i < p->n; i++)
        if (!strcmp(p->names[i], name))
            row = i;
    if (p->n)
        popup_choose(&p->popup, row < p->n ? row : p->n - 1);
    p->preview = preview;
    free(name);
}

void act_picker_delete(struct app *a)
{
    struct picker *p = &a->picker;
    struct err e = {0};
    int row = p->popup.chosen;
    if (p->kind != PICK_SESSION || row < 0)
        return;
    if (p->doomed != row) {
        p->doomed = row;
        app_hint(a, "Ctrl-D again moves it to the trash");
        return;
    }
    struct buf name = {0}, path = {0};
    buf_adds(&name, p->names[row]);
    if (trash_put(&name, &path, &e)) {
        list_again(a, row);
        app_hint(a, "deleted; /restore %s brings it back", name.data);
    } else {
        app_hint(a, "%s", e.msg);
        p->doomed = -1;
    }
    buf_free(&name);
    buf_free(&path);
}

void act_picker_preview(struct app *a)
{
    if (a->picker.kind == PICK_SESSION)
        a->picker.preview = !a->picker.preview;
}

static void rename_chosen(struct app *a, const char *title)
{
    struct picker *p = &a->picker;
    struct err e = {0};
    int row = p->popup.chosen;
    bool ok = p->rows[row].here ? chat_rename(a->chat, title, &e) : sessions_rename(p->names[row], title, &e);
    list_again(a, row);
    if (!ok)
        app_hint(a, "%s", e.msg);
}

void act_picker_rename(struct app *a)
{
    static const struct prompt_ask ask = {.sign = "> ", .told = "its title; an empty one takes the first line again", .done = rename_chosen};
    struct picker *p = &a->picker;
    if (p->kind != PICK_SESSION || p->popup.chosen < 0)
        return;
    editor_reset(a->line);              /* the list is whole again afterwards */
    picker_filter(p, "");
    prompt_open(a, &ask, p->rows[p->popup.chosen].text);
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void contexts(struct app *a, struct contexts *where)
{
    bool narrows = picker_narrows(&a->picker);
    if (!narrows)
        contexts_add(where, CONTEXT_map);
    contexts_add(where, CONTEXT_picker);
    if (narrows)
        contexts_add(where, CONTEXT_edit);
}

static struct editor *focus(struct app *a)
{
    return picker_narrows(&a->picker) ? a->line : NULL;
}

static void edited(struct app *a)
{
    struct buf text = {0};
    if (!picker_narrows(&a->picker))
        return;
    editor_text(a->line, &text);
    picker_filter(&a->picker, buf_str(&text));
    buf_free(&text);
}

static bool close_list(struct app *a, bool escape)
{
    (void)escape;
    window_close(a, WINDOW_picker);
    return true;
}

static void closed(struct app *a)
{
    picker_free(&a->picker);
}

static const char *hint(struct app *a)
{
    (void)a;
    return "Esc back";
}

/* While a tool asks the list is not shown: the keys are the question's. */
static bool is_shown(const struct app *a)
{
    return window_active(a) == WINDOW_picker;
}

/* What is shown above the list needs some rows. */
static int list_rows(struct app *a, int rows)
{
    return is_shown(a) ? popup_height(&a->picker.popup, a->picker.preview ? rows / 2 : rows) : 0;
}

static void draw_list(struct app *a, struct cells *c, struct area at)
{
    popup_draw(&a->picker.popup, c, at);
}

static void draw_rest(struct app *a, struct cells *c, struct area at)
{
    if (is_shown(a))
        picker_draw_preview(&a->picker, c, at);
}

const struct window window_picker = {
    .contexts = contexts, .focus = focus, .edited = edited, .close = close_list, .closed = closed, .hint = hint,
    .cover_rows = list_rows, .draw_cover = draw_list, .draw_rest = draw_rest,
};
