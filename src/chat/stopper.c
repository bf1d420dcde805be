#include "chat/stopper.h"

#include <ctype.h>
#include <string.h>

/* Where the earliest stop string begins, or held.len. */
static size_t find(const struct stopper *s)
{
    size_t best = s->held.len;
    for (int i = 0; i < s->n_stops; i++) {
        const char *at = memmem(s->held.data, s->held.len, s->stops[i], strlen(s->stops[i]));
        if (at && (size_t)(at - s->held.data) < best)
            best = (size_t)(at - s->held.data);
    }
    return best;
}

/* The length of the longest end of `held` that is the beginning of a stop string. */
static size_t possible(const struct stopper *s)
{
    size_t longest = 0;
    for (int i = 0; i < s->n_stops; i++) {
        size_t k = strlen(s->stops[i]);
        if (k > s->held.len)
            k = s->held.len;
        while (k > longest && memcmp(s->held.data + s->held.len - k, s->stops[i], k))
            k--;
        if (k > longest)
            longest = k;
    }
    return longest;
}

static size_t without_blanks(const struct stopper *s, size_t n)
{
    while (n && isspace((unsigned char)s->held.data[n - 1]))
        n--;
    return n;
}

void stopper_push(struct stopper *s, const char *text, size_t n, struct buf *out)
{
    if (s->hit || !n)
        return;
    if (!s->n_stops) {
        buf_add(out, text, n);
        return;
    }
    buf_add(&s->held, text, n);
    size_t at = find(s), keep = possible(s), give;
    if (at < s->held.len) {
        s->hit = true;
        give = without_blanks(s, at);
    } else {
        give = keep ? without_blanks(s, s->held.len - keep) : s->held.len;
    }
    buf_add(out, s->held.data, give);
    buf_consume(&s->held, give);
}

void stopper_finish(struct stopper *s, struct buf *out)
{
    if (!s->hit && s->held.len)
        buf_add(out, s->held.data, s->held.len);
    buf_reset(&s->held);
}

void stopper_reset(struct stopper *s, const char *const *stops, int n_stops)
{
    buf_reset(&s->held);
    s->stops = stops;
    s->n_stops = n_stops;
    s->hit = false;
}

void stopper_free(struct stopper *s)
{
    buf_free(&s->held);
}
