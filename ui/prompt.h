/* The first prompt, made of the words of the command line, the files of -f and the text of stdin; and the last lines of a chat. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/chat.h"
#include "ui/process.h"

/* Replaces every {} of the words by the text of stdin without its last line ends; without {} appends the text after an empty line.  An empty stdin
 * leaves {} as it is, since {} was probably meant literally. */
void prompt_join(struct buf *prompt, const char *text, size_t n);

/* Reads stdin to its end and joins it.  If there are words and not a byte comes, it says so after two seconds and ends after the
 * option stdin_wait.  deadline_ns: of --timeout, 0 for none.  EXIT_ANSWERED, or why the program should end, which was said;
 * EXIT_SIGNAL + n for a signal. */
int prompt_read_stdin(const struct options *o, struct buf *prompt, int64_t deadline_ns);

/* True if the words name a file as "@path", which pipe mode takes as text; says so on stderr. */
bool prompt_ignores_file(const struct buf *words);
bool prompt_is_blank(const struct buf *b);
bool prompt_check_files(const struct options *o, struct err *e);        /* true if the files of -f can be attached, before a model is loaded */

/* The first message of a chat, as the command line and stdin give it. */
struct opening {
    struct buf text;                    /* a word "@FILE" for each -f, then the prompt */
    bool sent;                          /* there is a prompt: the message is sent; otherwise it is a draft */
    bool piped;                         /* part of it came from stdin: a word after @ that names no file was not meant as one */
};
/* Makes it of the words in `prompt`.  If stdin is no terminal its text is read, unless --no-stdin is given, and stdin becomes the terminal. */
int  prompt_opening(const struct options *o, struct buf *prompt, struct opening *first);        /* EXIT_ANSWERED, or the status after a sentence */
bool prompt_submit(struct chat *c, const struct opening *first, struct err *e);
int  prompt_ms_left(int64_t deadline_ns);               /* ms until the deadline, for poll(): -1 without one */

/* --- the last lines of a chat -------------------------------------------------------------------------------------- */

/* Appends "resume with: q35chat -r NAME" and a line end; nothing if the conversation is not kept or has no message.  The command line is for a
 * shell: the program as it was started, the options that lead to this model if -r alone does not, words quoted. */
void goodbye_add(const struct chat *c, const struct options *o, struct buf *out);
/* Tries a last time to save a conversation that is not saved.  If a signal ends the program (`ending`, else 0), so that the user cannot choose
 * another place, the conversation goes into a file of HOME or of a directory for temporary files.  Appends to `said` a line for stderr with the
 * place, or the reason why nothing is saved; returns EXIT_FAILED then, else `status`. */
int goodbye_status(struct chat *c, int ending, int status, struct buf *said);
