/* What the model may call: two built-in tools and those of the config file.  A tool of the config file is a child process:
 * no shell, arguments as JSON on its stdin, limits on time and output, and what tool/child.h says. */
#ifndef Q35_TOOL_TOOL_H
#define Q35_TOOL_TOOL_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/message.h"
#include "option/options.h"

struct tool;
struct tools;

/* What the model is told of calls that did not run, or not to their end. */
#define TOOL_NOT_ALLOWED "error: this call was not allowed; answer without it"
#define TOOL_REFUSED     "error: the user did not allow this call"
#define TOOL_NOT_RUN     "error: not run, the user interrupted"
#define TOOL_INTERRUPTED "error: the user interrupted"
enum { TOOL_OUTCOME = 24 };

/* Built-ins and the [tool NAME] sections, none offered yet.  NULL with the section that is wrong. */
struct tools *tools_open(const struct options *o, struct err *e);
void tools_close(struct tools *t);
/* Offers those of `list`: "all", "none" or names between commas. */
bool tools_offer(struct tools *t, const char *list, struct err *e);
/* The offered ones as JSON objects for the template. */
const struct text *tools_schemas(const struct tools *t, int *n);
const struct tool *tools_find(const struct tools *t, const char *name);         /* an offered one, or NULL */
void tools_names(const struct tools *t, bool offered, struct buf *out);         /* "clock, calculator" */
void tools_list(const struct tools *t, struct buf *out);                        /* a line each, for /tools */

enum tool_approval { TOOL_RUN, TOOL_ASK, TOOL_DENY };
/* What `policy` says about it: ask, always and never mean every tool; auto asks for all but the built-ins, which change
 * nothing; names are tools that need no question either. */
enum tool_approval tool_approval(const struct tool *t, const char *policy);
bool tools_check_policy(const struct tools *t, const char *policy, struct err *e);      /* a name that is no tool is a mistake */
bool tool_listed(const struct tool *t, const char *names);                      /* is it one of the names between commas? */

/* The command as one would type it into a shell, and the directory where it runs, a line each; nothing for a built-in. */
void tool_command(const struct tool *t, struct buf *out);
/* In a word how a call ended whose result is `text`: "not run", "stopped", "exit 3", "signal 9", "ended"; "": well. */
void tool_outcome(const char *text, size_t n, char out[static TOOL_OUTCOME]);

bool tool_check_arguments(const char *text, size_t n, struct err *e);           /* a JSON object */

struct tool_run;
/* Starts a call; NULL if the child could not be started. */
struct tool_run *tool_start(const struct tool *t, const char *arguments, size_t n, struct err *e);
int  tool_fd(const struct tool_run *r);         /* to poll for reading, or -1 */
int  tool_timeout(const struct tool_run *r);    /* milliseconds until it is to be stepped without that, at most TOOL_TICK_MS */
enum { TOOL_TICK_MS = 20 };
/* True when it has ended: `result` then holds what the model is told (UTF-8).  */
bool tool_step(struct tool_run *r, struct buf *result);
/* What it has printed so far, white space at its end left out: a result begins with that.  Bytes of any kind; ends with a whole
 * character.  Valid until the next step. */
const char *tool_output(const struct tool_run *r, size_t *n);
void tool_interrupt(struct tool_run *r);        /* asks it to end, as Ctrl-C in a terminal does */
void tool_kill(struct tool_run *r);             /* ends it; tool_step() returns true soon */
void tool_close(struct tool_run *r);            /* kills what still runs, and waits until it has ended */

#endif
