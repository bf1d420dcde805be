/* The functions of single windows that other files call, by the file that defines them. */
#pragma once

#include "ui/tui/window.h"

/* --- browse -------------------------------------------------------------------------------------------------------- */

/* View mode: scrolling, folds, search, marks, copies, branches. */

/* The current hit of the search, from 1, and the number of hits.  False: no search is under way. */
bool browse_search(const struct host *h, int *hit, int *n_hits);

/* --- inspect ------------------------------------------------------------------------------------------------------- */

/* The tokens of an answer: how each was chosen, its probability, and its alternatives. */

/* Opens the list of tokens of the nth newest answer; 1: the newest. */
void inspect_answer(struct host *h, int nth);

/* --- keyhelp ------------------------------------------------------------------------------------------------------- */

/* The list of keys that work at the moment (F1), and the key test, which shows what the terminal sends for each key. */

void keyhelp_open(struct host *h);
/* Begins the key test: keys are shown and do nothing, until Ctrl-C or Esc is pressed twice. */
void keyhelp_test(struct host *h);
/* Bytes that the terminal sent; called before the keys that they make. */
void keyhelp_sent(struct host *h, const char *bytes, size_t n);

/* --- picker -------------------------------------------------------------------------------------------------------- */

/* Lists to choose from, which typing narrows: sessions, earlier messages, the tree of the conversation, addresses.  In the list of what fills the
 * context letters are keys instead. */

enum picker_kind { PICK_SESSION, PICK_MESSAGE, PICK_NODE, PICK_URL, PICK_PART };

/* Opens a list; if it would be empty, shows a hint instead. */
void picker_open(struct host *h, enum picker_kind kind);
/* Opens the list of sessions, narrowed by these words. */
void picker_find(struct host *h, const char *words);
