/* --batch: a prompt a line, or a JSON object a line; an answer a line as JSON, in order, each a conversation of its own. */
#ifndef Q35_UI_BATCH_H
#define Q35_UI_BATCH_H

#include "base/buf.h"
#include "option/options.h"

/* `words`: of the command line; a plain line joins them as stdin joins a single prompt.  The exit status: EXIT_FAILED if a line
 * failed, after the others were answered. */
int batch_run(struct options *o, const struct buf *words);

#endif
