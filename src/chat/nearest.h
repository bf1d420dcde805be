/* The known name that a mistyped one was probably meant to be. */
#ifndef Q35_CHAT_NEAREST_H
#define Q35_CHAT_NEAREST_H

/* One of names[0..n), or NULL if none is close.  NULL entries are skipped. */
const char *nearest(const char *word, const char *const *names, int n);

#endif
