#include "session/transcript.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/err.h"
#include "base/memory.h"

static struct text copy(struct arena *a, const char *s, size_t n)
{
    return (struct text){arena_strndup(a, s ? s : "", n), n};
}

static void push(struct entry ***list, int *n, int *cap, struct entry *m)
{
    *list = grow(*list, *n, cap, sizeof **list);
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

void entry_file(struct entry *m, struct text path, size_t bytes, struct text text)
{
    m->files = arena_grow(&m->mem, m->files, m->n_files, &m->cap_files, sizeof *m->files);
    m->files[m->n_files++] = (struct entry_file){.path = copy(&m->mem, path.p, path.n), .text = copy(&m->mem, text.p, text.n), .bytes = bytes};
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
    *t = (struct transcript){0};
}
