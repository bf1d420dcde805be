#include "ui/tui/term.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wchar.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "ui/tui/keys.h"
#include "ui/tui/look.h"
#include "ui/tui/tty.h"

#include <curses.h>
#define term terminfo_entry             /* its struct would be ours */
#include <term.h>
#undef term

enum {
    BIG_FRAME = 256,            /* bytes; a smaller frame arrives in one piece, so half a frame is never visible */
    MIN_ROWS = 4, MIN_COLS = 20,
    LATE_MS = 100,              /* how long to wait at the end for replies that would be typed into the shell */
};

#define SYNC_ON   "\033[?2026h"
#define SYNC_OFF  "\033[?2026l"
#define PASTE_ON  "\033[?2004h"
#define PASTE_OFF "\033[?2004l"
#define MOUSE_ON  "\033[?1000h\033[?1006h"
#define MOUSE_OFF "\033[?1006l\033[?1000l"
#define FOCUS_ON  "\033[?1004h"
#define FOCUS_OFF "\033[?1004l"
#define WHEEL_KEYS_ON  "\033[?1007h"
#define WHEEL_KEYS_OFF "\033[?1007l"
#define KITTY_ON  "\033[>5u"            /* reports ambiguous keys by code, with their shifted code */
#define KITTY_OFF "\033[<u"
#define KITTY_QUERY "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA"       /* without its end */
#define TITLE_KEEP "\033[22;2t"
#define TITLE_BACK "\033[23;2t"

struct term {
    struct tty tty;
    SCREEN *screen;
    FILE   *canvas, *nothing;   /* curses draws into memory, and reads nowhere */
    int     memory;             /* the canvas's file */
    bool    xterm;              /* has xterm's modes, titles and queries */
    bool    utf8, title, kitty, sync, left;
    bool    wheel_keys;         /* the terminal turned the wheel into arrow keys when we found it */
    enum term_mouse mouse;
    enum osc_notice notice;     /* the form of notifications that it shows */
    bool    asked;              /* a query has no reply yet */
    bool    hides;              /* the cursor can be hidden */
    bool    anchored;           /* the cursor can be moved within a row */
    bool    cursor_shown;
    bool    damaged;            /* the next frame erases the screen */
    int     moved;              /* rows that this frame scrolls by; -1: not looked at */
    bool    restyled;           /* the colours have changed: all rows are sent */
    enum term_colors colors;
    const struct theme *theme;
    attr_t  attr[N_STYLES];
    int     pair[N_STYLES];     /* numbers in curses; 0: the terminal's own colours */
    struct cells shown;         /* the screen as the terminal has it */
    struct buf   drawn;         /* output of curses, with placeholders */
    struct buf   out, title_now;
    struct anchors anchors;
    cchar_t *row;               /* [cols] */

    enum graphics graphics;     /* what the terminal has said that it shows, or half blocks; NONE also where colours are unwanted */
    bool     rgb, tmux;         /* 24-bit colours; tmux is between */
    int      cell_w, cell_h;    /* pixels; 0: not known */
    const struct thumb *(*find)(void *arg, uint32_t number);
    void    *find_arg;
    bool    *again;             /* [rows] the strip of the row must be sent */
    uint32_t sent[256];         /* by its id in kitty: the picture that the terminal has */
    char     note[128];
};

/* --- bytes ------------------------------------------------------------------------------------------------------ */

static void append(struct term *t, const char *s)
{
    buf_adds(&t->out, s);
}

static const char *right(int n)
{
    return tiparm(parm_right_cursor, n);
}

/* Appends to t->out what curses has drawn since the last call. */
static void take_canvas(struct term *t)
{
    off_t n = lseek(t->memory, 0, SEEK_END);
    CHECK(n >= 0);
    if (!n)
        return;
    buf_reset(&t->drawn);
    buf_reserve(&t->drawn, (size_t)n);
    CHECK(pread(t->memory, t->drawn.data, (size_t)n, 0) == n);
    anchors_expand(&t->anchors, t->drawn.data, (size_t)n, t->shown.cols, right, &t->out);
    CHECK(!ftruncate(t->memory, 0));
}

static void flush(struct term *t)
{
    if (t->out.len)
        tty_write(&t->tty, t->out.data, t->out.len);
    buf_reset(&t->out);
}

/* Sets the bytes that undo all modes that may be on.  A fault can come in the middle of a frame. */
static void promise(struct term *t)
{
    struct buf b = {0};
    const char *const caps[] = {exit_attribute_mode, exit_alt_charset_mode, exit_insert_mode, t->colors ? orig_pair : NULL};
    if (t->sync)
        buf_adds(&b, SYNC_OFF);
    if (t->kitty)
        buf_adds(&b, KITTY_OFF);
    if (t->xterm)
        buf_adds(&b, MOUSE_OFF PASTE_OFF FOCUS_OFF);
    if (t->wheel_keys)
        buf_adds(&b, WHEEL_KEYS_ON);
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        buf_adds(&b, caps[i] ? caps[i] : "");
    if (change_scroll_region)
        buf_adds(&b, "\033[r");
    if (!exit_ca_mode || !strstr(exit_ca_mode, "1049"))
        buf_adds(&b, "\033[999;1H\r\n");        /* the screen stays, and the shell continues below it */
    buf_adds(&b, exit_ca_mode ? exit_ca_mode : "");
    if (t->hides)                               /* last: leaving the other screen may hide the cursor again */
        buf_adds(&b, t->xterm ? "\033[?25h" : cursor_normal);
    if (t->title)
        buf_adds(&b, TITLE_BACK);
    tty_restore_with(b.data, b.len);
    buf_free(&b);
}

/* Gives curses and our record of the screen a size, and blanks both. */
static void fit_size(struct term *t, int rows, int cols)
{
    resize_term(rows, cols);
    erase();
    cells_size(&t->shown, rows, cols);
    free(t->row);
    free(t->again);
    t->row = memory_zeroed((size_t)cols + 1, sizeof *t->row);
    t->again = memory_zeroed((size_t)rows + 1, sizeof *t->again);
    memset(t->shown.strips, 0, (size_t)rows * sizeof *t->shown.strips);
}

/* --- control sequences that carry text --------------------------------------------------------------------------------- */

enum { TEXT_MAX = 200 };

/* Appends a sequence: its beginning, the text on one line without controls, its end. */
static void add_string(struct buf *out, const char *begin, const char *text)
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

/* Sets the window's title to at most 200 bytes of `text`, which need not be trusted. */
static void osc_title(struct buf *out, const char *text)
{
    add_string(out, "\033]2;", text);
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
        add_string(out, begin[form], text);
}

/* Appends bytes in base64. */
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

/* Copies text to the clipboard (OSC 52).  Depending on its configuration tmux accepts the plain form, or a form wrapped for the outer terminal:
 * `tmux` appends both. */
static void osc_clipboard(struct buf *out, const char *text, size_t n, bool tmux)
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

/* --- opening ---------------------------------------------------------------------------------------------------- */

/* True for terminals that ignore queries unknown to them.  Consoles and old terminals print parts of some queries. */
static bool is_xterm(const char *name)
{
    static const char *const others[] = {"linux", "vt", "ansi", "cons", "sun", "wsvt", "pcansi", "hurd", "mach", "cygwin", "bterm"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strncmp(name, others[i], strlen(others[i])))
            return false;
    return true;
}

/* Returns the terminal type to use: TERM, or xterm-256color if the database has no such type; NULL: the database has neither. */
static const char *known_type(int fd)
{
    const char *names[] = {getenv("TERM"), "xterm-256color"};
    for (int i = 0; i < 2; i++) {
        int status;
        if (setupterm(names[i], fd, &status) == OK) {
            bool moves = cursor_address != NULL;
            del_curterm(cur_term);
            return moves ? names[i] : NULL;
        }
    }
    return NULL;
}

static void window_size(int fd, int *rows, int *cols)
{
    struct winsize w = {0};
    bool known = !ioctl(fd, TIOCGWINSZ, &w) && w.ws_row && w.ws_col;
    *rows = known ? w.ws_row : 24;
    *cols = known ? w.ws_col : 80;
}

bool term_usable(struct err *why)
{
    int rows, cols;
    const char *name = getenv("TERM");
    if (!isatty(0) || !isatty(1))
        return err_set(why, "standard %s is not a terminal", isatty(0) ? "output" : "input");
    if (look_is_plain(name))
        return err_set(why, name && *name ? "TERM is %s" : "TERM is not set", name);
    if (!known_type(1))
        return err_set(why, "the terminal type %s cannot place its cursor, or is not known here", name);
    window_size(1, &rows, &cols);
    if (rows < MIN_ROWS || cols < MIN_COLS)
        return err_set(why, "the terminal has %d columns and %d rows; a full screen needs %d and %d", cols, rows, MIN_COLS, MIN_ROWS);
    return true;
}

int term_print_colors(int fd)
{
    int status;
    if (setupterm(getenv("TERM"), fd, &status) != OK)
        return -1;
    bool ansi = enter_bold_mode && !strncmp(enter_bold_mode, "\033[1m", 4);
    int n = ansi ? tigetnum("colors") : -1;
    del_curterm(cur_term);
    return !ansi ? -1 : n > 0 ? n : 0;
}

/* Starts curses with the terminal's size in the environment, since curses cannot query the canvas and sets the scroll region at its start. */
static SCREEN *start_screen(struct term *t, const char *name)
{
    int rows, cols;
    char text[16];
    term_size(t, &rows, &cols);
    snprintf(text, sizeof text, "%d", rows);
    setenv("LINES", text, 1);
    snprintf(text, sizeof text, "%d", cols);
    setenv("COLUMNS", text, 1);
    SCREEN *screen = newterm(name, t->canvas, t->nothing);
    unsetenv("LINES");                          /* later they would hide changes of the size */
    unsetenv("COLUMNS");
    return screen;
}

/* Starts curses and restores the signal handlers that newterm() replaces. */
static bool start_curses(struct term *t, const char *name)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
    struct sigaction kept[sizeof caught / sizeof *caught];
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        sigaction(caught[i], NULL, &kept[i]);
    t->screen = start_screen(t, name);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        sigaction(caught[i], &kept[i], NULL);
    if (!t->screen)
        return false;
    nonl();
    typeahead(-1);
    idlok(stdscr, TRUE);
    leaveok(stdscr, FALSE);
    return true;
}

/* Opens the file in memory into which curses draws. */
static bool open_canvas(struct term *t, struct err *e)
{
    t->memory = memfd_create("screen", MFD_CLOEXEC);
    if (t->memory < 0 || fcntl(t->memory, F_SETFL, O_APPEND))
        return err_set(e, "cannot make a file in memory for the screen: %s", strerror(errno));
    t->canvas = fdopen(t->memory, "w");
    t->nothing = fopen("/dev/null", "re");
    if (!t->canvas || !t->nothing)
        return err_set(e, "cannot open the screen: %s", strerror(errno));
    return true;
}

static void set_mouse(struct term *t)
{
    if (t->xterm)
        append(t, t->mouse == TERM_MOUSE_ON ? MOUSE_ON : MOUSE_OFF);
    if (t->wheel_keys && t->mouse != TERM_MOUSE_ON)
        append(t, t->mouse == TERM_MOUSE_OFF ? WHEEL_KEYS_OFF : WHEEL_KEYS_ON);
}

/* Starts curses and finds out what the terminal can do.  False with the reason. */
static bool open_screen(struct term *t, const struct term_options *o, struct err *e)
{
    const char *asked = getenv("TERM"), *name = look_is_plain(asked) ? NULL : known_type(t->tty.out);
    if (!open_canvas(t, e))
        return false;
    if (!name || !start_curses(t, name))
        return err_set(e, "the terminal type %s does not work here; try another TERM, or --line", asked ? asked : "(none)");
    t->xterm = is_xterm(name);
    t->utf8 = !strcasecmp(nl_langinfo(CODESET), "UTF-8");
    t->hides = cursor_invisible && cursor_normal;
    t->anchored = parm_right_cursor != NULL;
    t->title = o->title && t->xterm;
    t->mouse = o->mouse ? TERM_MOUSE_ON : TERM_MOUSE_OFF;
    t->notice = t->xterm ? osc_notice(getenv("TERM"), getenv("TERM_PROGRAM"), getenv("LC_TERMINAL"), getenv("TMUX")) : OSC_NOTICE_NONE;
    if (strcmp(name, asked))
        snprintf(t->note, sizeof t->note, "terminal type %.40s is not known here, %s is assumed", asked, name);
    else if (!t->utf8)
        snprintf(t->note, sizeof t->note, "the locale is not UTF-8, other characters are shown as ?; try LC_ALL=C.UTF-8");
    struct winsize size = {0};
    if (!ioctl(t->tty.out, TIOCGWINSZ, &size) && size.ws_row && size.ws_col) {
        t->cell_w = size.ws_xpixel / size.ws_col;
        t->cell_h = size.ws_ypixel / size.ws_row;
    }
    t->tmux = getenv("TMUX") != NULL;
    const char *truecolor = getenv("COLORTERM");
    int n = look_colors(o->color, tigetnum("colors"));
    t->colors = n >= 0x1000000 ? TERM_TRUE : n >= 256 ? TERM_256 : n >= 16 ? TERM_16 : n >= 8 ? TERM_8 : TERM_MONO;
    if (t->colors && (start_color() != OK || use_default_colors() != OK))
        t->colors = TERM_MONO;
    t->rgb = t->colors == TERM_TRUE || (truecolor && (!strcmp(truecolor, "truecolor") || !strcmp(truecolor, "24bit")));
    t->graphics = t->utf8 && t->colors >= TERM_256 && o->pictures ? GRAPHICS_BLOCKS : GRAPHICS_NONE;
    return true;
}

struct term *term_open(const struct term_options *o, struct err *e)
{
    struct term *t = memory_zeroed(1, sizeof *t);
    t->memory = -1;
    if (!tty_open(&t->tty, o->fd, o->fd ? o->fd : 1, e) || !open_screen(t, o, e)) {
        term_close(t);
        return NULL;
    }
    int theme = o->theme ? theme_find(o->theme) : 0, rows, cols;
    term_size(t, &rows, &cols);
    fit_size(t, rows, cols);
    t->left = true;
    term_theme(t, theme_at(theme));
    term_enter(t);
    if (o->probe && t->xterm) {
        /* Every terminal replies to the last query, so its reply ends the wait for the others.  Some terminals print a letter of a query unknown to
         * them, so the first line of the still empty screen is erased. */
        append(t, "\033[?2026$p\033[?1007$p\033[?u\033]11;?\033\\");
        if (t->graphics)                /* a terminal of few colours, such as TERM=xterm, is not asked */
            append(t, t->tmux ? "\033Ptmux;\033" KITTY_QUERY "\033\033\\\033\\" : KITTY_QUERY "\033\\");
        if (t->graphics)
            append(t, "\033[>q\033[16t");
        append(t, "\033[c\033[H\033[K");
        flush(t);
        t->asked = true;
    }
    return t;
}

void term_close(struct term *t)
{
    if (!t)
        return;
    if (t->screen) {
        term_leave(t);
        delscreen(t->screen);
    }
    if (t->canvas)
        fclose(t->canvas);
    else if (t->memory >= 0)
        close(t->memory);
    if (t->nothing)
        fclose(t->nothing);
    tty_close(&t->tty);
    cells_free(&t->shown);
    buf_free(&t->drawn);
    buf_free(&t->out);
    buf_free(&t->title_now);
    anchors_free(&t->anchors);
    free(t->row);
    free(t->again);
    free(t);
}

const char *term_note(const struct term *t)
{
    return *t->note ? t->note : NULL;
}

/* --- looks ------------------------------------------------------------------------------------------------------ */

/* Returns the attributes of curses for marks such as bold. */
static attr_t attributes(int marks)
{
    static const struct { int mark; attr_t attr; } map[] = {
        {LOOK_BOLD, A_BOLD}, {LOOK_ITALIC, A_ITALIC}, {LOOK_UNDERLINE, A_UNDERLINE}, {LOOK_REVERSE, A_REVERSE}, {LOOK_DIM, A_DIM},
        {LOOK_STRIKE, A_DIM},                   /* curses cannot strike out */
    };
    attr_t a = 0;
    for (size_t i = 0; i < sizeof map / sizeof *map; i++)
        a |= marks & map[i].mark ? map[i].attr : 0;
    return a;
}

/* Returns the number that curses has for a theme's colour on this terminal. */
static int color_number(const struct term *t, int32_t color)
{
    static const int count[] = {[TERM_8] = 8, [TERM_16] = 16, [TERM_256] = 256};
    if (t->colors == TERM_TRUE)
        return color < 8 ? color : (int)look_rgb(color);        /* the first eight are the palette's even there */
    return look_nearest(color, count[t->colors]);
}

void term_theme(struct term *t, const struct theme *theme)
{
    t->theme = !t->colors ? theme_at(theme_find("mono")) : theme ? theme : theme_at(0);
    for (int i = 0; i < N_STYLES; i++) {
        const struct theme_style *s = &t->theme->style[i];
        t->attr[i] = attributes(s->marks);
        bool own = !t->colors || (s->fg < 0 && s->bg < 0);
        t->pair[i] = own ? 0 : i + 1;
        if (!own)
            init_extended_pair(i + 1, color_number(t, s->fg), color_number(t, s->bg));
    }
    t->restyled = true;
}

/* --- frames ----------------------------------------------------------------------------------------------------- */

/* Splits a glyph into cells of curses, one for each character with columns.  False: a cell has no room for all marks. */
static bool glyph_cells(const struct glyph *g, wchar_t wide[2][CCHARW_MAX + 1], int *n)
{
    int at = 0;
    *n = 0;
    for (size_t i = 0; i < g->n;) {
        uint32_t cp;
        i += unicode_decode(g->text + i, g->n - i, &cp, NULL);
        int w = unicode_width(cp);
        if (w < 0 || (w == 0 && (!*n || at == CCHARW_MAX)) || (w > 0 && *n == 2))
            return false;
        if (w > 0) {
            ++*n;
            at = 0;
        }
        wide[*n - 1][at++] = (wchar_t)cp;
        wide[*n - 1][at] = 0;
    }
    return true;
}

/* Replaces a disputed glyph by placeholders, one for each column.  False: some terminal might wrap the glyph at the end of the row. */
static bool anchored_cells(struct term *t, const struct glyph *g, int col, wchar_t wide[2][CCHARW_MAX + 1], int *n)
{
    uint32_t code = glyph_most_columns(g) <= t->shown.cols - col ? anchor_code(&t->anchors, g, col) : 0;
    for (*n = 0; code && *n < g->width; ++*n) {
        wide[*n][0] = (wchar_t)(code + (uint32_t)*n);
        wide[*n][1] = 0;
    }
    return code;
}

/* Appends a cell of column `col` to a row for curses; returns the place after it. */
static int add_cell(struct term *t, const struct cell *cell, int col, int at)
{
    wchar_t wide[2][CCHARW_MAX + 1];
    const struct glyph *g = &cell->glyph;
    int n = 0, pair = t->pair[cell->look.style];
    if (!g->width)
        return at;
    bool ascii = g->n == 1;
    if (ascii) {
        wide[n][0] = (unsigned char)g->text[0];
        wide[n++][1] = 0;
    } else if (!t->utf8 || !(t->anchored && glyph_disputed(g) ? anchored_cells(t, g, col, wide, &n) : glyph_cells(g, wide, &n))) {
        for (n = 0; n < g->width; n++) {
            wide[n][0] = t->utf8 ? (n ? L' ' : 0xFFFD) : (wchar_t)(n ? '?' : glyph_ascii(g));
            wide[n][1] = 0;
        }
    }
    for (int i = 0; i < n; i++)
        setcchar(&t->row[at + i], wide[i], t->attr[cell->look.style] | attributes(cell->look.marks), 0, &pair);
    return at + n;
}

/* True if row r has scrolled to its place together with others, so that the terminal moves the row and nothing is sent for it. */
static bool has_moved(struct term *t, const struct cells *c, int r)
{
    if (t->moved < 0)
        t->moved = cells_scrolled(&t->shown, c, r);
    return t->moved && r + t->moved < c->rows
        && cells_same_row(t->shown.at + (size_t)(r + t->moved) * c->cols, c->at + (size_t)r * c->cols, c->cols);
}

/* Draws a row of the screen if it has changed. */
static void draw_row(struct term *t, const struct cells *c, int r)
{
    const struct cell *row = c->at + (size_t)r * c->cols;
    struct cell *old = t->shown.at + (size_t)r * c->cols;
    int n = 0;
    if (cells_same_row(old, row, c->cols) && !t->restyled)
        return;
    if (cells_row_disputed(old, row, c->cols) && !has_moved(t, c, r))
        wredrawln(stdscr, r, 1);
    for (int i = 0; i < c->cols; i++)
        n = add_cell(t, &row[i], i, n);
    mvadd_wchnstr(r, 0, t->row, n);
    memcpy(old, row, (size_t)c->cols * sizeof *row);
}

static void show_cursor(struct term *t, bool on)
{
    if (!t->hides || t->cursor_shown == on)
        return;
    t->cursor_shown = on;
    append(t, t->xterm ? (on ? "\033[?25h" : "\033[?25l") : on ? cursor_normal : cursor_invisible);
}

/* ---- pictures: after the text of a frame, over cells that curses takes for blank ---- */

void term_pictures(struct term *t, const struct thumb *(*find)(void *arg, uint32_t number), void *arg)
{
    t->find = find;
    t->find_arg = arg;
}

bool term_shows_pictures(const struct term *t)
{
    return t->graphics != GRAPHICS_NONE;
}

static bool same_strip(const struct strip *a, const struct strip *b)
{
    return a->number == b->number && a->part == b->part && a->rows == b->rows && a->col == b->col && a->cols == b->cols;
}

/* Notes which rows of pictures must be sent, and has rows sent whole whose picture goes.  While there are pictures, curses does not move rows on the
 * terminal, which would move them along. */
static void clear_pictures(struct term *t, const struct cells *c)
{
    bool any = false;
    for (int r = 0; r < c->rows; r++) {
        const struct strip now = t->graphics && t->find ? cells_strip(c, r) : (struct strip){0}, *was = &t->shown.strips[r];
        const bool same = same_strip(&now, was);
        any = any || now.number || was->number;
        if (was->number && !same)
            wredrawln(stdscr, r, 1);
        t->again[r] = now.number && (!same || t->damaged || t->restyled ||
                                     !cells_same_row(t->shown.at + (size_t)r * c->cols, c->at + (size_t)r * c->cols, c->cols));
        t->shown.strips[r] = now;
    }
    idlok(stdscr, !any);
}

/* Returns the id under which kitty knows the picture, which is sent when it is new. */
static int kitty_id(struct term *t, const struct thumb *thumb, const struct strip *s)
{
    const int id = 1 + (int)(thumb->number % 250);
    if (t->sent[id] != thumb->number)
        graphics_kitty(&t->out, thumb, s, id, t->tmux);
    t->sent[id] = thumb->number;
    return id;
}

/* Appends rows r .. r + n - 1, which have the parts of one picture in order. */
static void draw_strips(struct term *t, const struct thumb *thumb, int r, int n)
{
    const struct strip *s = &t->shown.strips[r];
    const bool at_place = t->graphics == GRAPHICS_SIXEL || t->graphics == GRAPHICS_ITERM;
    for (int i = 0; i < (at_place ? 1 : n); i++) {
        buf_addf(&t->out, "\033[%d;%dH", r + i + 1, s->col + 1);
        if (t->graphics == GRAPHICS_BLOCKS && t->again[r + i])
            graphics_blocks(&t->out, thumb, &s[i], t->rgb);
        else if (t->graphics == GRAPHICS_KITTY && t->again[r + i])
            graphics_kitty_row(&t->out, &s[i], kitty_id(t, thumb, s));
        else if (t->graphics == GRAPHICS_SIXEL)
            graphics_sixel(&t->out, thumb, s, n, t->cell_w, t->cell_h);
        else if (t->graphics == GRAPHICS_ITERM && n == s->rows)
            graphics_iterm(&t->out, thumb, s);
    }
}

/* Sends the rows that clear_pictures() noted; where pixels lie at a place, all rows of their picture. */
static void draw_pictures(struct term *t, const struct cells *c)
{
    bool any = false;
    for (int r = 0, n; r < c->rows; r += n) {
        const struct strip *s = &t->shown.strips[r];
        bool again = t->again[r];
        for (n = 1; r + n < c->rows && s->number && s[n].number == s->number && s[n].part == s->part + n && s[n].col == s->col; n++)
            again = again || t->again[r + n];
        const struct thumb *thumb = again ? t->find(t->find_arg, s->number) : NULL;
        if (!thumb)
            continue;
        append(t, any ? "" : "\0337");          /* curses goes on where it was */
        any = true;
        draw_strips(t, thumb, r, n);
    }
    append(t, any ? "\0338" : "");
}

/* Notes a way in which the terminal shows pictures.  Those that know kitty's protocol and sixel lack its placeholders, and sixel needs the size of a
 * cell. */
static void set_graphics(struct term *t, enum graphics found)
{
    if (!t->graphics || found <= t->graphics || (found == GRAPHICS_SIXEL && (t->graphics == GRAPHICS_ITERM || !t->cell_w)))
        return;
    t->graphics = found;
    t->damaged = true;
}

void term_draw(struct term *t, const struct cells *c)
{
    if (t->left || t->tty.gone || !c->rows || !c->cols)
        return;
    if (t->shown.rows != c->rows || t->shown.cols != c->cols) {
        fit_size(t, c->rows, c->cols);
        if (change_scroll_region)
            append(t, "\033[r");                   /* not every terminal resets the region of the old size */
        t->damaged = true;
    }
    if (!anchors_room(&t->anchors, c->rows * c->cols) && t->anchors.n) {
        anchors_clear(&t->anchors);
        t->damaged = t->restyled = true;
    }
    if (t->damaged)
        clearok(curscr, TRUE);
    t->moved = -1;
    clear_pictures(t, c);
    for (int r = 0; r < c->rows; r++)
        draw_row(t, c, r);
    t->damaged = t->restyled = false;
    bool cursor = c->cursor_row >= 0 && c->cursor_row < c->rows && c->cursor_col >= 0;
    if (cursor)
        move(c->cursor_row, c->cursor_col < c->cols ? c->cursor_col : c->cols - 1);
    wnoutrefresh(stdscr);
    doupdate();
    off_t n = lseek(t->memory, 0, SEEK_END);
    if (n > BIG_FRAME && t->sync)
        append(t, SYNC_ON);
    else if (n > BIG_FRAME)
        show_cursor(t, false);
    if (!cursor)
        show_cursor(t, false);
    take_canvas(t);
    draw_pictures(t, c);
    show_cursor(t, cursor);
    if (n > BIG_FRAME && t->sync)
        append(t, SYNC_OFF);
    flush(t);
}

void term_redraw(struct term *t)
{
    t->damaged = true;
}

/* --- the rest --------------------------------------------------------------------------------------------------- */

int term_fd(const struct term *t)
{
    return t->tty.in;
}

int term_read(struct term *t, char *bytes, size_t size)
{
    return tty_read(&t->tty, bytes, size);
}

void term_size(struct term *t, int *rows, int *cols)
{
    window_size(t->tty.out, rows, cols);
}

bool term_ready(struct term *t)
{
    return tty_ready(&t->tty);
}

bool term_sets_apart(const struct term *t, enum style style)
{
    attr_t can = termattrs();
    return t->pair[style] != t->pair[STYLE_text] || (t->attr[style] & can) != (t->attr[STYLE_text] & can);
}

bool term_waits(const struct term *t)
{
    return t->tty.late.len && !t->tty.gone;
}

enum term_colors term_colors(const struct term *t)
{
    return t->colors;
}

size_t term_sent(const struct term *t)
{
    return t->tty.sent;
}

void term_mouse(struct term *t, enum term_mouse mode)
{
    if (t->mouse == mode)
        return;
    t->mouse = mode;
    if (t->left)
        return;
    set_mouse(t);
    flush(t);
}

void term_call(struct term *t, const char *text)
{
    if (t->left)
        return;
    osc_call(&t->out, t->notice, text);
    append(t, "\a");
    flush(t);
}

void term_title(struct term *t, const char *text)
{
    struct buf title = {0};
    osc_title(&title, text);
    if (t->title && !t->left && strcmp(buf_str(&title), buf_str(&t->title_now))) {
        append(t, title.data);
        flush(t);
        buf_reset(&t->title_now);
        buf_adds(&t->title_now, title.data);
    }
    buf_free(&title);
}

bool term_clipboard(struct term *t, const char *text, size_t n)
{
    if (n > TERM_CLIPBOARD_MAX || !t->xterm || t->left)
        return false;
    osc_clipboard(&t->out, text, n, getenv("TMUX") != NULL);
    flush(t);
    return !t->tty.gone;
}

void term_leave(struct term *t)
{
    if (t->left)
        return;
    /* Waits for replies that are still on their way, which would be typed into the shell. */
    char bytes[256];
    struct pollfd p = {.fd = t->tty.in, .events = POLLIN};
    for (int i = 0; t->asked && i < 8 && poll(&p, 1, LATE_MS) > 0; i++) {
        int n = tty_read(&t->tty, bytes, sizeof bytes);
        if (n <= 0 || memchr(bytes, 'c', (size_t)n))
            break;
    }
    t->left = true;
    buf_reset(&t->title_now);
    endwin();
    take_canvas(t);
    buf_reset(&t->out);                         /* the restoring bytes are set already */
    for (int id = 0; id < 256; id++)
        if (t->sent[id])
            graphics_kitty_delete(&t->out, id, t->tmux);
    memset(t->sent, 0, sizeof t->sent);
    memset(t->shown.strips, 0, (size_t)t->shown.rows * sizeof *t->shown.strips);
    flush(t);
    tty_give_back(&t->tty);
}

void term_enter(struct term *t)
{
    if (!t->left)
        return;
    t->left = false;
    promise(t);
    tty_take(&t->tty);
    doupdate();                                 /* curses takes the screen, erases it and draws the last frame again */
    take_canvas(t);
    /* Removes the palette reset that curses sends when it takes the screen: the palette may be the user's own. */
    size_t n = orig_colors ? strlen(orig_colors) : 0;
    char *at = n ? memmem(buf_str(&t->out), t->out.len, orig_colors, n) : NULL;
    if (at) {
        memmove(at, at + n, t->out.len - (size_t)(at + n - t->out.data));
        t->out.len -= n;
    }
    if (t->xterm)
        append(t, PASTE_ON FOCUS_ON);
    if (t->title)
        append(t, TITLE_KEEP);
    set_mouse(t);
    if (t->kitty)
        append(t, KITTY_ON);
    t->cursor_shown = true;
    flush(t);
}

void term_report(struct term *t, int report, int value)
{
    if (report == REPORT_DA1)
        t->asked = false;
    else if (report == REPORT_SYNC)
        t->sync = value == 1;
    else if (report == REPORT_GRAPHICS)
        set_graphics(t, (enum graphics)value);
    else if (report == REPORT_CELL && value / 1024 && value % 1024) {
        t->cell_w = value / 1024;
        t->cell_h = value % 1024;
    } else if (report == REPORT_KITTY && !t->kitty) {
        t->kitty = true;
        if (!t->left) {
            append(t, KITTY_ON);
            flush(t);
        }
    } else if (report == REPORT_WHEEL_KEYS && value == 1) {
        t->wheel_keys = true;
        if (!t->left) {
            set_mouse(t);
            flush(t);
        }
    } else
        return;
    promise(t);
}
