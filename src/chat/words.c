#include "chat/words.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/unicode.h"
#include "chat/title.h"

void words_split(struct words *w, const char *find)
{
    for (const char *p = find + strspn(find, " \t\n"); *p; p += strspn(p, " \t\n")) {
        size_t n = strcspn(p, " \t\n");
        struct buf word = {0}, escaped = {0};
        unicode_replace(&word, p, n);
        for (size_t i = 0; i < word.len; i++) {
            if (strchr("\"\\", word.data[i]))
                buf_addc(&escaped, '\\');
            buf_addc(&escaped, word.data[i]);
        }
        w->plain = memory_resized(w->plain, (size_t)(w->n + 1) * sizeof *w->plain);
        w->escaped = memory_resized(w->escaped, (size_t)(w->n + 1) * sizeof *w->escaped);
        w->plain[w->n] = word.data;
        w->escaped[w->n++] = escaped.data;
        p += n;
    }
}

void words_free(struct words *w)
{
    for (int i = 0; i < w->n; i++) {
        free(w->plain[i]);
        free(w->escaped[i]);
    }
    free(w->plain);
    free(w->escaped);
}

/* How many of the words the text has; seen[] notes which. */
static int count(const struct words *w, const char *text, bool *seen)
{
    int n = 0;
    for (int i = 0; i < w->n; i++)
        if (strcasestr(text, w->plain[i])) {
            n++;
            if (seen)
                seen[i] = true;
        }
    return n;
}

struct search {
    const struct words *words;
    bool *seen;
    struct buf hit;                     /* the line of a text that has the most of them */
    int  best;
};

/* A long line is cut to what stands around the first word in it. */
static void take_hit(struct search *s, const char *line)
{
    enum { BEFORE = 60, AFTER = 140 };
    const char *at = NULL;
    for (int i = 0; i < s->words->n && !at; i++)
        at = strcasestr(line, s->words->plain[i]);
    size_t from = at - line > BEFORE ? (size_t)(at - line) - BEFORE : 0;
    while (from && ((unsigned char)line[from] & 0xc0) == 0x80)
        from++;
    size_t n = strlen(line + from);
    buf_reset(&s->hit);
    title_clean(&s->hit, (struct text){line + from, n > BEFORE + AFTER ? unicode_complete(line + from, BEFORE + AFTER) : n});
}

static void search_text(struct search *s, const char *text)
{
    struct buf line = {0};
    if (!count(s->words, text, s->seen))
        return;
    while (*text) {
        size_t n = strcspn(text, "\n");
        buf_reset(&line);
        buf_add(&line, text, n);
        int k = count(s->words, buf_str(&line), NULL);
        if (k > s->best) {
            s->best = k;
            take_hit(s, line.data);
        }
        text += n + (text[n] == '\n');
    }
    buf_free(&line);
}

static const char *field(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

/* The line without its token ids, which take most of the time of reading it.  No string can hold what is looked for here:
 * its quotes would have backslashes. */
static void without_ids(struct buf *out, const char *line, size_t n)
{
    static const char begin[] = ",\"ids\":[";
    const char *ids = memmem(line, n, begin, strlen(begin));
    const char *end = ids ? memchr(ids, ']', n - (size_t)(ids - line)) : NULL;
    buf_reset(out);
    buf_add(out, line, end ? (size_t)(ids - line) : n);
    if (end)
        buf_add(out, end + 1, n - (size_t)(end + 1 - line));
}

static void search_line(struct search *s, const struct buf *line)
{
    bool any = false;
    for (int i = 0; i < s->words->n && !any; i++)
        any = strcasestr(buf_str(line), s->words->escaped[i]);
    json_t *r = any ? json_loadb(line->data, line->len, JSON_ALLOW_NUL, NULL) : NULL;
    search_text(s, field(r, "title"));
    search_text(s, field(r, "content"));
    search_text(s, field(r, "reasoning"));
    json_decref(r);
}

bool words_in_file(const struct words *w, const struct buf *file, char **hit)
{
    struct search s = {.words = w};
    struct buf line = {0};
    bool all = true;
    if (!w->n)
        return true;
    for (int i = 0; i < w->n; i++)
        if (!strcasestr(file->data, w->escaped[i]))
            return false;
    s.seen = memory_zeroed((size_t)w->n, sizeof *s.seen);
    for (const char *p = strchr(file->data, '\n'); p && *++p && s.best < w->n; p = strchr(p, '\n')) {
        without_ids(&line, p, strcspn(p, "\n"));
        search_line(&s, &line);
    }
    for (int i = 0; i < w->n; i++)
        all = all && s.seen[i];
    if (all)
        *hit = memory_strdup(buf_str(&s.hit));
    free(s.seen);
    buf_free(&s.hit);
    buf_free(&line);
    return all;
}
