/* Conversations on disk as the user sees them: loaded, resumed, named, deleted (session/list.h lists them). */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct chat;

/* Loads a conversation.  `note` gets what the user should know: damage of the file, that it cannot be written, that the last answer is incomplete. */
bool chat_load(struct chat *c, const char *name, struct buf *note, struct err *e);
/* At the start of the program: loads the conversation of the options resume and continue, if any. */
bool chat_resume(struct chat *c, struct buf *note, struct err *e);
/* The name for -r of this conversation; false: it is not kept on disk, or has no messages. */
bool chat_saved_name(const struct chat *c, struct buf *name);
bool chat_rename(struct chat *c, const char *title, struct err *e);
/* Moves a kept conversation to the trash (session/trash.h).  The first call only announces that in `note`; the second one does it. */
bool chat_delete(struct chat *c, const char *name, struct buf *note, struct err *e);
bool chat_export(const struct chat *c, const char *format, const char *file, struct buf *out, struct err *e);    /* export_transcript() */
bool chat_export_pictures(const struct chat *c, const char *file, struct err *e);       /* the pictures of that file: export_pictures() */
/* The title that the user gave, else the first line of the first message, else "".  Valid until the next call. */
const char *chat_title(struct chat *c);
