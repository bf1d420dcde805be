/* The checkpoint that an attached q35chat names (docs/formats.md, "Session checkpoints"): is it that of one of this user's conversations? */
#ifndef Q35_SERVE_CHECKPOINT_PATH_H
#define Q35_SERVE_CHECKPOINT_PATH_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"

/* `path` as another program named it -> `own`, the path of the same file that this program makes itself.  True only for NAME.jsonl.checkpoint
 * beside the conversation NAME.jsonl in the folder of conversations, where both are regular files of this user, and no links; the checkpoint need
 * not be there.  False with the reason. */
bool checkpoint_path(struct text path, struct buf *own, struct err *e);

#endif
