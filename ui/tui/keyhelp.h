/* The list of keys that work where one is (F1), and the test that tells what each key sends. */
#ifndef Q35_UI_TUI_KEYHELP_H
#define Q35_UI_TUI_KEYHELP_H

#include "ui/tui/window.h"

void keyhelp_open(struct host *h);
/* From now on keys are only told, until Ctrl-C or Esc twice. */
void keyhelp_test(struct host *h);
/* What the terminal sent, before the keys that it makes. */
void keyhelp_sent(struct host *h, const char *bytes, size_t n);

#endif
