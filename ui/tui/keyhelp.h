/* The list of keys that work at the moment (F1), and the key test, which shows what the terminal sends for each key. */
#ifndef Q35_UI_TUI_KEYHELP_H
#define Q35_UI_TUI_KEYHELP_H

#include "ui/tui/window.h"

void keyhelp_open(struct host *h);
/* Begins the key test: keys are shown and do nothing, until Ctrl-C or Esc is pressed twice. */
void keyhelp_test(struct host *h);
/* Bytes that the terminal sent; called before the keys that they make. */
void keyhelp_sent(struct host *h, const char *bytes, size_t n);

#endif
