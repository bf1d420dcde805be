#include "session/scan.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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
