/* The file of a conversation, and its checkpoint.  A disk that fails is reported to the user, and ends nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "session/file.h"
#include "session/transcript.h"

struct chat;
struct news;

bool chat_save(struct chat *c, const char *name, struct err *e);
/* The disk failed and the file lacks messages; the chat writes them again at the end of every turn. */
bool chat_unsaved(const struct chat *c);
/* Writes the messages that the file lacks now.  False with the reason. */
bool chat_keep(struct chat *c, struct err *e);
/* False with a warning if messages are not saved and leaving would lose them; the next call gives true, unless the conversation has grown. */
bool chat_may_quit(struct chat *c, struct err *e);
const char *chat_saved_as(const struct chat *c);        /* path, or NULL */

/* The checkpoint of the conversation (engine/checkpoint.h): its tokens need not be computed again on a resume. */
struct chat_checkpoint {
    bool   on;                          /* the conversation has a checkpoint, or will have one */
    size_t bytes, written;              /* bytes: size of the file, 0: not known; written to it since the start of the program */
    int    restored;                    /* tokens that were restored when the conversation was loaded */
};
void chat_checkpoint(const struct chat *c, struct chat_checkpoint *k);

/* --- inside: each of these changes the transcript, and the file --- */
void persist_entry(struct chat *c, struct entry *m);            /* m was just added to the transcript; its time becomes now */
/* Makes the next entry replace `old`, or stand beside it if there are newer entries.  In the file the path still ends with `old`. */
void persist_instead(struct chat *c, const struct entry *old);
void persist_cut(struct chat *c, int n);
void persist_begun(struct chat *c);                     /* an answer begins, with its given beginning */
void persist_part(struct chat *c);                      /* writes what the answer has gained, if it is time */
void persist_go(struct chat *c, const struct entry *end);
void persist_forget(struct chat *c);                    /* removes the last entry from the tree */
void persist_system(struct chat *c);                    /* makes the option `system` the system prompt */
void persist_form(struct chat *c);                      /* records the form that the options ask for */
void persist_mark(struct chat *c, struct entry *m, int file, enum mark mark);
void persist_model(struct chat *c);                     /* writes the name of the model into a file that is `early` */
void persist_title(struct chat *c, const char *title);  /* one line, clean; "": no title */
/* Replaces the conversation and its file (NULL: no file yet), and takes over both. */
void persist_replace(struct chat *c, struct transcript *t, struct session *s);
/* Makes a new file with all of `t`.  NULL with the reason; then there is no new file. */
struct session *persist_fresh(const struct chat *c, const struct transcript *t, const char *name, struct err *e);
void persist_retry(struct chat *c);                     /* after a failure: writes the whole file again; a note reports success */
/* fsync() runs on another thread.  These functions collect its result and report a failure to the user. */
bool persist_settled(struct chat *c);                   /* true if everything is on the disk, or has failed */
void persist_wait(struct chat *c);                      /* waits until that is so */
bool persist_can_leave(struct chat *c, struct err *e);  /* waits for the disk; true if another conversation may replace this one */

/* --- inside: the checkpoint.  It is saved when a turn and when the program ends, and restored when the conversation is loaded.  Without it only time
 * is lost, so failures are notes at most. --- */
void checkpointer_load(struct chat *c, const char *path);       /* restores the checkpoint of the conversation in this file */
/* Call before a request: gives the responder the path, so that it can save the checkpoint there while other conversations are answered. */
void checkpointer_turn(struct chat *c);
void checkpointer_due(struct chat *c);
void checkpointer_step(struct chat *c);                         /* saves it if it is due and no turn is under way */
void checkpointer_end(struct chat *c);                          /* at the end of the program, before session and responder are closed */
void checkpointer_news(struct chat *c, const struct news *it);  /* NEWS_RESTORED, NEWS_SAVED */
