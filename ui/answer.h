/* The reply of a turn in pipe mode, and its JSON: an object at the end, or an object for each event. */
#ifndef Q35_UI_ANSWER_H
#define Q35_UI_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/chat.h"
#include "ui/process.h"

struct json_t;

/* Begins with reply_init(); reply_reset() makes it ready for the next turn. */
struct reply {
    struct buf reasoning, answer;
    struct json_t *calls;               /* [{"name", "arguments", "result"}] */
    int  n_results;
    bool new_reasoning, new_answer;     /* the next part follows a tool call: it is a paragraph of its own */
    bool denied;                        /* a call was not allowed */
};

void reply_init(struct reply *r);
void reply_reset(struct reply *r);
void reply_free(struct reply *r);
void reply_take(struct reply *r, const struct chat_event *ev);          /* collects reasoning, text, calls and results */

/* How the turn ended.  `strict`: a cut or empty answer and a call that was not allowed are failures. */
enum exit_status reply_status(const struct reply *r, const struct chat_event *done, bool strict);
/* A sentence about an answer that is not what was asked for: it failed, was cut, is empty.  False: there is none. */
bool reply_complaint(const struct reply *r, const struct chat_event *done, struct buf *out);

/* The whole reply with its figures.  The caller owns these objects. */
struct json_t *reply_json(const struct reply *r, const struct chat *c, const struct chat_event *done);
/* One event of --jsonl; `exit`: of the last one, the status that will be. */
struct json_t *reply_event(const struct chat *c, const struct chat_event *ev, int64_t start_ns, int exit);
struct json_t *reply_event_start(const struct options *o, const struct chat *c, int64_t start_ns);      /* c NULL: it could not be opened */
struct json_t *reply_event_error(const char *why, int exit, int64_t start_ns);
struct json_t *reply_event_no_model(const char *why, int exit, int64_t start_ns);        /* the last one, without a turn */

/* --- code --------------------------------------------------------------------------------------------------------- */

/* The code blocks of an answer. */

/* Appends their text, without fences, with an empty line between two.  False: there is none. */
bool code_blocks(const struct buf *answer, struct buf *out);

#endif
