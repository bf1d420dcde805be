#include "serve/keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "option/endpoint.h"

enum { LONGEST = 4096 };

static bool is_name(struct text t)
{
    static const char may[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = 0;
    while (n < t.n && strchr(may, t.p[n]))
        n++;
    return t.n && n == t.n && n <= 64;
}

static bool is_secret(struct text t)
{
    size_t n = 0;
    while (n < t.n && t.p[n] > ' ' && t.p[n] <= '~')
        n++;
    return n == t.n;
}

static int find_name(const struct keys *k, struct text name)
{
    int i = 0;
    while (i < k->n && !text_is(name, k->list[i].name))
        i++;
    return i;
}

static char *copy_of(struct text t)
{
    char *copy = memory_alloc(t.n + 1);
    memcpy(copy, t.p, t.n);
    copy[t.n] = 0;
    return copy;
}

static void add(struct keys *k, struct text name, struct text secret)
{
    k->list = memory_resized(k->list, (size_t)(k->n + 1) * sizeof *k->list);
    k->list[k->n++] = (struct key){.name = copy_of(name), .secret = copy_of(secret)};
}

/* Adds the key of one line.  False with the reason. */
static bool read_line(struct keys *k, struct text line, int number, const char *path, struct err *e)
{
    size_t blank = 0;
    while (blank < line.n && line.p[blank] != ' ' && line.p[blank] != '\t')
        blank++;
    const bool named = blank < line.n;
    const struct text name = named ? (struct text){line.p, blank} : text_of("default"),
        secret = named ? text_trim((struct text){line.p + blank, line.n - blank}) : line;
    if (!is_name(name) || !is_secret(secret))
        return err_set(e, "%s: line %d: expected NAME KEY, or a key alone: a name of letters, digits, '.', '_' and '-', a key without blanks", path,
                       number);
    if (secret.n < KEY_LEAST || secret.n > LONGEST)
        return err_set(e, "%s: line %d: the key has %zu characters, expected %d to %d: write another one, or remove the file and a key is made", path,
                       number, secret.n, KEY_LEAST, LONGEST);
    if (find_name(k, name) < k->n)
        return err_set(e, "%s: line %d: the name %.*s is there twice", path, number, (int)name.n, name.p);
    if (keys_find(k, secret) >= 0)
        return err_set(e, "%s: line %d: the key is there twice", path, number);
    if (k->n == KEYS_MOST)
        return err_set(e, "%s: line %d: there are more than %d keys", path, number, KEYS_MOST);
    add(k, name, secret);
    return true;
}

/* Reads the lines of a key file.  False with the line that is wrong, or if there is no key. */
static bool read_lines(struct keys *k, struct text all, const char *path, struct err *e)
{
    for (int number = 1; all.n; number++) {
        const char *end = memchr(all.p, '\n', all.n);
        const size_t n = end ? (size_t)(end - all.p) : all.n, past = end ? n + 1 : n;
        const struct text line = text_trim((struct text){all.p, n});
        if (line.n && line.p[0] != '#' && !read_line(k, line, number, path, e))
            return false;
        all = (struct text){all.p + past, all.n - past};
    }
    return k->n || err_set(e, "the key file %s has no key", path);
}

/* Returns a place for a new name: of KEYS_NAMES that are there the one whose name left the file first, else one at the end. */
static struct key *place_of(struct keys *k)
{
    struct key *first = NULL;
    for (int i = 0; k->n == KEYS_NAMES && i < k->n; i++)
        if (!k->list[i].secret && (!first || k->list[i].left < first->left))
            first = &k->list[i];
    if (first) {
        k->forgotten.requests += first->use.requests;
        k->forgotten.prompt_tokens += first->use.prompt_tokens;
        k->forgotten.cached_tokens += first->use.cached_tokens;
        k->forgotten.tokens += first->use.tokens;
        free(first->name);
        return first;
    }
    k->list = memory_resized(k->list, (size_t)(k->n + 1) * sizeof *k->list);
    return &k->list[k->n++];
}

/* Takes the names and keys of a file in place of those that were there. */
static void take_keys(struct keys *k, const struct keys *fresh)
{
    for (int i = 0; i < k->n; i++) {
        const bool was = k->list[i].secret;
        const int at = find_name(fresh, text_of(k->list[i].name));
        free(k->list[i].secret);
        k->list[i].secret = at < fresh->n ? memory_strdup(fresh->list[at].secret) : NULL;
        if (was && !k->list[i].secret)
            k->list[i].left = ++k->n_left;
    }
    for (int i = 0; i < fresh->n; i++)
        if (find_name(k, text_of(fresh->list[i].name)) == k->n)
            *place_of(k) = (struct key){.name = memory_strdup(fresh->list[i].name), .secret = memory_strdup(fresh->list[i].secret)};
}

bool keys_read(struct keys *k, const char *path, bool makes, struct err *e)
{
    struct keys fresh = {0};
    struct buf text = {0};
    const bool ok = key_file_read(path, makes, &text, e) && read_lines(&fresh, (struct text){buf_str(&text), text.len}, path, e);
    if (ok)
        take_keys(k, &fresh);
    keys_free(&fresh);
    buf_free(&text);
    return ok;
}

void keys_free(struct keys *k)
{
    for (int i = 0; i < k->n; i++) {
        free(k->list[i].name);
        free(k->list[i].secret);
    }
    free(k->list);
    *k = (struct keys){0};
}

static bool same(struct text given, const char *b)
{
    const size_t m = strlen(b);
    unsigned char differs = given.n != m;
    for (size_t i = 0; i < given.n && i < LONGEST; i++)
        differs |= (unsigned char)(given.p[i] ^ b[i % m]);
    return !differs;
}

int keys_find(const struct keys *k, struct text given)
{
    int found = -1;
    for (int i = 0; i < k->n; i++)
        if (k->list[i].secret && same(given, k->list[i].secret))
            found = i;
    return found;
}
