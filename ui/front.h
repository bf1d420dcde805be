/* The front ends, one of which main() runs: each reads what the user gives, shows answers, and returns the exit status. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "option/options.h"
#include "ui/prompt.h"

/* --- line mode ----------------------------------------------------------------------------------------------------- */

/* A prompt, streamed answers, commands that begin with a slash.  For any terminal, also a dumb one. */
int line_run(struct options *o, const struct opening *first);

/* --- pipe mode ----------------------------------------------------------------------------------------------------- */

/* Answers without a chat.  stdout carries answers and nothing else. */

/* One prompt in, one answer out, as text or as JSON (--json, --jsonl).  prompt: the words of the command line; stdin is added.  Returns the exit
 * status. */
int pipe_run(struct options *o, struct buf *prompt);
/* Reports that no model can be loaded: on stderr, with --json and --jsonl on stdout, too. */
void pipe_no_model(struct options *o, const char *why);

/* --batch: a prompt, or a JSON object, on each line; for each an answer on a line as JSON, in order, each a conversation of its own.  words: those of
 * the command line; a plain line joins them as stdin joins a single prompt.  Returns the exit status: EXIT_FAILED if a line failed, after the others
 * were answered. */
int batch_run(struct options *o, const struct buf *words);

/* --- the full screen ----------------------------------------------------------------------------------------------- */

/* Chats until the user leaves, beginning with the message or draft `first`; returns the exit status.  term_usable() must be true.  When the terminal
 * goes away or SIGTERM comes, the conversation is saved and the program ends by that signal. */
int tui_run(struct options *o, const struct opening *first);

/* Checks the keys of the command line.  Those of the config file may be for another version: the full screen shows what is wrong with them. */
bool tui_check_keys(const struct options *o, struct err *e);
