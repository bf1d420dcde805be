/* The tokens of an answer: how each was made, how likely it was, what it could have been instead. */
#ifndef Q35_UI_TUI_INSPECT_H
#define Q35_UI_TUI_INSPECT_H

struct app;

/* Opens the list of the newest answer's tokens, or of the nth newest's. */
void inspect_answer(struct app *a, int nth);

#endif
