/* Reading ahead.  While no turn is under way, the responder reads the beginning of the next prompt: system prompt and tools when the model is loaded;
 * the last answer (without its reasoning, as the next prompt has it) after a turn; the user's draft, whole words at a time.  Reading ends with the
 * first chunk after a submit; tokens that were read in vain cost nothing but energy. */
#pragma once

#include <stddef.h>

struct chat;

/* The text of the message that is being typed, after each key; "": it is empty.  When no key has come for a moment, its whole words are read ahead,
 * which changes no answer. */
void chat_draft(struct chat *c, const char *text, size_t n);

/* --- inside --- */
void ahead_step(struct chat *c);                        /* gives the responder the beginning of the next prompt, if that has changed */
void ahead_files(struct chat *c);                       /* a file of the draft has been read */
int  ahead_timeout(const struct chat *c);               /* ms until ahead_step() has something to do, -1: nothing */
