#include "chat/transcript.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static struct text copy(struct arena *a, const char *s, size_t n)
{
    return (struct text){arena_strndup(a, s ? s : "", n), n};
}

struct entry *transcript_add(struct transcript *t, enum role role, const char *content, size_t n)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 16;
        t->entries = realloc(t->entries, (size_t)t->cap * sizeof *t->entries);
        CHECK(t->entries);
    }
    struct entry *m = calloc(1, sizeof *m);
    CHECK(m);
    m->m.role = role;
    m->m.content = copy(&m->mem, content, n);
    return t->entries[t->n++] = m;
}

void entry_reasoning(struct entry *m, const char *text, size_t n)
{
    m->m.has_reasoning = true;
    m->m.reasoning = copy(&m->mem, text, n);
}

void entry_call(struct entry *m, const char *name, const char *arguments, size_t n)
{
    struct call *calls = arena_array(&m->mem, (size_t)m->m.n_calls + 1, sizeof *calls);
    if (m->m.n_calls)
        memcpy(calls, m->m.calls, (size_t)m->m.n_calls * sizeof *calls);
    calls[m->m.n_calls++] = (struct call){copy(&m->mem, name, strlen(name)), copy(&m->mem, arguments, n)};
    m->m.calls = calls;
}

void entry_tool(struct entry *m, const char *name)
{
    m->tool = copy(&m->mem, name, strlen(name));
}

static void entry_free(struct entry *m)
{
    ids_free(&m->ids);
    arena_free(&m->mem);
    free(m);
}

void transcript_system(struct transcript *t, const char *text)
{
    char *fresh = text && *text ? strdup(text) : NULL;
    free(t->system);
    t->system = fresh;
}

void transcript_cut(struct transcript *t, int n)
{
    while (t->n > n)
        entry_free(t->entries[--t->n]);
}

int transcript_last_user(const struct transcript *t)
{
    int i = t->n - 1;
    while (i >= 0 && t->entries[i]->m.role != ROLE_USER)
        i--;
    return i;
}

void transcript_free(struct transcript *t)
{
    transcript_cut(t, 0);
    free(t->entries);
    free(t->system);
    *t = (struct transcript){0};
}
