/* The prompt of pipe mode: the words of the command line and what comes on stdin. */
#ifndef Q35_UI_PROMPT_H
#define Q35_UI_PROMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/options.h"
#include "ui/exits.h"

/* stdin takes the place of every {} of the words, without its last line ends; without {} it follows them behind an empty line.
 * An empty stdin leaves {} as it is, for then it was probably meant so. */
void prompt_join(struct buf *prompt, const char *text, size_t n);

/* Reads stdin to its end and joins it.  If there are words and not a byte comes, it says so after two seconds and ends after the
 * option stdin_wait.  deadline_ns: of --timeout, 0 for none.  EXIT_ANSWERED, or why the program should end, which was said;
 * EXIT_SIGNAL + n for a signal. */
int prompt_read_stdin(const struct options *o, struct buf *prompt, int64_t deadline_ns);

/* Whether the words name a file as "@path", which pipe mode takes as text: says so on stderr. */
bool prompt_ignores_file(const struct buf *words);
bool prompt_is_blank(const struct buf *b);
void prompt_say(const char *text);                      /* "q35chat: TEXT" on stderr, safe for a terminal */
int  prompt_ms_left(int64_t deadline_ns);               /* for poll(): -1 without a deadline */

#endif
