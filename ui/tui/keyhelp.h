/* The list of keys that work where one is (F1), and the test that tells what each key sends. */
#ifndef Q35_UI_TUI_KEYHELP_H
#define Q35_UI_TUI_KEYHELP_H

#include <stddef.h>

struct app;

void keyhelp_open(struct app *a);
/* From now on keys are only told, until Ctrl-C or Esc twice. */
void keyhelp_test(struct app *a);
/* What the terminal sent, before the keys that it makes. */
void keyhelp_sent(struct app *a, const char *bytes, size_t n);

#endif
