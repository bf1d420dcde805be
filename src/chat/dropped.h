/* Files that are dropped on a terminal: it pastes their paths. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends "@PATH " for each file if the paste names pictures and PDF files alone, by whole paths: as they are, in quotes, with backslashes before
 * blanks, or as file: addresses.  False, and nothing is appended: it is something else, which may be a text that somebody wants to paste. */
bool dropped_words(const char *paste, size_t n, struct buf *out);
