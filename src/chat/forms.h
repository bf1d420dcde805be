/* The form of answers, as the options schema, pattern and choices ask for it. */
#pragma once

#include <stdbool.h>

#include "answer/form.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/memory.h"
#include "option/options.h"

bool forms_is(enum option_id id);       /* true for schema, pattern and choices */
/* Sets one of the three, and clears the other two: an answer has one form.  A schema is JSON or the name of a file; "" and "off" clear the option.
 * False with the reason: the file cannot be read, or no answer can be made to have the form.  Nothing has changed then. */
bool forms_set(struct options *o, enum option_id id, const char *text, enum option_from from, struct err *e);
/* Takes the one that the strongest source sets, after the options were read, as forms_set() does.  False if that source sets two, the command line
 * an empty one, or no answer can have the form. */
bool forms_read(struct options *o, struct err *e);
/* Returns the form, with its texts in `mem`. */
struct form forms_wanted(const struct options *o, struct arena *mem);
/* Returns the name of the option that is set: "schema", "pattern", "choices"; NULL: none. */
const char *forms_name(const struct options *o);

/* For sessions: the option that is set, a blank and its value; nothing: any text. */
void forms_describe(const struct options *o, struct buf *out);
/* Sets the options as forms_describe() wrote them.  text NULL: clears what was set while the program ran. */
void forms_restore(struct options *o, const char *text);
