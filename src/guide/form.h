/* The form of an answer (answer/form.h): compiled, worded for the prompt, and checked. */
#pragma once

#include "answer/form.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/message.h"
#include "guide/grammar.h"

/* Compiles a form other than ANY and CALLS.  NULL with the reason, which begins with the field if it has one. */
struct grammar *form_grammar(const struct form *f, struct err *e);

/* True if the whole answer has the form, also what a loose schema left to be checked afterwards.  CALLS and ANY are not checked. */
bool form_check(const struct form *f, struct text answer, struct err *e);

/* Returns the messages with words for the form at the end of the last question, so that earlier messages keep their tokens; the list is in `mem`.
 * Returns `m` itself if there is nothing to add: the messages have it already, which means for an object the word JSON, for a schema the quoted names
 * of its properties (or itself), for a pattern itself, for choices each of them; or it has more than 32 KiB.
 * tools: the model may call some before that answer. */
const struct message *form_worded(const struct form *f, const struct message *m, int n, bool tools, struct arena *mem);
/* Reads a list of choices: of JSON, whose texts may have commas, or texts with commas between, without the blanks around these.  They are in `mem` or
 * in `list`. */
struct form form_of_choices(struct text list, struct arena *mem);
