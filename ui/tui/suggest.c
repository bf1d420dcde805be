#include "ui/tui/suggest.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "chat/command.h"
#include "ui/tui/glyph.h"

/* --- tokens of files --------------------------------------------------------------------------------------------- */

enum { LOOK_BYTES = 256 << 10, MAX_COUNTED = 512 };     /* counting more would be felt at a key */

struct counted { char *path; off_t bytes; struct timespec changed; int tokens; };

static void forget_counted(struct suggest *s)
{
    for (int i = 0; i < s->n_counted; i++)
        free(s->counted[i].path);
    free(s->counted);
    s->counted = NULL;
    s->n_counted = 0;
}

static int count_file(void *arg, const char *path, const struct stat *st)
{
    struct suggest *s = arg;
    struct chat_file file;
    for (int i = 0; i < s->n_counted; i++) {
        const struct counted *k = &s->counted[i];
        if (!strcmp(k->path, path) && k->bytes == st->st_size && !memcmp(&k->changed, &st->st_mtim, sizeof k->changed))
            return k->tokens;
    }
    if (!s->chat || !chat_ready(s->chat) || (size_t)st->st_size > s->to_count || !chat_check_file(s->chat, path, &file, NULL) || file.estimated)
        return -1;
    s->to_count -= (size_t)st->st_size;
    if (s->n_counted == MAX_COUNTED)
        forget_counted(s);
    s->counted = memory_resized(s->counted, ((size_t)s->n_counted + 1) * sizeof *s->counted);
    s->counted[s->n_counted++] = (struct counted){memory_strdup(path), st->st_size, st->st_mtim, file.tokens};
    return file.tokens;
}

/* --- the list ---------------------------------------------------------------------------------------------------- */

static void empty(struct suggest *s)
{
    complete_free(&s->found);
    arena_free(&s->mem);
    free(s->rows);
    s->rows = NULL;
    s->open = s->moved = false;
    s->popup = (struct popup){.chosen = -1};
}

void suggest_free(struct suggest *s)
{
    empty(s);
    forget_counted(s);
    *s = (struct suggest){0};
}

void suggest_close(struct suggest *s)
{
    s->refused = true;
    s->refused_at = s->found.start;
    s->asked = false;
    empty(s);
}

/* Is it a command that can run as it stands? */
static bool runs(const struct buf *before)
{
    const char *s = buf_str(before), *argument;
    return *s == '/' && s[1] != '/' && command_name(s, &argument);
}

/* The row that Enter takes if nobody moves the choice: what is typed, else the first; none where Enter runs a command, whatever
 * further words it could have. */
static int first_choice(const struct suggest *s, const struct buf *before)
{
    const char *typed = buf_str(before) + (s->found.start <= before->len ? s->found.start : before->len);
    if (runs(before) && strpbrk(before->data, " \t\n"))
        return -1;
    for (int i = 0; i < s->found.n; i++)
        if (!strcmp(s->found.items[i].word, typed))
            return i;
    return s->found.n ? 0 : -1;
}

/* The value of an option, the first words of a long one; NULL: that is no option. */
static const char *value_of(struct suggest *s, const char *word)
{
    enum { MOST = 24 };
    int id = s->options ? options_find(word) : -1;
    const char *text = id >= 0 ? options_text(s->options, (enum option_id)id) : "";
    size_t n = glyph_fit(text, strcspn(text, "\n"), MOST, NULL);
    return id < 0 ? NULL : arena_printf(&s->mem, "%.*s%s", (int)n, text, text[n] ? "..." : "");
}

static void fill(struct suggest *s, const struct buf *before)
{
    const char *argument;
    bool sentences = false, sets = command_name(buf_str(before), &argument) && !strcmp(command_name(buf_str(before), &argument), "set");
    s->rows = memory_zeroed((size_t)s->found.n + 1, sizeof *s->rows);
    for (int i = 0; i < s->found.n; i++) {
        const struct complete_item *item = &s->found.items[i];
        bool command = *item->help;     /* its argument stands behind it, or its value, then its help */
        const char *value = sets ? value_of(s, item->word) : NULL, *after = value ? value : item->note;
        s->rows[i].text = command && *after ? arena_printf(&s->mem, "%s %s", item->word, after) : item->word;
        s->rows[i].note = command ? item->help : *item->note ? item->note : NULL;
        sentences |= command;
    }
    const char *help = s->found.note.len ? s->found.note.data : s->found.n > POPUP_ROWS ? "Tab completes  Enter accepts  Esc closes" : NULL;
    s->popup = (struct popup){.rows = s->rows, .n = s->found.n, .chosen = first_choice(s, before), .help = help, .column = sentences};
    s->open = s->found.n > 0;
}

/* The first word of a command, or a path behind "@". */
static bool opens_itself(const struct editor *e, const struct buf *before)
{
    struct buf word = {0};
    editor_word(e, &word);
    const char *w = buf_str(&word);
    bool yes = strchr(w, '@') || (*buf_str(before) == '/' && before->data[1] != '/' && !memchr(before->data, '\n', before->len));
    buf_free(&word);
    return yes;
}

/* How fast the last prompt was read, if that can be told. */
static void learn_rate(struct suggest *s)
{
    enum { LEAST = 64 };
    const struct stats *t = s->chat ? chat_last_stats(s->chat) : NULL;
    int n = t ? t->n_prompt - t->n_cached : 0;
    if (n >= LEAST && t->prefill_ms > 0)
        s->tok_s = n * 1000 / t->prefill_ms;
}

/* Looks again; true if there is anything. */
static bool look(struct suggest *s, const struct buf *before)
{
    empty(s);
    s->to_count = LOOK_BYTES;
    learn_rate(s);
    complete_find(&s->found, buf_str(before), &(struct complete_counter){count_file, s, s->tok_s});
    fill(s, before);
    return s->open;
}

void suggest_update(struct suggest *s, const struct editor *e)
{
    struct buf before = {0};
    editor_before(e, &before);
    if (!opens_itself(e, &before)) {
        empty(s);
        s->refused = s->asked = false;
    } else if (look(s, &before)) {
        bool whole = s->found.n == 1 && s->found.start <= before.len && !strcmp(s->found.items[0].word, before.data + s->found.start);
        if (whole || (s->refused && s->found.start == s->refused_at))
            empty(s);
        else
            s->refused = false;
    }
    buf_free(&before);
}

/* Puts `text` in the place of what was typed of the word. */
static void put(struct suggest *s, struct editor *e, const char *text, bool blank)
{
    struct buf before = {0}, with = {0};
    editor_before(e, &before);
    buf_addf(&with, "%s%s", text, blank ? " " : "");
    if (s->found.start <= before.len)
        editor_replace_before(e, before.len - s->found.start, with.data);
    buf_free(&before);
    buf_free(&with);
}

bool suggest_take(struct suggest *s, struct editor *e)
{
    struct buf before = {0};
    int i = s->popup.chosen;
    if (!s->open || i < 0)
        return false;
    const char *word = s->found.items[i].word;
    editor_before(e, &before);
    bool done = !s->moved && (runs(&before) || (s->found.start <= before.len && !strcmp(word, buf_str(&before) + s->found.start)));
    buf_free(&before);
    if (done)
        return false;
    bool directory = *word && word[strlen(word) - 1] == '/';
    put(s, e, word, !directory);
    suggest_update(s, e);
    return true;
}

void suggest_move(struct suggest *s, int by)
{
    s->moved = true;
    if (s->popup.chosen < 0)
        popup_choose(&s->popup, by > 0 ? 0 : s->popup.n - 1);
    else
        popup_move(&s->popup, by);
}

bool suggest_click(struct suggest *s, int row, int col)
{
    s->moved = true;
    return popup_click(&s->popup, row, col);
}

bool suggest_tab(struct suggest *s, struct editor *e)
{
    struct buf before = {0};
    bool opens = !s->open;
    editor_before(e, &before);
    if (!s->open && !look(s, &before)) {
        buf_free(&before);
        return false;
    }
    const char *typed = s->found.start <= before.len ? before.data + s->found.start : "";
    const char *common = buf_str(&s->found.common);
    bool more = strlen(common) > strlen(typed);
    if (s->moved) {
        suggest_move(s, 1);
    } else if (more || complete_ends(&s->found)) {
        bool ends = complete_ends(&s->found);
        put(s, e, common, ends);
        suggest_update(s, e);
    } else if (opens && s->popup.chosen >= 0) {
        s->moved = true;
    } else {
        suggest_move(s, 1);
    }
    buf_free(&before);
    return true;
}
