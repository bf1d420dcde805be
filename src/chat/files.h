/* Files of the next message, for a front end that must not wait for them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "chat/pdf.h"

struct attached;
struct chat;

/* True while pictures and PDF files that the message names are being read, on another thread: chat_submit() would refuse it, with a full screen.  The
 * chat then has something to drain when a file has been read.  chat_draft() lets the reading begin while the user types. */
bool chat_awaits_files(struct chat *c, const char *text, size_t n);
/* Attaches this file to the next message, as "@path" in it would. */
bool chat_attach(struct chat *c, const char *path, struct err *e);

/* --- inside --- */
enum pdf_as files_pdf_as(const struct chat *c);
/* Makes *files the pictures that the text names and that have been read; attach_free() frees it. */
void files_gather(const struct chat *c, const char *text, size_t n, struct attached *files);
/* Adds the pictures that lines such as "image/png: PATH" name, the first few; *files is empty.  What cannot be read is left out.  True: all that can
 * be have been; false: some are still being read. */
bool files_shown(struct chat *c, const char *text, size_t n, struct attached *files);
/* False with the reason if there are pictures and the model cannot see.  What is still loading gets the request, and refuses it then. */
bool files_seen(const struct chat *c, const struct attached *files, struct err *e);
bool files_named(const char *text);                     /* true if a text names files */
