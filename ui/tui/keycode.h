/* Codes of keys that are no characters, and modifiers. */
#ifndef Q35_UI_TUI_KEYCODE_H
#define Q35_UI_TUI_KEYCODE_H

enum key_code {                 /* above all code points */
    KEY_NONE = 0x110000,
    KEY_ENTER, KEY_TAB, KEY_ESCAPE, KEY_BACKSPACE, KEY_DELETE, KEY_INSERT,
    KEY_UP, KEY_DOWN, KEY_LEFT, KEY_RIGHT, KEY_HOME, KEY_END, KEY_PAGE_UP, KEY_PAGE_DOWN,
    KEY_F1, KEY_F2, KEY_F3, KEY_F4, KEY_F5, KEY_F6, KEY_F7, KEY_F8, KEY_F9, KEY_F10, KEY_F11, KEY_F12,
    KEY_WHEEL_UP, KEY_WHEEL_DOWN, KEY_CLICK,
    KEY_GRAB,                   /* a drag, or another button than the left one: what the terminal does when it has the mouse */
};
enum { MOD_SHIFT = 1, MOD_ALT = 2, MOD_CTRL = 4 };

#endif
