/* Syncs a file to disk on its own thread, so that the writer does not wait for the disk. */
#pragma once

#include <stdbool.h>

struct syncer;

/* Syncs the file of `fd`, which the caller keeps and closes.  name: one that the file was given just now; its directory is synced after
 * the file's first sync, until when the name may be lost.  NULL: the name is on disk.  NULL if no thread can be started. */
struct syncer *syncer_open(int fd, const char *name);
void syncer_want(struct syncer *s);             /* has the bytes written so far on disk within a second; at most one sync a second */
void syncer_now(struct syncer *s);              /* ... as soon as the disk takes it */
int  syncer_fd(const struct syncer *s);         /* readable when syncer_settled() has something new */
bool syncer_settled(struct syncer *s);          /* true if no sync is requested or under way */
int  syncer_failed(struct syncer *s);           /* errno of a sync that failed since the last call; 0: no failure */
void syncer_wait(struct syncer *s);             /* waits until the requested sync is done, or has failed */
void syncer_close(struct syncer *s);            /* waits for a sync under way, and begins no other */
