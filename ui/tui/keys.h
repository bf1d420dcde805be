/* What the terminal sends, as events: bytes in, keys, text, pastes and reports out.  Pure; time comes from outside.
 * Knows the forms of xterm, rxvt, linux, tmux, screen and kitty.  A sequence may be split anywhere; one that is unknown, and
 * an answer of the terminal that nobody waits for, is swallowed, never typed.
 *
 * A key has one form, whatever the terminal sends for it: letters with Ctrl or Alt are lower case (with MOD_SHIFT where the
 * terminal tells), Ctrl-H I M and [ are KEY_BACKSPACE, KEY_TAB, KEY_ENTER and KEY_ESCAPE, Ctrl-/ is Ctrl-_.
 *
 * A paste is known by its marks.  Until the terminal has shown that it sends them, it is also known by its speed: a carriage
 * return amid text that comes all at once is a newline of a paste.  One at the end of what comes at once, the only one in it,
 * is Enter: that is how scripts type. */
#ifndef Q35_UI_TUI_KEYS_H
#define Q35_UI_TUI_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/tui/keycode.h"

enum key_kind {
    KEYS_KEY,                   /* code, mods: a named key, or a code point with Ctrl or Alt; Ctrl-C is 'c' with MOD_CTRL */
    KEYS_TEXT,                  /* text: characters to insert, whole UTF-8 sequences, no controls */
    KEYS_PASTE,                 /* text: part of a paste: newlines are \n, controls but \n and \t are gone */
    KEYS_PASTE_END,
    KEYS_REPORT,                /* an answer of the terminal: report, value */
};
enum key_report { REPORT_DA1, REPORT_SYNC, REPORT_BACKGROUND, REPORT_FOCUS, REPORT_KITTY, REPORT_CURSOR };

struct key_event {
    enum key_kind kind;
    uint32_t code;
    uint8_t  mods;
    int      row, col;          /* of KEY_CLICK and the wheel, from 0 */
    enum key_report report;
    int      value;             /* SYNC: 1 the mode is known; BACKGROUND: luminance 0..255; FOCUS: 1 in, 0 out; KITTY: its flags */
    const char *text;           /* valid during the call */
    size_t   n;
};

struct keys;

struct keys *keys_open(void);
void keys_close(struct keys *k);
/* Takes bytes that were read at `ms` and calls fn for each event they complete.  fn must not feed. */
void keys_feed(struct keys *k, const char *bytes, size_t n, int64_t ms, void (*fn)(void *arg, const struct key_event *ev), void *arg);
/* Time goes by: a lone ESC becomes KEY_ESCAPE, a paste without an end ends. */
void keys_tick(struct keys *k, int64_t ms, void (*fn)(void *arg, const struct key_event *ev), void *arg);
int  keys_timeout(const struct keys *k, int64_t ms);    /* ms until a tick is due, -1: none */
void keys_escape_ms(struct keys *k, int ms);            /* how long a lone ESC waits: 25; more over SSH */

/* "Ctrl-C", "Alt-Enter", "F1", "Ctrl-X" (one key of "Ctrl-X Ctrl-E"), "é", "Space".  False: not a key. */
bool keys_parse(const char *name, uint32_t *code, uint8_t *mods);
void keys_name(uint32_t code, uint8_t mods, struct buf *out);
/* The one form of a key, see above.  `shifted` is what Shift makes of the code where the terminal tells, else 0. */
void keys_normalize(uint32_t *code, uint8_t *mods, uint32_t shifted);

#endif
