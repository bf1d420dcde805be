/* Pictures and PDF files of the messages that are being written: a thread reads and decodes them, so that sending a message waits for no file.  What
 * no message has named for a while is dropped. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "chat/sent.h"

struct shelf;

/* Starts the thread.  NULL: none can be started. */
struct shelf *shelf_open(void);
/* Ends the thread; a program that works on a PDF file is killed.  NULL is fine. */
void shelf_close(struct shelf *s);
int  shelf_fd(const struct shelf *s);                   /* readable when a file has been read */
bool shelf_changed(struct shelf *s);                    /* true, once, after that */

/* Adds the pictures and texts of a file as it is on disk now; they stay the shelf's until the next shelf_trim().  The first call for a file has it
 * read; to->awaits becomes true while that lasts.  False with the reason: it cannot be attached. */
bool shelf_take(struct shelf *s, const char *path, struct attached *to, struct err *e);
/* Drops files that were not asked for lately. */
void shelf_trim(struct shelf *s);
