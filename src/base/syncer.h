/* Asks the disk to keep a file, on a thread of its own and at most once a second: what is written often must neither wait for
 * the disk nor wear it out. */
#ifndef Q35_BASE_SYNCER_H
#define Q35_BASE_SYNCER_H

struct syncer;

/* Of the file that `fd` has open; fd stays the caller's.  NULL: there is no room for a thread. */
struct syncer *syncer_open(int fd);
void syncer_want(struct syncer *s);             /* what was written until now is on the disk a second later */
int  syncer_failed(struct syncer *s);           /* errno of a sync that failed since the last call, or 0 */
void syncer_close(struct syncer *s);            /* without a sync that has not begun */

#endif
