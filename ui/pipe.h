/* Pipe mode: answers without a chat.  stdout carries answers and nothing else. */
#ifndef Q35_UI_PIPE_H
#define Q35_UI_PIPE_H

#include "base/buf.h"
#include "option/options.h"

/* One prompt in, one answer out, as text or as JSON (--json, --jsonl).  prompt: the words of the command line; stdin is added.  Returns the exit
 * status. */
int pipe_run(struct options *o, struct buf *prompt);
/* Reports that no model can be loaded: on stderr, with --json and --jsonl on stdout, too. */
void pipe_no_model(struct options *o, const char *why);

/* --batch: a prompt, or a JSON object, on each line; for each an answer on a line as JSON, in order, each a conversation of its own.  words: those of
 * the command line; a plain line joins them as stdin joins a single prompt.  Returns the exit status: EXIT_FAILED if a line failed, after the others
 * were answered. */
int batch_run(struct options *o, const struct buf *words);

#endif
