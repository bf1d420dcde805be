#include "remote/sse.h"

#include <string.h>

static bool dispatch(struct sse *s, sse_fn *fn, void *arg, struct err *e)
{
    bool ok = true;
    if (s->has_data)
        ok = fn(arg, (struct text){buf_str(&s->name), s->name.len}, (struct text){buf_str(&s->data), s->data.len}, e);
    buf_reset(&s->name);
    buf_reset(&s->data);
    s->has_data = false;
    return ok;
}

/* "field: value"; one space behind the colon is not part of the value.  A line that begins with a colon is a comment. */
static void take_field(struct sse *s)
{
    struct text line = {buf_str(&s->line), s->line.len};
    const char *colon = line.n ? memchr(line.p, ':', line.n) : NULL;
    struct text field = {line.p, colon ? (size_t)(colon - line.p) : line.n};
    struct text value = {colon ? colon + 1 : "", colon ? line.n - field.n - 1 : 0};
    if (text_starts(value, " "))
        value = (struct text){value.p + 1, value.n - 1};
    if (text_is(field, "data")) {
        if (s->has_data)
            buf_addc(&s->data, '\n');
        buf_add(&s->data, value.p, value.n);
        s->has_data = true;
    } else if (text_is(field, "event")) {
        buf_reset(&s->name);
        buf_add(&s->name, value.p, value.n);
    }
}

static bool end_line(struct sse *s, sse_fn *fn, void *arg, struct err *e)
{
    static const char mark[] = "\xef\xbb\xbf";
    if (!s->begun && text_starts((struct text){buf_str(&s->line), s->line.len}, mark))
        buf_consume(&s->line, 3);
    s->begun = true;
    bool ok = true;
    if (s->line.len)
        take_field(s);
    else
        ok = dispatch(s, fn, arg, e);
    buf_reset(&s->line);
    return ok;
}

bool sse_push(struct sse *s, const char *bytes, size_t n, sse_fn *fn, void *arg, struct err *e)
{
    for (const char *p = bytes, *end = bytes + n; p < end;) {
        if (s->after_cr && *p == '\n') {
            s->after_cr = false;
            p++;
            continue;
        }
        const char *stop = p;
        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        buf_add(&s->line, p, (size_t)(stop - p));
        if (s->line.len + s->data.len > SSE_MAX_EVENT)
            return err_set(e, "the server sent an event of more than %d MiB", SSE_MAX_EVENT >> 20);
        s->after_cr = stop < end && *stop == '\r';
        if (stop < end && !end_line(s, fn, arg, e))
            return false;
        p = stop + (stop < end);
    }
    return true;
}

void sse_free(struct sse *s)
{
    buf_free(&s->line);
    buf_free(&s->name);
    buf_free(&s->data);
}
