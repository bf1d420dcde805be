/* A turn: from a message, or another reason to answer, to the end of the answer, all rounds of tool calls included. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "answer/stats.h"
#include "base/buf.h"
#include "base/err.h"
#include "chat/front.h"

struct chat;
struct news;

const char *chat_refill(const struct chat *c);          /* struct refill of the last turn in a sentence; "": no token was read again */
/* The figures so far of the turn under way, without joules; while there is none, those of the last turn. */
void chat_stats_now(const struct chat *c, struct stats *s);

/* --- the user decides about a call --- */
enum chat_answer { CHAT_NO, CHAT_YES, CHAT_ALWAYS };    /* always: every call of this tool, until the program ends */
void chat_approve(struct chat *c, enum chat_answer answer);
void chat_refuse(struct chat *c, const char *why);      /* no, and the model reads why; "": chat_approve(c, CHAT_NO) */
/* Yes, but with these arguments; the model reads that the user changed them.  False if they are not a JSON object: the question stays open. */
bool chat_approve_edited(struct chat *c, const char *arguments, size_t n, struct err *e);
/* The command that the call awaiting approval would run, and its directory, one line each; nothing for a built-in tool. */
void chat_asked_command(const struct chat *c, struct buf *out);

/* --- inside --- */
void turn_begin(struct chat *c, enum turn_kind kind);   /* answers the end of the path */
void turn_news(const struct news *it, void *chat);      /* for the responder */
void turn_show(struct chat *c);                         /* posts what the answer under way has gained */
void turn_after_calls(struct chat *c);                  /* when all calls are answered: the next request, or the end */
void turn_stop(struct chat *c);                         /* the user interrupts the turn */
void turn_fail(struct chat *c, const char *why);        /* no responder can be opened for the turn that waits for one */
void turn_advise(const struct chat *c, struct buf *text);       /* appends how to make room for a prompt that is too long */
