/* Takes control sequences of terminals apart.  keys.c gives them a meaning. */
#ifndef Q35_UI_TUI_CSI_H
#define Q35_UI_TUI_CSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CSI_MAX = 128 };         /* longest sequence whose end is waited for, in bytes */

/* The parts between "ESC [" and the final byte.  arg[i]: a number, -1 if it is left out; sub[i]: the number after its ':'. */
struct csi {
    char prefix, middle, final;
    int  n, arg[8], sub[8];
};

/* Parses the bytes after ESC, "[..." or "O...".  Returns the length of the sequence; 0: its end has not come yet; -1: it is no sequence. */
int csi_parse(struct csi *c, const char *s, size_t n);
/* The number at i, or `otherwise` if it is left out. */
static inline int csi_arg(const struct csi *c, int i, int otherwise)
{
    return i < c->n && c->arg[i] >= 0 ? c->arg[i] : otherwise;
}

/* Decodes the modifiers of a key: the number is 1 plus 1 for Shift, 2 Alt, 4 Ctrl, 32 Meta.  False: it has an unknown modifier. */
bool csi_mods(int number, uint8_t *mods);
/* The keys of sequences such as "CSI A" and "CSI 5 ~"; KEY_NONE: none. */
uint32_t csi_letter_key(char final);
uint32_t csi_number_key(int number);
/* The luminance 0..255 of "rgb:RRRR/GGGG/BBBB", with one to four digits each; -1: the text has another form. */
int csi_luminance(const char *s, size_t n);

#endif
