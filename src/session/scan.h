/* Scans session files for words, a slice at a time, for a thread that must not wait.  Plain value, valid as {0}. */
#ifndef Q35_SESSION_SCAN_H
#define Q35_SESSION_SCAN_H

#include "session/words.h"

struct scan {
    struct words words;
    struct words_found found;           /* in the file under way */
    bool open;                          /* there is one */
    int  fd;
    struct buf rest;                    /* bytes of it that are read and not searched */
};

enum scan_result { SCAN_MORE, SCAN_NOT, SCAN_FOUND };

void scan_begin(struct scan *s, const char *words);
void scan_free(struct scan *s);
/* Reads and searches the next 256 KB of this session's file.  MORE: the next call must be about the same session.  FOUND: name, title and text have
 * all words, and s->found.hit is the hit until the next call. */
enum scan_result scan_step(struct scan *s, const char *name, const char *title, const char *path);

#endif
