/* Requests of an attached q35chat and their replies (docs/serve.md, "Between two q35chats").  An answer is sent as tokens, in lines of JSON. */
#ifndef Q35_SERVE_RELAY_H
#define Q35_SERVE_RELAY_H

#include "base/buf.h"
#include "base/err.h"
#include "responder/responder.h"
#include "serve/choice.h"
#include "serve/question.h"

/* Reads the body of /q35chat/answer; like question_read(). */
bool relay_read(struct question *q, struct text body, const struct options *o, struct err *e);
/* Reads the body of /q35chat/ahead into q->ids: the beginning of a prompt.  Nothing else of *q is set. */
bool relay_read_ahead(struct question *q, struct text body, struct err *e);
/* Reads the body of /q35chat/attach: the name of the q35chat, allocated in `mem`.  Refuses one that speaks another version of the protocol. */
bool relay_read_attach(struct text body, struct text *name, struct arena *mem, struct err *e);
/* Reads the body of /q35chat/interrupt: the name of an answer, allocated in `mem`. */
bool relay_read_name(struct text body, struct text *name, struct arena *mem, struct err *e);
/* Reads the body of /q35chat/save and /q35chat/restore; texts are allocated in `mem`. */
struct relay_file {
    struct text name;                   /* of the q35chat that sent it */
    uint64_t    conversation;
    struct text path;                   /* not checked; may be empty */
};
bool relay_read_file(struct text body, struct relay_file *f, struct arena *mem, struct err *e);

/* Append news of the answer as lines to r->out. */
void relay_news(struct choice *r, const struct news *it);
void relay_done(struct choice *r, const struct news *it);

/* Append lines to the stream of an attached q35chat. */
void relay_protocol(struct buf *out);                                   /* the first line: the version of the protocol */
void relay_ready(const struct responder_info *info, struct buf *out);
void relay_machine(const struct chat_machine *m, struct buf *out);
void relay_filed(const struct news *it, struct buf *out);               /* NEWS_RESTORED, NEWS_SAVED */

#endif
