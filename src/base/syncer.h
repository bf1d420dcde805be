/* Syncs a file to disk on its own thread, at most once a second, so that frequent writes neither wait for the disk nor wear it
 * out. */
#ifndef Q35_BASE_SYNCER_H
#define Q35_BASE_SYNCER_H

struct syncer;

/* Syncs the file of `fd`, which the caller keeps and closes.  NULL if no thread can be started. */
struct syncer *syncer_open(int fd);
void syncer_want(struct syncer *s);             /* what was written before this call is on disk within a second */
int  syncer_failed(struct syncer *s);           /* errno of a sync that failed since the last call; 0: none */
void syncer_close(struct syncer *s);            /* does not begin another sync */

#endif
