#include "session/search.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/unicode.h"
#include "session/transcript.h"

/* --- words ------------------------------------------------------------------------------------------------------ */

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

void words_found_free(struct words_found *f)
{
    free(f->seen);
    free(f->named);
    buf_free(&f->hit);
    *f = (struct words_found){0};
}

/* Returns how many of the words the text has, and notes them in seen[], unless that is NULL. */
static int count_words(const struct words *w, const char *text, bool *seen)
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

static void begin_found(const struct words *w, struct words_found *f)
{
    if (f->seen)
        return;
    f->seen = memory_zeroed((size_t)w->n + 1, sizeof *f->seen);
    f->named = memory_zeroed((size_t)w->n + 1, sizeof *f->named);
}

/* True if the line has a word that name and title do not have. */
static bool is_news(const struct words *w, const struct words_found *f, const char *line)
{
    int i = 0;
    while (i < w->n && (f->named[i] || !strcasestr(line, w->plain[i])))
        i++;
    return i < w->n;
}

/* Returns the rest of the line from `before` bytes before its first word that is searched for. */
static const char *rest_from(const struct words *w, const char *line, int before)
{
    const char *at = NULL;
    for (int i = 0; i < w->n && !at; i++)
        at = strcasestr(line, w->plain[i]);
    const char *from = at && at - line > before ? at - before : line;
    while (from > line && ((unsigned char)*from & 0xc0) == 0x80)
        from++;
    return from;
}

/* Makes the line the hit; cuts a long line around the first word in it. */
static void take_hit(const struct words *w, struct words_found *f, const char *line)
{
    enum { BEFORE = 60, AFTER = 140 };
    const char *from = rest_from(w, line, BEFORE);
    size_t n = strlen(from);
    buf_reset(&f->hit);
    title_clean(&f->hit, (struct text){from, n > BEFORE + AFTER ? unicode_complete(from, BEFORE + AFTER) : n});
}

const char *words_near(const struct words *w, const char *hit)
{
    enum { BEFORE = 16 };
    const char *from = rest_from(w, hit, BEFORE), *blank = from > hit ? strchr(from, ' ') : NULL;
    return blank && blank - from < BEFORE ? blank + 1 : from;           /* not from the middle of a word */
}

/* Notes the words of a text, and its line with most of them. */
static void search_text(const struct words *w, struct words_found *f, const char *text)
{
    struct buf line = {0};
    if (!count_words(w, text, f->seen))
        return;
    while (*text) {
        size_t n = strcspn(text, "\n");
        buf_reset(&line);
        buf_add(&line, text, n);
        int k = count_words(w, buf_str(&line), NULL);
        if (k > f->best && is_news(w, f, buf_str(&line))) {
            f->best = k;
            take_hit(w, f, line.data);
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

/* Copies the line without its token ids, which take most of the time of parsing it.  No string can contain `begin`, since its quotes would have
 * backslashes. */
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

/* True if the JSON text contains any of the words, so that it is worth parsing. */
static bool any_escaped(const struct words *w, const char *text)
{
    int i = 0;
    while (i < w->n && !strcasestr(text, w->escaped[i]))
        i++;
    return i < w->n;
}

/* Searches title, content and reasoning of a line. */
static void search_line(const struct words *w, struct words_found *f, const struct buf *line)
{
    json_t *r = any_escaped(w, buf_str(line)) ? json_loadb(line->data, line->len, JSON_ALLOW_NUL, NULL) : NULL;
    search_text(w, f, field(r, "title"));
    search_text(w, f, field(r, "content"));
    search_text(w, f, field(r, "reasoning"));
    json_decref(r);
}

void words_in_name(const struct words *w, struct words_found *f, const char *name)
{
    begin_found(w, f);
    count_words(w, name, f->seen);
    count_words(w, name, f->named);
}

/* Parses only if a word occurs anywhere: most files have none of the words. */
static void words_in_lines(const struct words *w, struct words_found *f, const char *lines, size_t n)
{
    struct buf line = {0};
    begin_found(w, f);
    if (!any_escaped(w, lines))
        return;
    for (const char *p = lines, *end = lines + n; p < end && f->best < w->n;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        without_ids(&line, p, (size_t)((stop ? stop : end) - p));
        search_line(w, f, &line);
        p = stop ? stop + 1 : end;
    }
    buf_free(&line);
}

bool words_complete(const struct words *w, const struct words_found *f)
{
    int i = 0;
    while (i < w->n && f->seen && f->seen[i])
        i++;
    return i == w->n;
}

bool words_in_file(const struct words *w, const char *name, const char *title, const struct buf *file, char **hit)
{
    struct words_found f = {0};
    words_in_name(w, &f, name);
    words_in_name(w, &f, title);
    bool all = true;
    for (int i = 0; i < w->n && all; i++)
        all = f.seen[i] || strcasestr(file->data, w->escaped[i]);
    if (all && !words_complete(w, &f))
        words_in_lines(w, &f, file->data, file->len);
    all = all && words_complete(w, &f);
    *hit = all && f.hit.len ? memory_strdup(f.hit.data) : NULL;
    words_found_free(&f);
    return all;
}

/* --- a file in slices --------------------------------------------------------------------------------------------- */

enum { SLICE = 256 << 10, LONGEST_LINE = 16 << 20 };

static void end_file(struct scan *s)
{
    if (s->open)
        close(s->fd);
    s->open = false;
    buf_free(&s->rest);
}

void scan_begin(struct scan *s, const char *words)
{
    scan_free(s);
    words_split(&s->words, words);
}

void scan_free(struct scan *s)
{
    end_file(s);
    words_found_free(&s->found);
    words_free(&s->words);
    *s = (struct scan){0};
}

/* Begins to search a session; its file is opened only if name and title do not have all words. */
static void begin_file(struct scan *s, const char *name, const char *title, const char *path)
{
    words_found_free(&s->found);
    words_in_name(&s->words, &s->found, name);
    words_in_name(&s->words, &s->found, title);
    s->fd = words_complete(&s->words, &s->found) ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    s->open = s->fd >= 0;
}

/* Searches the whole lines that were read. */
static void scan_lines(struct scan *s, bool last)
{
    const char *end = memrchr(buf_str(&s->rest), '\n', s->rest.len);
    size_t n = last ? s->rest.len : end ? (size_t)(end - s->rest.data) + 1 : 0;
    if (!n)
        return;
    const char next = s->rest.data[n];
    s->rest.data[n] = 0;
    words_in_lines(&s->words, &s->found, s->rest.data, n);
    s->rest.data[n] = next;
    buf_consume(&s->rest, n);
}

enum scan_result scan_step(struct scan *s, const char *name, const char *title, const char *path)
{
    if (!s->open)
        begin_file(s, name, title, path);
    buf_reserve(&s->rest, SLICE);
    ssize_t n = s->open ? read(s->fd, s->rest.data + s->rest.len, SLICE) : -1;
    s->rest.len += n > 0 ? (size_t)n : 0;
    s->rest.data[s->rest.len] = 0;
    const bool last = n <= 0 || s->rest.len > LONGEST_LINE;
    scan_lines(s, last);
    if (!last && s->found.best < s->words.n)
        return SCAN_MORE;
    end_file(s);
    return words_complete(&s->words, &s->found) ? SCAN_FOUND : SCAN_NOT;
}
