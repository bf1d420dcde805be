/* Checks the path of a checkpoint that an attached q35chat names (docs/formats.md, "Session checkpoints"): it must belong to one of this user's
 * conversations. */
#ifndef Q35_SERVE_CHECKPOINT_PATH_H
#define Q35_SERVE_CHECKPOINT_PATH_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"

/* `path`: as the other program named the file; `own`: the same file's path as this program builds it.  True only for NAME.jsonl.checkpoint next to
 * the conversation NAME.jsonl in the folder of conversations, if both are regular files of this user and no links; the checkpoint need not exist.
 * False with the reason. */
bool checkpoint_path(struct text path, struct buf *own, struct err *e);

#endif
