/* The tokens of an answer, one by one, with what else they could have been. */
#ifndef Q35_UI_TUI_INSPECT_H
#define Q35_UI_TUI_INSPECT_H

#include "ui/tui/cells.h"

struct app;

struct inspect {
    int message, token, choice;         /* of chat_token(); message -1: the answer under way */
};

enum { INSPECT_ROWS = 11 };

void inspect_answer(struct app *a, int nth);            /* of the newest answer, or the nth newest */
/* Colours the items as Alt-H and the inspector want it; cheap when nothing changed. */
void inspect_tint(struct app *a);

#endif
