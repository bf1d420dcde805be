#include "option/sections.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct key {
    const char *name;
    size_t at;                          /* of its value in the struct */
};

static const struct key tool_keys[] = {
#define TOOL_KEY(key) {#key, offsetof(struct option_tool, key)},
#include "config/tool.def"
};
static const struct key endpoint_keys[] = {
#define ENDPOINT_KEY(key) {#key, offsetof(struct option_endpoint, key)},
#include "config/endpoint.def"
};

static const struct kind {
    const char *word, *said;
    size_t bytes;
    const struct key *keys;
    size_t n_keys;
} kinds[N_SECTION_KINDS] = {
    [SECTION_TOOL] = {"tool", "a tool", sizeof(struct option_tool), tool_keys, sizeof tool_keys / sizeof *tool_keys},
    [SECTION_ENDPOINT] = {"endpoint", "an endpoint", sizeof(struct option_endpoint), endpoint_keys, sizeof endpoint_keys / sizeof *endpoint_keys},
};
_Static_assert(offsetof(struct option_tool, name) == 0 && offsetof(struct option_endpoint, name) == 0, "name_of() relies on that");

static char *item(const struct sections *s, int kind, int i)
{
    return (char *)s->kinds[kind].items + (size_t)i * kinds[kind].bytes;
}

static char **name_of(void *section)
{
    return section;
}

static char **value_at(void *section, const struct key *k)
{
    return (char **)(void *)((char *)section + k->at);
}

void sections_free(struct sections *s)
{
    for (int kind = 0; kind < N_SECTION_KINDS; kind++) {
        for (int i = 0; i < s->kinds[kind].n; i++) {
            free(*name_of(item(s, kind, i)));
            for (size_t k = 0; k < kinds[kind].n_keys; k++)
                free(*value_at(item(s, kind, i), &kinds[kind].keys[k]));
        }
        free(s->kinds[kind].items);
    }
    *s = (struct sections){0};
}

bool sections_kind(const char *title, enum section_kind *kind, const char **name)
{
    for (int k = 0; k < N_SECTION_KINDS; k++) {
        size_t n = strlen(kinds[k].word);
        if (strncmp(title, kinds[k].word, n) || title[n] != ' ' || !title[n + 1])
            continue;
        *kind = (enum section_kind)k;
        *name = title + n + 1;
        return true;
    }
    return false;
}

void *sections_named(struct sections *s, enum section_kind kind, const char *name)
{
    for (int i = 0; i < s->kinds[kind].n; i++)
        if (!strcmp(*name_of(item(s, (int)kind, i)), name))
            return item(s, (int)kind, i);
    int n = s->kinds[kind].n++;
    s->kinds[kind].items = memory_resized(s->kinds[kind].items, (size_t)(n + 1) * kinds[kind].bytes);
    void *made = memset(item(s, (int)kind, n), 0, kinds[kind].bytes);
    *name_of(made) = memory_strdup(name);
    return made;
}

char **sections_value(enum section_kind kind, void *section, const char *key)
{
    for (size_t k = 0; k < kinds[kind].n_keys; k++)
        if (!strcmp(kinds[kind].keys[k].name, key))
            return value_at(section, &kinds[kind].keys[k]);
    return NULL;
}

const char *sections_said(enum section_kind kind)
{
    return kinds[kind].said;
}

void sections_keys(enum section_kind kind, struct buf *out)
{
    for (size_t k = 0; k < kinds[kind].n_keys; k++)
        buf_addf(out, "%s%s", k ? ", " : "", kinds[kind].keys[k].name);
}

void sections_each(const struct sections *s, section_fn *fn, void *arg)
{
    for (int kind = 0; kind < N_SECTION_KINDS; kind++)
        for (int i = 0; i < s->kinds[kind].n; i++) {
            struct buf title = {0};
            buf_addf(&title, "%s %s", kinds[kind].word, *name_of(item(s, kind, i)));
            fn(title.data, NULL, NULL, arg);
            for (size_t k = 0; k < kinds[kind].n_keys; k++)
                if (*value_at(item(s, kind, i), &kinds[kind].keys[k]))
                    fn(title.data, kinds[kind].keys[k].name, *value_at(item(s, kind, i), &kinds[kind].keys[k]), arg);
            buf_free(&title);
        }
}
