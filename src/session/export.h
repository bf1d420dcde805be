/* A conversation as a document: the messages of the shown path, with their times.  "md" has reasoning as a quote, calls and results fenced;
 * "txt" has messages and answers, and a line for each call with its result; "json" has the messages as a session has them, without token ids. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "session/transcript.h"

extern const char *const export_formats[];              /* ended by NULL */

/* Appends the conversation.  file: where it will be, if its pictures are beside it (export_pictures()), which "md" then shows; else NULL. */
bool export_transcript(const struct transcript *t, const char *format, const char *file, struct buf *out, struct err *e);
bool export_is_format(const char *word);
/* Checks *format, or (NULL) chooses it by the ending of `file`; md without both.  file NULL: stdout, or a name that the program makes. */
bool export_choose(const char **format, const char *file, struct err *e);
/* Writes a new file; never replaces one. */
bool export_write(const char *file, const struct buf *text, struct err *e);
/* Copies the pictures of the shown path into the folder FILE.pictures, as beside a session (session/kept.h); without pictures there is no folder. */
bool export_pictures(const char *file, const struct transcript *t, struct err *e);

/* Appends a text between two Markdown fences that no line of it can close; no line feed after the last fence. */
void fence_add(struct buf *out, const char *language, struct text t);
/* Appends a tool call in a line, "weather Paris": the tool's name and its arguments, the text alone if it is the only argument, else the JSON as it
 * came.  True: the arguments are not shown as JSON. */
bool call_line(struct buf *out, const char *name, const char *arguments);
