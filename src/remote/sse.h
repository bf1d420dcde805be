/* Reads server-sent events from bytes as they arrive, as the HTML standard defines the format (section 9.2.6); `id` and `retry` are ignored.
 * The events do not depend on how the bytes are cut into pieces. */
#ifndef Q35_REMOTE_SSE_H
#define Q35_REMOTE_SSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"

enum { SSE_MAX_EVENT = 16 << 20 };      /* bytes of one event's data */

/* `name` is empty when the event has none; both texts are valid during the call.  False ends the stream. */
typedef bool sse_fn(void *arg, struct text name, struct text data, struct err *e);

/* Plain value, valid as {0}; sse_free() frees it. */
struct sse {
    struct buf line, name, data;
    bool has_data;
    bool after_cr;                      /* a line feed at the beginning of the next bytes belongs to the line before */
    bool begun;                         /* a byte order mark may only stand before the first byte */
};

/* False with the reason: fn ended the stream, or an event is too long. */
bool sse_push(struct sse *s, const char *bytes, size_t n, sse_fn *fn, void *arg, struct err *e);
void sse_free(struct sse *s);

#endif
