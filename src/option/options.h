/* Everything a user can choose.  One table, config/options.def, gives the command line, the config file, /set, --help
 * and --print-config.  Later sources win: default, config file, environment, the conversation that is continued, command
 * line, /set.  Values are text that was checked when it was set. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "option/flags.h"
#include "config/limits.h"

enum option_id {
#define OPTION(key, ...) OPT_##key,
#include "config/options.def"
    N_OPTIONS
};

enum option_from { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_CONVERSATION, FROM_COMMAND_LINE, FROM_SET };      /* the stronger ones last */

/* Sections of the config file, [tool NAME] and [endpoint NAME]: values as they are written there, NULL for what is missing. */
struct option_tool {
    char *name;
#define TOOL_KEY(key) char *key;
#include "config/tool.def"
};
struct option_endpoint {
    char *name;
#define ENDPOINT_KEY(key) char *key;
#include "config/endpoint.def"
};

struct options;

struct options *options_open(void);
void options_close(struct options *o);

struct options *options_copy(const struct options *o);     /* the values without the sections, for another thread */

/* The sources; each is false with a sentence that names what was found.  file.c reads the config file: options_read_file() the one that the command
 * line names, which must be there and have no unknown keys; it may be the pipe of a shell's <(command), which is read for ten seconds. */
bool options_read_file(struct options *o, const char *path, struct err *e);
bool options_read_usual_file(struct options *o, struct err *e);         /* the XDG one; absent is fine, unknown keys are warnings */
const char *options_warnings(const struct options *o);                  /* lines about settings that were ignored; "": nothing */
void options_warn_of(struct options *o, const char *sentence);          /* adds a line to these */
bool options_accessible(void);          /* ACCESSIBLE in the environment asks for text that is only added */
bool options_read_environment(struct options *o, struct err *e);
/* Reads options from argv[1..], and the words of the prompt, joined by blanks, into `prompt`.  *first: the first word; NULL if it comes after `--` or
 * there is no word. */
bool options_read_args(struct options *o, int argc, char **argv, struct buf *prompt, const char **first, struct err *e);
bool options_set(struct options *o, enum option_id id, const char *text, enum option_from from, struct err *e);
/* Sets an option by name, as /set does; refuses one that is read only at the start. */
bool options_set_named(struct options *o, const char *name, const char *text, struct err *e);

/* Saves all values, which options_pop() restores.  One level. */
void options_push(struct options *o);
void options_pop(struct options *o);

int  options_find(const char *name);                                    /* an enum option_id, or -1 */
const char *options_key(enum option_id id);
const char *options_choices(enum option_id id);         /* "a|b|c"; NULL: any value */
bool options_given(const struct options *o, enum option_id id);         /* true if not the default */
enum option_from options_from(const struct options *o, enum option_id id);
const char *options_place(const struct options *o, enum option_id id);  /* "FILE:LINE" if a config file set the option, else NULL */
const char *options_origin(const struct options *o, enum option_id id); /* "default", "config file", ... */
const char *options_text(const struct options *o, enum option_id id);   /* never NULL */
bool     options_on(const struct options *o, enum option_id id);
bool     options_off(const struct options *o, enum option_id id);
const char *options_name(const struct options *o, enum option_id id);   /* the value of an option that is on, off or a name: the name, else NULL */
int      options_int(const struct options *o, enum option_id id);
int      options_drafts(const struct options *o);       /* drafts per step; -1: as many as pay */
double   options_real(const struct options *o, enum option_id id);
uint64_t options_seed(const struct options *o);                         /* meaningful if options_given(OPT_seed) */
const char *const *options_list(const struct options *o, enum option_id id, int *n);   /* valid until it is set again */
int      options_n_tools(const struct options *o);
const struct option_tool *options_tool(const struct options *o, int i);
int      options_n_endpoints(const struct options *o);
const struct option_endpoint *options_endpoint(const struct options *o, int i);

/* For file.c.  Titles are "tool NAME" and "endpoint NAME". */
#define OPTION_SECTIONS "[tool NAME] or [endpoint NAME]"
bool options_section(struct options *o, const char *title);             /* makes the section if it is new; false: no section has such a title */
/* Sets a value of a section that has been made.  False with a sentence: there is no such key. */
bool options_set_section(struct options *o, const char *title, const char *key, const char *value, struct err *e);
typedef void option_section_fn(const char *title, const char *key, const char *value, void *arg);
void options_each_section(const struct options *o, option_section_fn *fn, void *arg);   /* each title, with key NULL, then each value that is set */
void options_set_place(struct options *o, enum option_id id, const char *path, int line);
void options_warn(struct options *o, const char *path, int line, const char *what);
bool options_unknown(const char *name, struct err *e);                  /* refuses the name, and suggests a similar one */

/* The directory of the chosen model, else of the bundled demo.  False with all the places that were searched. */
bool options_model_dir(const struct options *o, struct buf *dir, struct err *e);

/* A row of the table, for help and completion.  A switch has no `arg`; `choices` as above. */
struct option_about {
    const char *key, *standard, *arg, *choices, *help;
    enum value_type type;
    double min, max;                            /* equal: no bounds */
    char letter;                                /* 0: none */
    bool repeats, text, flag_only, start_only;  /* text: any text, of several lines too */
    bool can_be_off;                            /* --no-KEY although it takes a value */
    bool of_engine, of_steps, of_attached, of_answer;   /* e, d, a and 1 of config/options.def */
};
bool options_about(enum option_id id, struct option_about *about);     /* false: there is no such id */

void options_help(struct buf *out);
const char *options_help_of(enum option_id id);
void options_explain(const struct options *o, enum option_id id, struct buf *out);     /* one line: value, origin, help */
/* Prints a config file: values that differ from the default, the others as comments (file.c). */
void options_print(const struct options *o, struct buf *out);
