#include "ui/tui/complete.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "chat/command.h"
#include "ui/tui/cells.h"
#include "ui/tui/numbers.h"

enum { MAX_SCAN = 10000, MAX_IGNORE_FILE = 1 << 16 };
#define BYTES_PER_TOKEN 3.5
#define BLANKS " \t\n"

static void add(struct complete *c, const char *word, const char *note, const char *help)
{
    if (c->n % 64 == 0)
        c->items = memory_resized(c->items, ((size_t)c->n + 64) * sizeof *c->items);
    c->items[c->n++] = (struct complete_item){memory_strdup(word), memory_strdup(note), memory_strdup(help)};
}

/* --- the names of a directory ------------------------------------------------------------------------------------ */

struct name { char *s; bool is_dir; };
struct names { struct name *at; int n; bool cut; };

static int by_kind_and_name(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    if (x->is_dir != y->is_dir)
        return x->is_dir ? -1 : 1;
    int order = strcasecmp(x->s, y->s);
    return order ? order : strcmp(x->s, y->s);
}

/* True if a line of a .gitignore names the file.  Understands only a name or *.ext, with a slash at its end for directories only. */
static bool line_names(const char *line, size_t n, const char *name, bool is_dir)
{
    while (n && strchr(" \t\r", line[n - 1]))
        n--;
    bool dirs_only = n && line[n - 1] == '/';
    n -= dirs_only;
    if (n && *line == '/')
        line++, n--;
    size_t len = strlen(name);
    if (!n || *line == '#' || (dirs_only && !is_dir))
        return false;
    if (n > 1 && *line == '*')          /* a star in the rest is no wildcard, and no name ends so */
        return len >= n - 1 && !memcmp(name + len - (n - 1), line + 1, n - 1);
    return len == n && !memcmp(name, line, n);
}

/* True if a line of .gitignore names the file. */
static bool ignored(const struct buf *rules, const char *name, bool is_dir)
{
    for (size_t at = 0; at < rules->len;) {
        size_t n = strcspn(rules->data + at, "\n");
        if (line_names(rules->data + at, n, name, is_dir))
            return true;
        at += n + 1;
    }
    return false;
}

/* True if a draft can hold the name: no control characters, and no quote, which a path with blanks cannot hold. */
static bool can_be_typed(const char *name)
{
    for (const char *s = name; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7F)
            return false;
    return unicode_valid(name, strlen(name)) && !strchr(name, '"');
}

/* Reads the names of a folder that begin with `base`, at most MAX_SCAN of them, without ignored ones. */
static void read_names(struct names *names, DIR *d, const char *base, const struct buf *rules)
{
    int scanned = 0;
    for (struct dirent *f; (f = readdir(d));) {
        if (++scanned > MAX_SCAN) {
            names->cut = true;
            return;
        }
        if (strncmp(f->d_name, base, strlen(base)) || (*f->d_name == '.' && *base != '.') || !can_be_typed(f->d_name) ||
            !strcmp(f->d_name, ".") || !strcmp(f->d_name, ".."))
            continue;
        struct stat st;
        bool is_dir = f->d_type == DT_DIR;
        if (f->d_type == DT_LNK || f->d_type == DT_UNKNOWN)
            is_dir = !fstatat(dirfd(d), f->d_name, &st, 0) && S_ISDIR(st.st_mode);
        if (ignored(rules, f->d_name, is_dir))
            continue;
        if (names->n % 64 == 0)
            names->at = memory_resized(names->at, ((size_t)names->n + 64) * sizeof *names->at);
        names->at[names->n++] = (struct name){memory_strdup(f->d_name), is_dir};
    }
}

/* --- paths ------------------------------------------------------------------------------------------------------ */

/* A path in the draft, without the "@" or "@\"" before it, and whether it is to be attached. */
struct path { const char *s; bool attach, quoted; const struct complete_counter *counter; };

enum { MOST_SECONDS = 100 * 60 * 60 };  /* longer times are not shown */

/* Returns the tokens of a file that is to be attached, -1 if its size says nothing about them.  Appends a mark if they are an estimate. */
static double file_tokens(const struct path *p, const char *path, const struct stat *st, struct buf *note)
{
    const int counted = p->counter ? p->counter->count(p->counter->arg, path, st) : -1;
    const bool known = counted >= 0 || chat_is_text_file(path);
    buf_adds(note, counted >= 0 ? "  " : known ? "  ~" : "");
    return counted >= 0 ? counted : known ? (double)st->st_size / BYTES_PER_TOKEN : -1;
}

/* Writes size and tokens of a file, and how long they take to be read; nothing for a folder. */
static void describe(int dir, const char *name, const struct path *p, int n_dir, struct buf *note)
{
    struct stat st;
    struct buf path = {0};
    buf_reset(note);
    if (fstatat(dir, name, &st, 0) || !S_ISREG(st.st_mode))
        return;
    number_bytes(note, (size_t)st.st_size);
    if (!p->attach)
        return;
    buf_addf(&path, "%.*s%s", n_dir, p->s, name);
    const double tokens = file_tokens(p, path.data, &st, note);
    if (tokens >= 0) {
        number_tokens(note, tokens);
        buf_adds(note, " tok");
    }
    if (p->counter && p->counter->tok_s > 0 && tokens >= p->counter->tok_s && tokens < MOST_SECONDS * p->counter->tok_s) {
        buf_adds(note, ", ");
        number_about(note, (int)(tokens / p->counter->tok_s + 0.5));
    }
    buf_free(&path);
}

/* Offers the names; of attached files all are quoted if one has a blank. */
static void add_names(struct complete *c, const struct path *p, int n_dir, const struct names *names, int dir)
{
    struct buf word = {0}, note = {0};
    bool quoted = p->quoted;
    for (int i = 0; i < names->n && p->attach; i++)
        quoted = quoted || strpbrk(names->at[i].s, BLANKS);     /* all are quoted then, so that they begin alike */
    for (int i = 0; i < names->n && i < COMPLETE_MAX; i++) {
        const struct name *f = &names->at[i];
        buf_reset(&word);
        buf_addf(&word, "%s%s%.*s%s", p->attach ? "@" : "", quoted ? "\"" : "", n_dir, p->s, f->s);
        buf_adds(&word, f->is_dir ? "/" : quoted ? "\"" : "");
        describe(dir, f->s, p, n_dir, &note);
        add(c, word.data, buf_str(&note), "");
    }
    buf_free(&word);
    buf_free(&note);
}

/* Offers the files whose paths begin with p->s. */
static void add_files(struct complete *c, const struct path *p)
{
    const char *slash = strrchr(p->s, '/'), *base = slash ? slash + 1 : p->s, *home = getenv("HOME");
    int n_dir = (int)(base - p->s);
    struct buf where = {0}, rules = {0};
    struct names names = {0};
    if (!strncmp(p->s, "~/", 2) && home)
        buf_addf(&where, "%s/%.*s", home, n_dir - 2, p->s + 2);
    else
        buf_addf(&where, "%.*s", n_dir, p->s);
    DIR *d = opendir(where.len ? where.data : ".");
    if (d) {
        struct stat st;
        buf_adds(&where, where.len ? "/.gitignore" : ".gitignore");
        bool there = p->attach && !stat(where.data, &st) && S_ISREG(st.st_mode);
        if (there && !file_read(&rules, where.data, MAX_IGNORE_FILE, NULL))
            buf_reset(&rules);
        read_names(&names, d, base, &rules);
        if (names.n)
            qsort(names.at, (size_t)names.n, sizeof *names.at, by_kind_and_name);
        add_names(c, p, n_dir, &names, dirfd(d));
        if (names.cut)
            buf_addf(&c->note, "only %d names of this directory were looked at", MAX_SCAN);
        else if (names.n > COMPLETE_MAX)
            buf_addf(&c->note, "the first %d of %d; type more of the name", COMPLETE_MAX, names.n);
        closedir(d);
    }
    for (int i = 0; i < names.n; i++)
        free(names.at[i].s);
    free(names.at);
    buf_free(&where);
    buf_free(&rules);
}

/* --- which word --------------------------------------------------------------------------------------------------- */

/* Returns the start of the last word of the draft: after a blank or a chip. */
static size_t word_start(const char *before)
{
    size_t at = strlen(before);
    while (at && !strchr(BLANKS, before[at - 1]) && !(at >= 3 && !memcmp(before + at - 3, "\xEF\xBF\xBC", 3)))
        at--;
    return at;
}

/* Returns the start of an open @"path, or -1. */
static long open_quote(const char *before)
{
    const char *quote = strrchr(before, '"');
    if (!quote || quote == before || quote[-1] != '@' || strchr(quote, '\n'))
        return -1;
    size_t at = (size_t)(quote - before) - 1;
    return !at || strchr(BLANKS "(", before[at - 1]) ? (long)at : -1;
}

/* Finds the files for the word before the cursor: @path, @"path with blanks", or a word with a slash. */
static void find_path(struct complete *c, const char *before, const struct complete_counter *counter)
{
    long quote = open_quote(before);
    c->start = quote >= 0 ? (size_t)quote : word_start(before);
    if (!strncmp(before + c->start, "(@", 2))
        c->start++;
    const char *word = before + c->start;
    if (quote >= 0)
        add_files(c, &(struct path){word + 2, true, true, counter});
    else if (*word == '@' && word[1] != '"')
        add_files(c, &(struct path){word + 1, true, false, counter});
    else if (*word != '@' && strchr(word, '/') && strncmp(word, "//", 2))       /* "//text" is text with a slash */
        add_files(c, &(struct path){word, false, false, NULL});
}

static void add_command(const char *word, const char *note, void *arg)
{
    const char *argument = "", *help = note ? "" : command_help_of(word, &argument);
    struct complete *c = arg;
    c->whole = note != NULL;
    add(c, word, note ? note : argument, help ? help : "");
}

/* Finds the beginning that all offered words share. */
static void find_common(struct complete *c)
{
    if (c->whole && c->n > 1)
        return;                         /* conversations match by title: a common beginning of names would hide some */
    for (int i = 0; i < c->n; i++) {
        const char *word = c->items[i].word;
        size_t same = 0;
        if (!i)
            buf_adds(&c->common, word);
        while (same < c->common.len && c->common.data[same] == word[same])
            same++;
        while (same && same < c->common.len && ((unsigned char)c->common.data[same] & 0xC0) == 0x80)
            same--;                     /* not into the middle of a character */
        c->common.len = same;
        c->common.data[same] = 0;
    }
}

void complete_find(struct complete *c, const char *before, const struct complete_counter *counter)
{
    complete_free(c);
    if (*before == '/' && before[1] != '/' && !strchr(before, '\n')) {
        /* A command or its argument: words may replace all of the argument or only its last word, which the typed text decides. */
        size_t name = strcspn(before, BLANKS), argument = before[name] ? name + strspn(before + name, BLANKS) : 0;
        bool files = command_complete(before, add_command, c);
        c->start = argument;
        if (c->n && !c->whole && strncmp(c->items[0].word, before + argument, strlen(before + argument)))
            c->start = word_start(before);
        if (files && memchr(before + 1, '/', name - 1))
            find_path(c, before, NULL);
        else if (files)
            add_files(c, &(struct path){before + argument, false, false, NULL});
        if (files && !c->n && word_start(before) > argument) {          /* a path without blanks after another word: /export md FILE */
            c->start = word_start(before);
            add_files(c, &(struct path){before + c->start, false, false, NULL});
        }
    } else {
        find_path(c, before, counter);
    }
    find_common(c);
}

bool complete_ends(const struct complete *c)
{
    return c->n == 1 && c->common.len && c->common.data[c->common.len - 1] != '/';
}

void complete_free(struct complete *c)
{
    for (int i = 0; i < c->n; i++) {
        free(c->items[i].word);
        free(c->items[i].note);
        free(c->items[i].help);
    }
    free(c->items);
    buf_free(&c->common);
    buf_free(&c->note);
    *c = (struct complete){0};
}

/* --- suggest ------------------------------------------------------------------------------------------------------ */

/* --- tokens of files --------------------------------------------------------------------------------------------- */

enum { LOOK_BYTES = 256 << 10, MAX_COUNTED = 512 };     /* more would delay a key noticeably */

struct counted { char *path; off_t bytes; struct timespec changed; int tokens; };

static void forget_counted(struct suggest *s)
{
    for (int i = 0; i < s->n_counted; i++)
        free(s->counted[i].path);
    free(s->counted);
    s->counted = NULL;
    s->n_counted = 0;
}

/* Returns the tokens of a file, remembered until it changes; -1 if they were not counted exactly. */
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

/* True if the draft is a command that can run as it is. */
static bool runs(const struct buf *before)
{
    const char *s = buf_str(before), *argument;
    return *s == '/' && s[1] != '/' && command_name(s, &argument);
}

/* Returns the row that Enter takes if nobody moves the choice: the typed word, else the first; -1 if Enter runs a command. */
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

/* Returns the value of an option, cut to its first words; NULL: the word names no option. */
static const char *value_of(struct suggest *s, const char *word)
{
    enum { MOST = 24 };
    int id = s->options ? options_find(word) : -1;
    const char *text = id >= 0 ? options_text(s->options, (enum option_id)id) : "";
    size_t n = glyph_fit(text, strcspn(text, "\n"), MOST);
    return id < 0 ? NULL : arena_printf(&s->mem, "%.*s%s", (int)n, text, text[n] ? "..." : "");
}

/* Makes the rows of the list from what was found. */
static void fill(struct suggest *s, const struct buf *before)
{
    const char *argument;
    bool sentences = false, sets = command_name(buf_str(before), &argument) && !strcmp(command_name(buf_str(before), &argument), "set");
    s->rows = memory_zeroed((size_t)s->found.n + 1, sizeof *s->rows);
    for (int i = 0; i < s->found.n; i++) {
        const struct complete_item *item = &s->found.items[i];
        bool command = *item->help;     /* the row has its argument or its value, then its help */
        const char *value = sets ? value_of(s, item->word) : NULL, *after = value ? value : item->note;
        const char *time = s->found.whole ? strrchr(item->note, ',') : NULL;    /* of a conversation: its title is cut, not its time */
        s->rows[i].text = command && *after ? arena_printf(&s->mem, "%s %s", item->word, after) : item->word;
        s->rows[i].note = time ? time + 2 : command ? item->help : *item->note ? item->note : NULL;
        s->rows[i].more = time ? arena_strndup(&s->mem, item->note, (size_t)(time - item->note)) : NULL;
        sentences |= command;
    }
    const char *help = s->found.note.len ? s->found.note.data : s->found.n > POPUP_ROWS ? "Tab completes  Enter accepts  Esc closes" : NULL;
    s->popup = (struct popup){.rows = s->rows, .n = s->found.n, .chosen = first_choice(s, before), .help = help, .column = sentences};
    s->open = s->found.n > 0;
}

/* Finds the completions again; true if there are any. */
static bool look(struct suggest *s, const struct buf *before)
{
    empty(s);
    s->to_count = LOOK_BYTES;
    /* Remembers how fast the last prompt was read, if it was long enough. */
    enum { LEAST = 64 };
    const struct stats *t = s->chat ? chat_last_stats(s->chat) : NULL;
    int n = t ? t->n_prompt - t->n_cached : 0;
    if (n >= LEAST && t->prefill_ms > 0)
        s->tok_s = n * 1000 / t->prefill_ms;
    complete_find(&s->found, buf_str(before), &(struct complete_counter){count_file, s, s->tok_s});
    fill(s, before);
    return s->open;
}

void suggest_update(struct suggest *s, const struct editor *e)
{
    struct buf before = {0};
    editor_before(e, &before);
    /* The list opens by itself for the first word of a command and for a path after "@". */
    struct buf word = {0};
    editor_word(e, &word);
    const char *w = buf_str(&word);
    bool opens = strchr(w, '@') || (*buf_str(&before) == '/' && before.data[1] != '/' && !memchr(before.data, '\n', before.len));
    buf_free(&word);
    if (!opens) {
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

/* Replaces the part of the word that was typed by `text`. */
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
