#include "ui/tui/sentence.h"

#include <string.h>

enum { LEAST = 8 };                     /* bytes: "So" says nothing of a thought */

/* Does a sentence end with byte i?  Lines count as sentences: thoughts are full of lists. */
static bool ends(const char *s, size_t n, size_t i)
{
    bool stop = s[i] == '.' || s[i] == '!' || s[i] == '?';
    bool wide = i >= 2 && !memcmp(s + i - 2, "\xe3\x80\x82", 3);        /* the full stop of Chinese and Japanese */
    return s[i] == '\n' || wide || (stop && i + 1 < n && (s[i + 1] == ' ' || s[i + 1] == '\n'));
}

static bool is_sign(char c)
{
    return strchr(" \t\n\r-*#>", c) != NULL;
}

bool sentence_newest(const char *s, size_t n, struct buf *out)
{
    size_t end = n, from = 0;
    for (;; end = from) {
        while (end > 0 && !ends(s, n, end - 1))
            end--;
        if (!end)
            return false;
        for (from = end - 1; from > 0 && !ends(s, n, from - 1);)
            from--;
        size_t begin = from;
        while (begin < end && is_sign(s[begin]))
            begin++;
        if (begin + LEAST > end)
            continue;
        for (; begin < end; begin++)
            if (s[begin] != '\n' && s[begin] != '\r')
                buf_addc(out, s[begin] == '\t' ? ' ' : s[begin]);
        return true;
    }
}
