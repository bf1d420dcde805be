/* Control sequences as terminals send them, taken apart.  Who gives them a meaning is keys.c. */
#ifndef Q35_UI_TUI_CSI_H
#define Q35_UI_TUI_CSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CSI_MAX = 128 };         /* bytes of the longest one that is waited for */

/* What stands between "ESC [" and the final byte.  A number that is not given is -1, one after ':' goes to `sub`. */
struct csi {
    char prefix, middle, final;
    int  n, arg[8], sub[8];
};

/* Parses "[..." (or "O..."), the bytes behind ESC: its length, 0 if the end has not come, -1 if that is no sequence. */
int csi_parse(struct csi *c, const char *s, size_t n);
/* The number at i, or `otherwise` where it is not given. */
static inline int csi_arg(const struct csi *c, int i, int otherwise)
{
    return i < c->n && c->arg[i] >= 0 ? c->arg[i] : otherwise;
}

/* The number of a modified key: 1, and 1 for Shift, 2 Alt, 4 Ctrl, 32 Meta.  False: with a modifier that we do not know. */
bool csi_mods(int number, uint8_t *mods);
/* The key of "CSI A" and "CSI 5 ~" and their like; KEY_NONE: there is none. */
uint32_t csi_letter_key(char final);
uint32_t csi_number_key(int number);
/* "rgb:RRRR/GGGG/BBBB", of one to four digits each, as 0..255; -1: something else. */
int csi_luminance(const char *s, size_t n);

#endif
