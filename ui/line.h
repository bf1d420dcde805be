/* Line mode: a prompt, streamed answers, commands that begin with a slash.  For any terminal, also a dumb one. */
#ifndef Q35_UI_LINE_H
#define Q35_UI_LINE_H

#include "option/options.h"
#include "ui/prompt.h"

/* Returns the exit status. */
int line_run(struct options *o, const struct opening *first);

#endif
