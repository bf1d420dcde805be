/* Replies of one piece, in JSON. */
#ifndef Q35_SERVE_RESPOND_H
#define Q35_SERVE_RESPOND_H

#include "base/buf.h"
#include "serve/web.h"

enum { RESPOND_RETRY_S = 2 };             /* after which a client that is sent away may ask again */

void respond_json(struct exchange *x, int status, const struct buf *body);
void respond_ok(struct exchange *x, const char *json);  /* with status 200 */
/* An error as OpenAI's servers say it. */
void respond_error(struct exchange *x, int status, const char *message);
/* code: NULL, or a word for programs; retry_s 0: asking again does not help. */
void respond_error_with(struct exchange *x, int status, const char *message, const char *code, int retry_s);

#endif
