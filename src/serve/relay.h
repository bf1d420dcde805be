/* What an attached q35chat asks (docs/serve.md, "Between two q35chats"): an answer as tokens, told line by line, each line a JSON object. */
#ifndef Q35_SERVE_RELAY_H
#define Q35_SERVE_RELAY_H

#include "base/buf.h"
#include "base/err.h"
#include "chat/responder.h"
#include "serve/choice.h"
#include "serve/question.h"

/* The body of /q35chat/answer.  As question_read(). */
bool relay_read(struct question *q, struct text body, const struct options *o, struct err *e);
/* The body of /q35chat/ahead: the prompt's beginning, in a question that is no more than that. */
bool relay_read_ahead(struct question *q, struct text body, struct err *e);
/* The name of the q35chat that asks, in the body of /q35chat/attach; lives in `mem`.  One of another version is refused. */
bool relay_read_attach(struct text body, struct text *name, struct arena *mem, struct err *e);
/* The name of an answer, in the body of /q35chat/interrupt; lives in `mem`. */
bool relay_read_name(struct text body, struct text *name, struct arena *mem, struct err *e);
/* The body of /q35chat/save and /q35chat/restore; texts live in `mem`. */
struct relay_file {
    struct text name;                   /* of the q35chat that asks */
    uint64_t    conversation;
    struct text path;                   /* not checked; may be empty */
};
bool relay_read_file(struct text body, struct relay_file *f, struct arena *mem, struct err *e);

/* News of the answer as lines, into r->out. */
void relay_news(struct choice *r, const struct news *it);
void relay_done(struct choice *r, const struct news *it);

void relay_protocol(struct buf *out);                                  /* the first line for who attaches */
void relay_ready(const struct responder_info *info, struct buf *out);   /* lines */
void relay_machine(const struct chat_machine *m, struct buf *out);
void relay_filed(const struct news *it, struct buf *out);               /* restored, saved */

#endif
