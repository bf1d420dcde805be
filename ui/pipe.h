/* Pipe mode: one prompt in, one answer out.  stdout carries the answer and nothing else, or JSON if asked. */
#ifndef Q35_UI_PIPE_H
#define Q35_UI_PIPE_H

#include "base/buf.h"
#include "option/options.h"

/* `prompt`: the words of the command line; stdin is added here.  Returns the exit status. */
int pipe_run(struct options *o, struct buf *prompt);

/* There is no model to ask: says why, with --json and --jsonl on stdout, too. */
void pipe_no_model(struct options *o, const char *why);

#endif
