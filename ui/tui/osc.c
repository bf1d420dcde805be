#include "ui/tui/osc.h"

#include <stdint.h>
#include <string.h>

#include "base/unicode.h"

enum { TEXT_MAX = 200 };

/* The text on one line, without controls, between the beginning of a sequence and its end. */
static void add_text(struct buf *out, const char *begin, const char *text)
{
    struct buf safe = {0};
    unicode_safe(&safe, text, strlen(text));
    for (size_t i = 0; i < safe.len; i++)
        if (safe.data[i] == '\n' || safe.data[i] == '\t')
            safe.data[i] = ' ';
    buf_adds(out, begin);
    buf_add(out, buf_str(&safe), unicode_complete(buf_str(&safe), safe.len < TEXT_MAX ? safe.len : TEXT_MAX));
    buf_adds(out, "\033\\");
    buf_free(&safe);
}

void osc_title(struct buf *out, const char *text)
{
    add_text(out, "\033]2;", text);
}

static bool begins(const char *text, const char *with)
{
    return text && !strncmp(text, with, strlen(with));
}

enum osc_notice osc_notice(const char *term, const char *program, const char *lc_terminal, const char *tmux)
{
    static const struct { const char *name; enum osc_notice form; } known[] = {
        {"xterm-kitty", OSC_NOTICE_99}, {"foot", OSC_NOTICE_777}, {"xterm-ghostty", OSC_NOTICE_777}, {"wezterm", OSC_NOTICE_777},
        {"iTerm", OSC_NOTICE_9}, {"WezTerm", OSC_NOTICE_777}, {"ghostty", OSC_NOTICE_777},
    };
    if ((tmux && *tmux) || begins(term, "tmux") || begins(term, "screen"))
        return OSC_NOTICE_NONE;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(term, known[i].name) || begins(program, known[i].name) || begins(lc_terminal, known[i].name))
            return known[i].form;
    return OSC_NOTICE_NONE;
}

void osc_call(struct buf *out, enum osc_notice form, const char *text)
{
    static const char *const begin[] = {
        [OSC_NOTICE_9] = "\033]9;q35chat: ", [OSC_NOTICE_99] = "\033]99;;q35chat: ", [OSC_NOTICE_777] = "\033]777;notify;q35chat;"};
    if (form != OSC_NOTICE_NONE)
        add_text(out, begin[form], text);
}

static void add_base64(struct buf *out, const char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = (const unsigned char *)bytes;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (uint32_t)(i + 1 < n ? p[i + 1] : 0) << 8 | (i + 2 < n ? p[i + 2] : 0);
        for (size_t k = 0; k < 4; k++)
            buf_addc(out, i + k > n ? '=' : digits[v >> (18 - 6 * k) & 63]);
    }
}

void osc_clipboard(struct buf *out, const char *text, size_t n, bool tmux)
{
    buf_adds(out, "\033]52;c;");
    add_base64(out, text, n);
    buf_adds(out, "\033\\");
    if (!tmux)
        return;
    buf_adds(out, "\033Ptmux;\033\033]52;c;");
    add_base64(out, text, n);
    buf_adds(out, "\a\033\\");
}
