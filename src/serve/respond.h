/* Replies in one piece, as JSON. */
#ifndef Q35_SERVE_RESPOND_H
#define Q35_SERVE_RESPOND_H

#include "base/buf.h"
#include "serve/web.h"

enum { RESPOND_RETRY_S = 2 };             /* Retry-After of a client that met a full queue */

void respond_json(struct exchange *x, int status, const struct buf *body);
void respond_ok(struct exchange *x, const char *json);  /* with status 200 */
/* An error in the form of OpenAI's servers. */
void respond_error(struct exchange *x, int status, const char *message);
/* code: a word for programs, or NULL; retry_s: Retry-After in seconds, 0: none, since a second try would fail too. */
void respond_error_with(struct exchange *x, int status, const char *message, const char *code, int retry_s);

#endif
