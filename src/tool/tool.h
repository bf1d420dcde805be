/* The tools that the model may call: built-in ones, and those of the config file, which are child processes (child.c): no shell, arguments as JSON
 * on stdin, limits on time and output, a small environment, and an end that reaches every process that was started.  tool/kind.h adds kinds. */
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/message.h"
#include "option/options.h"

struct tool;
struct tools;

/* Results, for the model, of calls that did not run, or not to their end. */
#define TOOL_NOT_ALLOWED "error: this call was not allowed; answer without it"
#define TOOL_REFUSED     "error: the user did not allow this call"
#define TOOL_NOT_RUN     "error: not run, the user interrupted"
#define TOOL_INTERRUPTED "error: the user interrupted"
enum { TOOL_OUTCOME = 24 };

/* The built-in tools and those of the [tool NAME] sections; none is offered yet.  NULL with the section that is wrong. */
struct tools *tools_open(const struct options *o, struct err *e);
void tools_close(struct tools *t);
/* Offers the tools of `list`: "all", "none" or names between commas. */
bool tools_offer(struct tools *t, const char *list, struct err *e);
/* The offered tools as JSON objects for the template. */
const struct text *tools_schemas(const struct tools *t, int *n);
const struct tool *tools_find(const struct tools *t, const char *name);         /* an offered one, or NULL */
void tools_names(const struct tools *t, bool offered, struct buf *out);         /* "clock, calculator" */
void tools_list(const struct tools *t, struct buf *out);                        /* a line each, for /tools */

enum tool_approval { TOOL_RUN, TOOL_ASK, TOOL_DENY };
/* Whether a call may run under this policy: ask, always and never mean every tool; auto asks for all but the built-in tools, which change nothing;
 * names are tools that need no question either. */
enum tool_approval tool_approval(const struct tool *t, const char *policy);
bool tools_check_policy(const struct tools *t, const char *policy, struct err *e);      /* a name that is no tool is a mistake */
bool tool_listed(const struct tool *t, const char *names);                      /* is it one of the names between commas? */

/* The command as one would type it into a shell, and the directory where it runs, a line each; nothing for a built-in. */
void tool_command(const struct tool *t, struct buf *out);
/* Describes in a word how the call with this result ended: "not run", "stopped", "exit 3", "signal 9", "ended"; "": well. */
void tool_outcome(const char *text, size_t n, char out[static TOOL_OUTCOME]);

bool tool_shows_pictures(const struct tool *t);         /* the user lets its results name pictures, which the model then sees */
bool tool_check_arguments(const char *text, size_t n, struct err *e);           /* a JSON object */

/* One call.  Several may run at the same time. */
struct tool_run;
/* Starts a call; NULL with the reason if it cannot start. */
struct tool_run *tool_start(const struct tool *t, const char *arguments, size_t n, struct err *e);
enum { TOOL_TICK_MS = 20, TOOL_MAX_FDS = 2 };
int  tool_fds(const struct tool_run *r, struct pollfd fds[TOOL_MAX_FDS]);       /* descriptors to poll; returns how many */
int  tool_timeout(const struct tool_run *r);    /* milliseconds until the next step if no descriptor is ready, at most TOOL_TICK_MS */
/* True when the call has ended: its result for the model is then appended to `result` (UTF-8). */
bool tool_step(struct tool_run *r, struct buf *result);
/* The output so far, without white space at its end: the beginning of the result.  Bytes of any kind; ends with a whole character.  Valid until the
 * next step. */
const char *tool_output(const struct tool_run *r, size_t *n);
void tool_interrupt(struct tool_run *r);        /* interrupts it, as Ctrl-C in a terminal does */
void tool_kill(struct tool_run *r);             /* ends it; tool_step() returns true soon */
void tool_close(struct tool_run *r);            /* kills what still runs, and waits until it has ended */
