/* Places on this machine: XDG directories and the bundled demo model. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

bool paths_config(struct buf *path);                    /* the config file; false without HOME */
/* NAME beside the config file; makes the directories above it, for the owner only. */
bool paths_config_beside(const char *name, struct buf *path, struct err *e);
/* NAME below $XDG_STATE_HOME/q35chat; makes the directories above it, for the owner only. */
bool paths_state(struct buf *path, const char *name, struct err *e);
/* $XDG_STATE_HOME/q35chat, which also holds measurements of this machine; makes nothing.  False without HOME. */
bool paths_machine(struct buf *path);
/* NAME in the directory for the sockets of this login: $XDG_RUNTIME_DIR/q35chat, else below /run/user or /tmp.  Makes nothing. */
void paths_runtime(struct buf *path, const char *name);
bool paths_models(struct buf *path);                    /* the directory for models that q35chat makes; false without HOME */
void paths_expand(struct buf *out, const char *path);   /* appends it, with HOME for "~/" */
/* Finds the directory of the demo model; false with the places that were searched in `looked`. */
bool paths_demo(struct buf *dir, struct buf *looked);
