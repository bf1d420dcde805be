/* Turns the bytes that the terminal sends into events: keys, text, pastes and reports.  The caller gives the time.  Knows the sequences of xterm,
 * rxvt, linux, tmux, screen and kitty.  A sequence may be split anywhere.  Unknown sequences, and replies to no query of ours, are dropped: they
 * never appear as text.
 *
 * A key has the same code whatever sequence the terminal sends for it: letters with Ctrl or Alt are lower case (with MOD_SHIFT if the terminal
 * reports it), Ctrl-H I M and [ are KEY_BACKSPACE, KEY_TAB, KEY_ENTER and KEY_ESCAPE, Ctrl-/ is Ctrl-_.
 *
 * A paste is recognized by its marks, or by its speed, since not all pastes have marks: a carriage return in the middle of text that arrives at once
 * is a newline of a paste.  If the only carriage return is at the end of such text it is Enter, since scripts type like that. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Codes of keys that are no characters, and modifiers. */
enum key_code {                 /* above all code points */
    KEY_NONE = 0x110000,
    KEY_ENTER, KEY_TAB, KEY_ESCAPE, KEY_BACKSPACE, KEY_DELETE, KEY_INSERT,
    KEY_UP, KEY_DOWN, KEY_LEFT, KEY_RIGHT, KEY_HOME, KEY_END, KEY_PAGE_UP, KEY_PAGE_DOWN,
    KEY_F1, KEY_F2, KEY_F3, KEY_F4, KEY_F5, KEY_F6, KEY_F7, KEY_F8, KEY_F9, KEY_F10, KEY_F11, KEY_F12,
    KEY_WHEEL_UP, KEY_WHEEL_DOWN, KEY_CLICK,
    KEY_GRAB,                   /* a drag, or another button than the left one: the terminal uses these itself when it has the mouse */
};
enum { MOD_SHIFT = 1, MOD_ALT = 2, MOD_CTRL = 4 };

enum key_kind {
    KEYS_KEY,                   /* code, mods: a named key, or a code point with Ctrl or Alt; Ctrl-C is 'c' with MOD_CTRL */
    KEYS_TEXT,                  /* text: characters to insert, whole UTF-8 sequences, no controls */
    KEYS_PASTE,                 /* text: part of a paste: newlines are \n, controls but \n and \t are gone */
    KEYS_PASTE_END,
    KEYS_REPORT,                /* a reply of the terminal: report, value */
};
enum key_report { REPORT_DA1, REPORT_SYNC, REPORT_BACKGROUND, REPORT_FOCUS, REPORT_KITTY, REPORT_CURSOR, REPORT_WHEEL_KEYS, REPORT_GRAPHICS,
                  REPORT_CELL };

struct key_event {
    enum key_kind kind;
    uint32_t code;
    uint8_t  mods;
    int      row, col;          /* mouse position, from 0 */
    bool     cut;               /* a paste was ended by the time limit, and neither its end mark nor a pause came since: this may be its rest */
    bool     burst;             /* Up and Down: one of several at once, as from a wheel that a terminal turns into keys */
    enum key_report report;
    int      value;             /* SYNC: 1 the mode is known; BACKGROUND: luminance 0..255; FOCUS: 1 in, 0 out; KITTY: its flags;
                                 * GRAPHICS: one of GRAPHICS_* (ui/tui/graphics.h); CELL: its pixels, 1024 width + height;
                                 * WHEEL_KEYS: 1 the terminal turns the wheel into Up and Down while no program has the mouse */
    const char *text;           /* valid during the call */
    size_t   n;
};

struct keys;

struct keys *keys_open(void);
void keys_close(struct keys *k);
/* Takes bytes that were read at `ms` and calls fn for each event that they complete.  fn must not call keys_feed(). */
void keys_feed(struct keys *k, const char *bytes, size_t n, int64_t ms, void (*fn)(void *arg, const struct key_event *ev), void *arg);
/* Call this when keys_timeout() has passed: a lone ESC becomes KEY_ESCAPE, a paste without an end mark ends. */
void keys_tick(struct keys *k, int64_t ms, void (*fn)(void *arg, const struct key_event *ev), void *arg);
int  keys_timeout(const struct keys *k, int64_t ms);    /* ms until a tick is due; -1: no tick is due */
void keys_escape_ms(struct keys *k, int ms);            /* how long a lone ESC waits: 25; more over SSH */

/* "Ctrl-C", "Alt-Enter", "F1", "Ctrl-X" (one key of "Ctrl-X Ctrl-E"), "é", "Space".  False: not a key. */
bool keys_parse(const char *name, uint32_t *code, uint8_t *mods);
void keys_name(uint32_t code, uint8_t mods, struct buf *out);
/* Normalizes a key to the codes described at the top of this page.  shifted: the code with Shift if the terminal reports it, else 0. */
void keys_normalize(uint32_t *code, uint8_t *mods, uint32_t shifted);
