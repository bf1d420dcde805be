#include "session/list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "option/paths.h"
#include "session/export.h"
#include "session/file.h"
#include "session/kept.h"
#include "session/search.h"
#include "session/transcript.h"

#define MAX_FILE ((size_t)1 << 30)
#define SUFFIX ".jsonl"

/* --- the directory ---------------------------------------------------------------------------------------------- */

struct found {
    char *name;
    struct timespec changed;
    size_t bytes;
};

struct list {
    struct buf dir;
    struct found *items;
    int n, cap;
};

/* Compares for qsort: the newest change first; of the same time the name that sorts last. */
static int newest_first(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->changed.tv_sec != y->changed.tv_sec)
        return x->changed.tv_sec < y->changed.tv_sec ? 1 : -1;
    if (x->changed.tv_nsec != y->changed.tv_nsec)
        return x->changed.tv_nsec < y->changed.tv_nsec ? 1 : -1;
    return -strcmp(x->name, y->name);
}

/* Adds a file if it is a conversation: a regular file with our suffix. */
static void list_add(struct list *l, const char *file, const struct stat *st)
{
    size_t n = strlen(file), suffix = strlen(SUFFIX);
    if (n <= suffix || strcmp(file + n - suffix, SUFFIX) || *file == '.' || !S_ISREG(st->st_mode))
        return;
    l->items = memory_grow(l->items, l->n, &l->cap, sizeof *l->items);
    l->items[l->n++] = (struct found){memory_got(strndup(file, n - suffix)), st->st_mtim, (size_t)st->st_size};
}

/* Lists the files of "sessions" or "trash", newest first. */
static bool list_read(struct list *l, const char *folder, struct err *e)
{
    struct stat st;
    bool ok = paths_machine(&l->dir) || paths_state(&l->dir, folder, e);        /* the latter gives the reason; listing makes no directory */
    if (ok)
        buf_addf(&l->dir, "/%s", folder);
    DIR *d = ok ? opendir(l->dir.data) : NULL;
    if (ok && !d && errno != ENOENT)
        ok = err_set(e, "cannot read %s: %s", l->dir.data, strerror(errno));
    for (struct dirent *f; d && (f = readdir(d));)
        if (!fstatat(dirfd(d), f->d_name, &st, 0))
            list_add(l, f->d_name, &st);
    if (d)
        closedir(d);
    if (l->n)
        qsort(l->items, (size_t)l->n, sizeof *l->items, newest_first);
    return ok;
}

static void list_free(struct list *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->items[i].name);
    free(l->items);
    buf_free(&l->dir);
}

/* --- a file, of which only the lines that matter are parsed --------------------------------------------------------- */

/* Returns the place after `text` and the blanks before it; NULL: p is something else. */
static const char *after(const char *p, const char *text)
{
    size_t n = strlen(text);
    if (!p)
        return NULL;
    p += strspn(p, " \t");
    return strncmp(p, text, n) ? NULL : p + n;
}

/* True if this is the first key of the line, with this value (NULL: any): {"role":"user",... */
static bool begins(const char *line, const char *key, const char *value)
{
    const char *p = after(line, "{");
    p = after(p, "\"");
    p = p && !strncmp(p, key, strlen(key)) ? after(p + strlen(key), "\"") : NULL;
    if (!p || !value)
        return p;
    p = after(after(p, ":"), "\"");
    return p && !strncmp(p, value, strlen(value)) && p[strlen(value)] == '"';
}

/* Reorders the keys of a line that another program wrote: the key that identifies the record comes first. */
static void reorder_keys(const char *line, struct buf *out)
{
    static const char *const keys[] = {"q35chat", "role", "instead", "after", "title", "keep", "go"};
    json_t *r = json_loadb(line, strcspn(line, "\n"), JSON_ALLOW_NUL, NULL), *sorted = json_object();
    buf_reset(out);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(r, keys[i]))
            json_object_set(sorted, keys[i], json_object_get(r, keys[i]));
    if (json_is_true(json_object_get(r, "forget")))
        json_object_set(sorted, "forget", json_true());
    char *text = memory_got(json_dumps(sorted, JSON_COMPACT));
    buf_adds(out, text);
    free(text);
    json_decref(sorted);
    json_decref(r);
}

/* Returns a line that begins as we write it: the line itself, or a copy in `tmp`. */
static const char *as_ours(const char *line, struct buf *tmp)
{
    static const char *const keys[] = {"q35chat", "role", "title", "keep", "go", "answering"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (begins(line, keys[i], NULL))
            return line;
    reorder_keys(line, tmp);
    return tmp->data;
}

/* Returns a string of a line, "" without it; to be freed. */
static char *string_in(const char *line, const char *key)
{
    json_t *r = json_loadb(line, strcspn(line, "\n"), JSON_ALLOW_NUL, NULL);
    const char *s = json_string_value(json_object_get(r, key));
    char *copy = memory_strdup(s ? s : "");
    json_decref(r);
    return copy;
}

/* Returns the title of its line, else that of the first message; to be freed. */
static char *title_in(const char *title_line, const char *first_line)
{
    struct buf out = {0};
    char *title = title_line ? string_in(title_line, "title") : memory_strdup("");
    if (*title) {
        title_clean(&out, text_of(title));
    } else if (first_line) {
        free(title);
        title = string_in(first_line, "content");
        title_of_message(&out, text_of(title));
    }
    free(title);
    return out.len ? out.data : (buf_free(&out), memory_strdup(""));
}

/* The tree of a file, reduced to turns: whether each message is the user's, and where the path ends. */
struct node { int parent, depth; bool user; size_t at; };       /* at: byte of the file where its line begins */
struct tree { struct node *at; int n, cap, end; };      /* end: the last message of the path, -1: it is empty */

static void tree_add(struct tree *t, bool user, size_t at)
{
    t->at = memory_grow(t->at, t->n, &t->cap, sizeof *t->at);
    t->at[t->n] = (struct node){t->end, t->end < 0 ? 1 : t->at[t->end].depth + 1, user, at};
    t->end = t->n++;
}

/* Applies `keep` and `go` (docs/formats.md).  Impossible moves are skipped here, and reported when the file is opened. */
static void tree_move(struct tree *t, const char *line)
{
    json_t *r = json_loadb(line, strcspn(line, "\n"), 0, NULL), *keep = json_object_get(r, "keep"), *to = json_object_get(r, "go");
    json_int_t number = json_integer_value(to);
    if (json_is_integer(to) && number >= 0 && number < t->n)
        t->end = (int)number;
    while (json_is_integer(keep) && t->end >= 0 && t->at[t->end].depth > json_integer_value(keep))
        t->end = t->at[t->end].parent;
    if (json_is_true(json_object_get(r, "forget")) && t->n && t->end != t->n - 1)
        t->n--;
    json_decref(r);
}

/* True if there is a message of the user. */
static bool tree_has_user(const struct tree *t)
{
    int i = 0;
    while (i < t->n && !t->at[i].user)
        i++;
    return i < t->n;
}

/* Returns the number of the user's messages on the current branch. */
static int tree_turns(const struct tree *t)
{
    int n = 0;
    for (int i = t->end; i >= 0; i = t->at[i].parent)
        n += t->at[i].user;
    return n;
}

/* Returns the message that distinguishes this conversation from others with the same title: the last question of the path, or the answer to the only
 * question.  -1: there is no such message. */
static int tree_apart(const struct tree *t)
{
    int last = -1, answer = -1, n = 0;
    for (int i = t->end, below = -1; i >= 0; below = i, i = t->at[i].parent)
        if (t->at[i].user && !n++) {
            last = i;
            answer = below;
        }
    return n > 1 ? last : answer;
}

/* Applies the second key of an answer, its place: instead of the newest message, or after the first messages of the path. */
static void tree_make_place(struct tree *t, const char *line)
{
    const char *p = after(line, "{\"role\":\"assistant\",\""), *depth = after(p, "after\":");
    if (after(p, "instead\":true") && t->n)
        t->end = t->at[--t->n].parent;
    for (long n = depth ? strtol(depth, NULL, 10) : -1; n >= 0 && t->end >= 0 && t->at[t->end].depth > n;)
        t->end = t->at[t->end].parent;
}

/* Returns the disk space of the checkpoint of this session file. */
static size_t checkpoint_size(const char *file, struct buf *path)
{
    struct stat st;
    session_checkpoint(file, path);
    return lstat(path->data, &st) ? 0 : (size_t)st.st_blocks * 512;
}

size_t sessions_checkpoint_bytes(const char *name)
{
    struct buf path = {0}, beside = {0};
    size_t n = session_path_of(name, &path, NULL) ? checkpoint_size(path.data, &beside) : 0;
    buf_free(&path);
    buf_free(&beside);
    return n;
}

/* Reads a whole file if it begins as a session does. */
static bool read_file(struct buf *file, const char *path)
{
    enum { HEAD = 4096 };
    struct buf tmp = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    buf_reserve(file, HEAD);
    ssize_t n = fd >= 0 ? read(fd, file->data, HEAD) : -1;
    if (n > 0) {
        file->len = (size_t)n;
        file->data[n] = 0;
    }
    bool ok = n > 0 && begins(as_ours(file->data, &tmp), "q35chat", NULL) && file_read_fd(file, fd, path, MAX_FILE, NULL);
    if (fd >= 0)
        close(fd);
    buf_free(&tmp);
    return ok;
}

/* Fills in an item.  False: the file cannot be read, has no message of the user, or does not have the words. */
static bool item_read(struct sessions_item *item, const struct list *l, const struct found *f, const struct words *words)
{
    struct buf path = {0}, file = {0}, tmp = {0};
    struct tree tree = {.end = -1};
    const char *title = NULL, *first = NULL;
    buf_addf(&path, "%s/%s" SUFFIX, l->dir.data, f->name);
    bool ok = read_file(&file, path.data);
    for (const char *p = ok ? strchr(file.data, '\n') : NULL; p && *++p; p = strchr(p, '\n')) {
        const char *line = as_ours(p, &tmp);
        if (begins(line, "role", "system")) {
            continue;
        } else if (begins(line, "role", NULL)) {
            bool user = begins(line, "role", "user");
            first = user && !tree_has_user(&tree) ? p : first;
            tree_make_place(&tree, line);
            tree_add(&tree, user, (size_t)(p - file.data));
        } else if (begins(line, "title", NULL)) {
            title = p;
        } else if (begins(line, "keep", NULL) || begins(line, "go", NULL)) {
            tree_move(&tree, line);
        }
    }
    *item = (struct sessions_item){0};
    if (ok && tree_has_user(&tree))
        item->title = title_in(title, first);
    ok = item->title && words_in_file(words, f->name, item->title, &file, &item->hit);
    if (ok) {
        item->name = memory_strdup(f->name);
        item->path = memory_strdup(path.data);
        item->model = string_in(file.data, "model");
        item->changed_s = f->changed.tv_sec;
        item->bytes = f->bytes;
        item->checkpoint_bytes = checkpoint_size(path.data, &tmp);
        item->n_turns = tree_turns(&tree);
        int apart = tree_apart(&tree);
        item->apart_in.at = apart >= 0 ? tree.at[apart].at : 0;
        item->apart_in.n = apart >= 0 ? strcspn(file.data + item->apart_in.at, "\n") : 0;
    } else {
        free(item->title);
    }
    buf_free(&path);
    buf_free(&file);
    buf_free(&tmp);
    free(tree.at);
    return ok;
}

static void free_item(struct sessions_item *item)
{
    free(item->name);
    free(item->path);
    free(item->title);
    free(item->model);
    free(item->apart);
    free(item->hit);
}

/* Reads the words that distinguish this conversation. */
static void read_apart(struct sessions_item *item)
{
    struct buf line = {0}, words = {0};
    int fd = item->apart_in.n ? open(item->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    buf_reserve(&line, item->apart_in.n);
    ssize_t n = fd >= 0 ? pread(fd, line.data, item->apart_in.n, (off_t)item->apart_in.at) : -1;
    if (fd >= 0)
        close(fd);
    line.len = n > 0 ? (size_t)n : 0;
    line.data[line.len] = 0;
    char *content = string_in(line.data, "content");
    title_of_message(&words, text_of(content));
    if (words.len)
        item->apart = memory_strdup(words.data);
    free(content);
    buf_free(&line);
    buf_free(&words);
}

static int by_title(const void *a, const void *b)
{
    const char *x = (*(struct sessions_item *const *)a)->title, *y = (*(struct sessions_item *const *)b)->title;
    return x && y ? strcmp(x, y) : !x - !y;
}

/* Fills in `apart` where several have the same title. */
static void distinguish(struct sessions *s)
{
    struct sessions_item **all = memory_zeroed((size_t)s->n + 1, sizeof *all);
    for (int i = 0; i < s->n; i++)
        all[i] = &s->items[i];
    qsort(all, (size_t)s->n, sizeof *all, by_title);
    for (int i = 0; i < s->n; i++)
        if ((i && !by_title(&all[i - 1], &all[i])) || (i + 1 < s->n && !by_title(&all[i], &all[i + 1])))
            read_apart(all[i]);
    free(all);
}

/* Lists the conversations of a folder that contain all words of `find`; NULL: all of them. */
static bool list_folder(struct sessions *s, const char *folder, const char *find, struct err *e)
{
    struct list l = {0};
    struct words words = {0};
    *s = (struct sessions){0};
    bool ok = list_read(&l, folder, e);
    words_split(&words, find ? find : "");
    s->items = memory_zeroed((size_t)l.n + 1, sizeof *s->items);
    for (int i = 0; i < l.n; i++)
        s->n += item_read(&s->items[s->n], &l, &l.items[i], &words);
    distinguish(s);
    words_free(&words);
    list_free(&l);
    return ok;
}

bool sessions_list(struct sessions *s, const char *find, struct err *e)
{
    return list_folder(s, "sessions", find, e);
}

/* True if the title contains all words. */
static bool title_has(const struct sessions_item *item, const struct words *words)
{
    struct words_found f = {0};
    words_in_name(words, &f, item->title);
    bool all = words_complete(words, &f);
    words_found_free(&f);
    return all;
}

void sessions_complete(struct sessions *s, const char *typed)
{
    enum { BYTES = 8 << 20 };
    struct list l = {0};
    struct words words = {0};
    size_t left = BYTES;
    *s = (struct sessions){0};
    list_read(&l, "sessions", NULL);
    words_split(&words, typed);
    s->items = memory_zeroed((size_t)l.n + 1, sizeof *s->items);
    for (int i = 0; i < l.n; i++) {
        struct sessions_item *item = &s->items[s->n];
        const struct found *f = &l.items[i];
        const bool named = !strncmp(f->name, typed, strlen(typed)), fits = f->bytes <= left;
        const bool read = fits && item_read(item, &l, f, &(struct words){0});
        left -= fits ? f->bytes : left;
        if (named && !fits)
            *item = (struct sessions_item){.name = memory_strdup(f->name)};
        if (read && !named && !title_has(item, &words))
            free_item(item);
        else
            s->n += read || (named && !fits);
    }
    distinguish(s);
    words_free(&words);
    list_free(&l);
}

bool sessions_list_trash(struct sessions *s, struct err *e)
{
    return list_folder(s, "trash", NULL, e);
}

void sessions_free(struct sessions *s)
{
    for (int i = 0; i < s->n; i++)
        free_item(&s->items[i]);
    free(s->items);
    *s = (struct sessions){0};
}

bool sessions_newest(struct buf *name)
{
    struct list l = {0};
    struct sessions_item item;
    bool found = false;
    list_read(&l, "sessions", NULL);
    for (int i = 0; i < l.n && !found; i++)
        if (item_read(&item, &l, &l.items[i], &(struct words){0})) {
            buf_reset(name);
            buf_adds(name, item.name);
            free_item(&item);
            found = true;
        }
    list_free(&l);
    return found;
}

void sessions_names(bool in_trash, void (*fn)(const char *name, void *arg), void *arg)
{
    struct list l = {0};
    list_read(&l, in_trash ? "trash" : "sessions", NULL);
    for (int i = 0; i < l.n; i++)
        fn(l.items[i].name, arg);
    list_free(&l);
}

void sessions_label(const struct sessions_item *item, struct buf *out)
{
    buf_adds(out, *item->title ? item->title : item->name);
    if (item->apart)
        buf_addf(out, ": %s", item->apart);
}

void sessions_line(const struct sessions_item *item, int64_t now_s, struct buf *out)
{
    struct buf age = {0};
    when_ago(&age, item->changed_s, now_s);
    buf_addf(out, "%-24s  %-15s  %3d turn%s  ", item->name, buf_str(&age), item->n_turns, item->n_turns == 1 ? " " : "s");
    sessions_label(item, out);
    if (item->checkpoint_bytes)
        buf_addf(out, "  (checkpoint %.1f MB)", (double)item->checkpoint_bytes * 1e-6);
    buf_addc(out, '\n');
    if (item->hit)
        buf_addf(out, "    %s\n", item->hit);
    buf_free(&age);
}

int sessions_hold(const char *name, struct buf *path, struct err *e)
{
    int fd = -1;
    bool ok = !strchr(name, '/') || err_set(e, "delete a conversation by its name, not by a path");
    ok = ok && session_path_of(name, path, e);
    if (ok && (fd = open(path->data, O_RDWR | O_CLOEXEC)) < 0)
        ok = err_set(e, errno == ENOENT ? "no conversation %s" : "cannot open %s: %s", name, strerror(errno));
    if (ok && flock(fd, LOCK_EX | LOCK_NB))
        ok = err_set(e, "%s is open, here or in another q35chat", name);
    if (!ok && fd >= 0)
        close(fd);
    return ok ? fd : -1;
}

bool sessions_delete(const char *name, struct err *e)
{
    struct buf path = {0}, beside = {0};
    int fd = sessions_hold(name, &path, e);
    bool ok = fd >= 0;
    if (ok && unlink(path.data))
        ok = err_set(e, "cannot delete %s: %s", path.data, strerror(errno));
    if (ok) {
        session_checkpoint(path.data, &beside);
        unlink(beside.data);
        kept_delete(path.data);
        buf_adds(&path, ".unsent");     /* kept there by a front end */
        unlink(path.data);
    }
    if (fd >= 0)
        close(fd);
    buf_free(&path);
    buf_free(&beside);
    return ok;
}

bool sessions_text(const char *name, struct buf *out, struct err *e)
{
    struct transcript t = {0};
    struct buf note = {0};
    bool ok = session_read(name, &t, &note, e) && export_transcript(&t, "txt", NULL, out, e);
    buf_free(&note);
    transcript_free(&t);
    return ok;
}

bool sessions_rename(const char *name, const char *title, struct err *e)
{
    struct transcript t = {0};
    struct buf note = {0}, clean = {0};
    struct session *s = session_open(name, &t, &note, e);
    title_clean(&clean, text_of(title));
    struct buf line = {0};
    record_title(&line, buf_str(&clean));
    bool ok = s && session_put(s, &line, e) && session_wait(s, e);
    buf_free(&line);
    session_close(s);
    transcript_free(&t);
    buf_free(&note);
    buf_free(&clean);
    return ok;
}
