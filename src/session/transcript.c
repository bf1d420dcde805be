#include "session/transcript.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"

static struct text copy(struct arena *a, const char *s, size_t n)
{
    return (struct text){arena_strndup(a, s ? s : "", n), n};
}

static void push(struct entry ***list, int *n, int *cap, struct entry *m)
{
    *list = memory_grow(*list, *n, cap, sizeof **list);
    (*list)[(*n)++] = m;
}

/* Returns the place of the child of m (NULL: of the root) that was shown last. */
static struct entry **shown_below(struct transcript *t, struct entry *m)
{
    return m ? &m->shown : &t->shown;
}

/* Returns the place of the child of m (NULL: of the root) that was made last. */
static struct entry **youngest_below(struct transcript *t, struct entry *m)
{
    return m ? &m->youngest : &t->youngest;
}

struct entry *transcript_add(struct transcript *t, enum role role, const char *content, size_t n)
{
    struct entry *m = memory_zeroed(1, sizeof *m);
    m->m.role = role;
    m->m.content = copy(&m->mem, content, n);
    m->parent = t->n ? t->entries[t->n - 1] : NULL;
    m->number = t->n_all;
    m->depth = t->n;
    *shown_below(t, m->parent) = m;
    m->older = *youngest_below(t, m->parent);
    *youngest_below(t, m->parent) = m;
    push(&t->all, &t->n_all, &t->cap_all, m);
    push(&t->entries, &t->n, &t->cap, m);
    return m;
}

void entry_reasoning(struct entry *m, const char *text, size_t n)
{
    m->m.has_reasoning = true;
    m->m.reasoning = copy(&m->mem, text, n);
}

void entry_call(struct entry *m, const char *id, const char *name, const char *arguments, size_t n)
{
    m->m.calls = arena_grow(&m->mem, m->m.calls, m->m.n_calls, &m->cap_calls, sizeof *m->m.calls);
    m->m.calls[m->m.n_calls++] = (struct call){copy(&m->mem, name, strlen(name)), copy(&m->mem, arguments, n), copy(&m->mem, id, strlen(id))};
}

void entry_tool(struct entry *m, const char *name, const char *call_id)
{
    m->tool = copy(&m->mem, name, strlen(name));
    m->m.call_id = copy(&m->mem, call_id, strlen(call_id));
}

void entry_attach(struct entry *m, const struct entry_file *f)
{
    struct entry_file own = *f;
    own.path = copy(&m->mem, f->path.p, f->path.n);
    own.text = copy(&m->mem, f->text.p, f->text.n);
    if (f->picture) {
        own.picture = arena_alloc(&m->mem, sizeof *own.picture);
        *own.picture = *f->picture;
        own.picture->bytes = copy(&m->mem, f->picture->bytes.p, f->picture->bytes.n);
        own.picture->kept = copy(&m->mem, f->picture->kept.p, f->picture->kept.n);
    }
    m->files = arena_grow(&m->mem, m->files, m->n_files, &m->cap_files, sizeof *m->files);
    m->files[m->n_files++] = own;
}

void entry_mark(struct entry *m, int file, enum mark mark)
{
    if (file < 0)
        m->mark = mark;
    else
        m->files[file].dropped = mark == ENTRY_DROPPED;
}

static void set_text(char **where, const char *text)
{
    char *fresh = text && *text ? memory_strdup(text) : NULL;
    free(*where);
    *where = fresh;
}

void transcript_system(struct transcript *t, const char *text)
{
    set_text(&t->system, text);
}

void transcript_form(struct transcript *t, const char *text)
{
    set_text(&t->form, text);
}

void transcript_title(struct transcript *t, const char *text)
{
    set_text(&t->title, text);
    t->named = true;
}

int transcript_last_user(const struct transcript *t)
{
    int i = t->n - 1;
    while (i >= 0 && t->entries[i]->m.role != ROLE_USER)
        i--;
    return i;
}

/* --- the tree --------------------------------------------------------------------------------------------------- */

void transcript_cut(struct transcript *t, int n)
{
    if (n < t->n)
        t->n = n;
}

void transcript_go(struct transcript *t, const struct entry *end)
{
    int n = end ? end->depth + 1 : 0;
    t->n = 0;
    for (int i = 0; i < n; i++)
        push(&t->entries, &t->n, &t->cap, NULL);
    for (struct entry *m = end ? t->all[end->number] : NULL; m; m = m->parent) {
        t->entries[m->depth] = m;
        *shown_below(t, m->parent) = m;
    }
}

struct entry *transcript_next(const struct transcript *t)
{
    return t->n ? t->entries[t->n - 1]->shown : t->shown;
}

bool transcript_on_path(const struct transcript *t, const struct entry *m)
{
    return m->depth < t->n && t->entries[m->depth] == m;
}

static struct entry *youngest_beside(const struct transcript *t, const struct entry *m)
{
    return m->parent ? m->parent->youngest : t->youngest;
}

int transcript_siblings(const struct transcript *t, const struct entry *m, int *which)
{
    int n = 0, younger = 0;
    for (const struct entry *s = youngest_beside(t, m); s; s = s->older) {
        if (s == m)
            younger = n;
        n += s->m.role == m->m.role;
    }
    if (which)
        *which = n - 1 - younger;
    return n;
}

struct entry *transcript_sibling(const struct transcript *t, const struct entry *m, int which)
{
    int at = transcript_siblings(t, m, NULL);
    for (struct entry *s = youngest_beside(t, m); s; s = s->older)
        if (s->m.role == m->m.role && --at == which)
            return s;
    return NULL;
}

int transcript_n_children(const struct transcript *t, const struct entry *m)
{
    int n = 0;
    (void)t;
    for (const struct entry *s = m->youngest; s; s = s->older)
        n++;
    return n;
}

static void entry_free(struct entry *m)
{
    ids_free(&m->ids);
    tokens_free(&m->made);
    arena_free(&m->mem);
    free(m);
}

bool transcript_can_forget(const struct transcript *t)
{
    return t->n && t->entries[t->n - 1]->number == t->n_all - 1;
}

void transcript_forget(struct transcript *t)
{
    CHECK(transcript_can_forget(t));
    struct entry *m = t->all[--t->n_all];
    t->n--;
    *youngest_below(t, m->parent) = *shown_below(t, m->parent) = m->older;
    entry_free(m);
}

void transcript_clear(struct transcript *t)
{
    while (t->n_all)
        entry_free(t->all[--t->n_all]);
    t->n = 0;
    t->shown = t->youngest = NULL;
    transcript_title(t, NULL);
    t->named = false;
}

void transcript_free(struct transcript *t)
{
    transcript_clear(t);
    free(t->entries);
    free(t->all);
    free(t->system);
    free(t->form);
    *t = (struct transcript){0};
}

/* ---- titles ---- */

void title_clean(struct buf *out, struct text given)
{
    struct buf valid = {0};
    unicode_replace(&valid, given.p ? given.p : "", given.n);
    size_t n = valid.len ? unicode_plain(valid.data, valid.len, ' ') : 0;
    struct text t = text_trim((struct text){buf_str(&valid), n});
    buf_add(out, t.p, t.n);
    buf_free(&valid);
}

/* Returns the length of the longest beginning of whole characters that has at most `columns`. */
static size_t fitting_bytes(const struct buf *line, int columns)
{
    size_t at = 0;
    while (at < line->len) {
        int width;
        size_t n = unicode_grapheme(line->data + at, line->len - at, &width);
        if ((columns -= width) < 0)
            break;
        at += n;
    }
    return at;
}

void title_of_message(struct buf *out, struct text message)
{
    enum { FIRST = 4096 };
    static const char dots[] = "...";
    struct buf line = {0};
    struct text t = text_trim(message);
    size_t n = t.n < FIRST ? t.n : unicode_complete(t.p, FIRST);
    const char *end = n ? memchr(t.p, '\n', n) : NULL;
    title_clean(&line, (struct text){t.p, end ? (size_t)(end - t.p) : n});
    size_t whole = fitting_bytes(&line, TITLE_COLUMNS);
    if (whole == line.len) {
        buf_add(out, buf_str(&line), line.len);
    } else {
        buf_add(out, line.data, fitting_bytes(&line, TITLE_COLUMNS - (int)strlen(dots)));
        buf_adds(out, dots);
    }
    buf_free(&line);
}

/* Removes the signs that some models put around a title. */
static struct text unquoted(struct text t)
{
    static const char *const before[] = {"Title:", "**", "*", "#", "\"", "'", "`", "\u201c", "\u201e", "\u00ab", "\u300c"};
    static const char *const after[] = {"**", "*", "\"", "'", "`", "\u201d", "\u201c", "\u00bb", "\u300d", ".", "\u3002"};
    enum { N = sizeof before / sizeof *before };
    _Static_assert(N == sizeof after / sizeof *after, "as many signs before a title as after it");
    for (size_t n = 0; n != t.n;) {
        n = t.n;
        for (int i = 0; i < N; i++) {
            if (text_starts(t, before[i]))
                t = text_trim((struct text){t.p + strlen(before[i]), t.n - strlen(before[i])});
            if (text_ends(t, after[i]))
                t.n -= strlen(after[i]);
        }
        t = text_trim(t);
    }
    return t;
}

/* True for two to eight words; for one in a script without blanks between words. */
static bool has_words(const struct buf *title)
{
    enum { LEAST_COLUMNS = 4, MOST_WORDS = 8 };
    int words = 0, columns = 0;
    bool ascii = true;
    for (size_t at = 0; at < title->len;) {
        int width;
        words += title->data[at] != ' ' && (!at || title->data[at - 1] == ' ');
        ascii = ascii && (unsigned char)title->data[at] < 0x80;
        at += unicode_grapheme(title->data + at, title->len - at, &width);
        columns += width;
    }
    return columns >= LEAST_COLUMNS && columns <= TITLE_COLUMNS && words <= MOST_WORDS && (words > 1 || !ascii);
}

bool title_written(struct buf *out, const char *answer)
{
    struct buf title = {0};
    struct text t = text_trim(text_of(answer));
    const char *end = t.n ? memchr(t.p, '\n', t.n) : NULL;
    t = unquoted(text_trim((struct text){t.p, end ? (size_t)(end - t.p) : t.n}));
    title_clean(&title, t);
    const bool ok = title.len && has_words(&title) && !strpbrk(title.data, "<>{}|") && !strstr(title.data, "\uFFFD");
    if (ok)
        buf_add(out, title.data, title.len);
    buf_free(&title);
    return ok;
}

void title_of(struct buf *out, const struct transcript *t)
{
    if (t->title) {
        buf_adds(out, t->title);
        return;
    }
    for (int i = 0; i < t->n_all; i++)
        if (t->all[i]->m.role == ROLE_USER) {
            title_of_message(out, t->all[i]->m.content);
            return;
        }
}
