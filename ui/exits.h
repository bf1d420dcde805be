/* What the program's exit status says, and its version.  The manual and docs/pipes.md have the same rows. */
#ifndef Q35_UI_EXITS_H
#define Q35_UI_EXITS_H

#define Q35_VERSION "0.1.0"

/* EXIT(number, NAME, meaning) */
#define EXITS(EXIT) \
    EXIT(0,   ANSWERED,    "the answer is complete; or you left the chat") \
    EXIT(1,   FAILED,      "a failure while running; the conversation could not be saved; -x found no code block; a line of --batch failed") \
    EXIT(2,   USAGE,       "usage: a wrong option or config file, a file that cannot be read, no prompt, a stdin that stays silent") \
    EXIT(3,   MODEL,       "the model cannot be loaded or run: missing, damaged, too little memory, GPU failure") \
    EXIT(4,   TOO_LONG,    "the prompt is longer than the context") \
    EXIT(5,   CUT,         "with --strict: the answer was cut off or is empty") \
    EXIT(6,   DENIED,      "with --strict: a tool call was not allowed") \
    EXIT(124, TIMEOUT,     "--timeout was reached; stdout has the answer so far") \
    EXIT(129, HUNG_UP,     "died by SIGHUP after writing the answer so far") \
    EXIT(130, INTERRUPTED, "died by SIGINT (Ctrl-C) after writing the answer so far") \
    EXIT(141, BROKEN_PIPE, "died by SIGPIPE: the reader of stdout has gone") \
    EXIT(143, TERMINATED,  "died by SIGTERM after writing the answer so far")

enum exit_status {
#define EXIT_ROW(number, name, meaning) EXIT_##name = number,
    EXITS(EXIT_ROW)
#undef EXIT_ROW
    EXIT_SIGNAL = 128                   /* plus the signal's number: main() then dies by that signal */
};

#endif
