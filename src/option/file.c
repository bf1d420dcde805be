/* The config file, read through inih, and printed. */
#include "option/options.h"

#include <ini.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "option/paths.h"

enum { SECTION = 49, LONGEST = 197 };   /* bytes that inih keeps of a section's name, and of a line */
#define EXPECTED "expected key = value, " OPTION_SECTIONS ", or # comment"

/* A config file on its way through inih, which cuts lines of 200 bytes or more.  inih gets such a line with another value; the handler, which it
 * calls before it reads the next line, uses the real value from here. */
struct reading {
    struct options *o;
    const char *path, *rest;
    int  line;                          /* number of the line that inih read last */
    char section[SECTION + 1], key[64]; /* those of the entry before: the same key again means a continued line */
    struct buf whole;                   /* the value of a long line */
    bool is_long, failed, named;        /* named: unknown keys are errors */
    struct buf value;                   /* of the entry, all its lines */
    int  value_line;                    /* the line where it begins */
    bool continues;                     /* `value` has more lines than the options have */
    struct err why;
};

/* --- read ------------------------------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct text trim(const char *s, size_t n)
{
    while (n && is_blank(*s))
        s++, n--;
    while (n && is_blank(s[n - 1]))
        n--;
    return (struct text){s, n};
}

/* Returns the value without blanks around it and, as in inih, without a comment after a blank and a semicolon. */
static struct text value_of(const char *s, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (s[i] == ';' && is_blank(s[i - 1]))
            n = i;
    return trim(s, n);
}

/* Copies the value of a long line `s` to `whole`, and makes `out` a short line of the same form. */
static void shorten(struct reading *r, const char *s, size_t n, char *out, size_t size)
{
    struct text line = trim(s, n), value;
    size_t key = 0;
    while (key < line.n && line.p[key] != '=' && line.p[key] != ':')
        key++;
    if (line.n && strchr("#;", *line.p)) {
        snprintf(out, size, "\n");
        return;
    } else if (*r->key && is_blank(*s)) {
        snprintf(out, size, " .\n");
        value = value_of(line.p, line.n);
    } else if (key < line.n && key < sizeof r->key) {
        snprintf(out, size, "%.*s = .\n", (int)key, line.p);
        value = value_of(line.p + key + 1, line.n - key - 1);
    } else {
        snprintf(out, size, "?\n");     /* no entry: inih reports it */
        return;
    }
    buf_reset(&r->whole);
    buf_add(&r->whole, value.p, value.n);
    r->is_long = true;
}

/* Stores the value of an option or a section's key.  False with the reason. */
static bool store(struct reading *r, struct err *e)
{
    r->continues = false;
    if (*r->section)
        return options_set_section(r->o, r->section, r->key, buf_str(&r->value), e);
    const enum option_id id = (enum option_id)options_find(r->key);
    if (!options_set(r->o, id, buf_str(&r->value), FROM_FILE, e))
        return false;
    options_set_place(r->o, id, r->path, r->value_line);
    return true;
}

/* Stores the value whose last line has been read.  Its first line was stored before, so nothing in it is wrong. */
static void end_value(struct reading *r)
{
    struct err e;
    if (r->continues)
        store(r, &e);
}

/* Makes the section at its head: inih reports it with its first entry only, and a section without entries is a mistake to be shown. */
static void see_section(struct reading *r, struct text line)
{
    const char *end = memchr(line.p, ']', line.n);
    size_t n = end ? (size_t)(end - line.p) - 1 : 0;
    r->failed = r->failed || n > SECTION;
    if (n > SECTION)
        err_set(&r->why, "the name of this section has more than %d bytes", SECTION);
    end_value(r);
    *r->key = 0;
    char title[SECTION + 1];
    snprintf(title, sizeof title, "%.*s", (int)(n <= SECTION ? n : 0), line.p + 1);
    options_section(r->o, title);
}

/* Reads a line for inih, as fgets() does. */
static char *next_line(char *out, int size, void *arg)
{
    struct reading *r = arg;
    size_t n = strcspn(r->rest, "\n"), whole = n + (r->rest[n] == '\n');
    const char *s = r->rest;
    struct text line = trim(s, n);
    if (!whole || r->failed)
        return NULL;
    r->rest += whole;
    r->line++;
    r->is_long = false;
    if (line.n && *line.p == '[' && !(*r->key && is_blank(*s)))
        see_section(r, line);
    if (n > LONGEST || n + 2 > (size_t)size)
        shorten(r, s, n, out, (size_t)size);
    else
        snprintf(out, (size_t)size, "%.*s\n", (int)n, s);
    return out;
}

/* Refuses an unknown name in a file that the command line named.  In the usual file, which may be of another version, it is a warning. */
static bool unknown_name(struct reading *r, const struct err *what)
{
    if (r->named)
        r->why = *what;
    else
        options_warn(r->o, r->path, r->line, what->msg);
    return !r->named;
}

/* Takes one `key = value`.  Values of sections are checked when they are used. */
static bool file_entry(struct reading *r, bool continued, const char *value)
{
    struct err what = {0};
    const bool named = options_section(r->o, r->section);
    struct option_about about = {.text = named};
    int id = *r->section ? -1 : options_find(r->key);
    if (!named && id < 0) {
        if (*r->section)
            err_set(&what, "no section [%s], expected " OPTION_SECTIONS, r->section);
        else
            options_unknown(r->key, &what);
        return continued || unknown_name(r, &what);
    }
    if (!named && options_about((enum option_id)id, &about) && about.flag_only)
        return err_set(&r->why, "%s is for the command line only", r->key);
    continued = continued && about.text;
    if (continued)
        buf_addc(&r->value, '\n');
    else
        buf_reset(&r->value);
    buf_adds(&r->value, value);
    r->continues = r->continues || continued;
    r->value_line = continued ? r->value_line : r->line;
    if (continued || store(r, &what))
        return true;
    if (named)
        return unknown_name(r, &what);
    r->why = what;
    return false;
}

/* Called by inih for each value; sets the option.  Returns 0 on an error, as inih expects. */
static int file_handler(void *arg, const char *section, const char *key, const char *value)
{
    struct reading *r = arg;
    if (r->failed)
        return 1;                       /* inih continues after an error; the first one is the one to report */
    bool continued = *key && !strcmp(r->section, section) && !strcmp(r->key, key);
    if (!continued)
        end_value(r);
    snprintf(r->section, sizeof r->section, "%s", section);
    snprintf(r->key, sizeof r->key, "%s", key);
    r->failed = !*key ? !err_set(&r->why, EXPECTED) : !file_entry(r, continued, r->is_long ? buf_str(&r->whole) : value);
    return !r->failed;
}

/* Sets the options of a config file's text.  False with the line of the first error. */
static bool read_text(struct options *o, struct buf *text, const char *path, bool named, struct err *e)
{
    static const char mark[] = "\xef\xbb\xbf";         /* the byte order mark that some editors write */
    struct reading r = {.o = o, .path = path, .rest = buf_str(text), .named = named};
    if (strlen(r.rest) != text->len)
        return err_set(e, "%s holds a zero byte, expected text", path);
    if (!strncmp(r.rest, mark, strlen(mark)))
        r.rest += strlen(mark);
    int line = ini_parse_stream(next_line, &r, file_handler, &r);
    end_value(&r);
    bool ours = r.failed && (!line || line == r.line), ok = !line && !ours;
    if (!ok)
        err_set(e, "%s:%d: %s", path, ours ? r.line : line, ours ? r.why.msg : EXPECTED);
    buf_free(&r.value);
    buf_free(&r.whole);
    return ok;
}

enum { MAX_FILE = 1 << 20, PATIENCE_MS = 10000 };

bool options_read_file(struct options *o, const char *path, struct err *e)
{
    struct buf text = {0};
    bool ok = file_read_stream(&text, path, MAX_FILE, PATIENCE_MS, e) && read_text(o, &text, path, true, e);
    buf_free(&text);
    return ok;
}

bool options_read_usual_file(struct options *o, struct err *e)
{
    struct buf path = {0}, text = {0};
    bool ok = true;
    if (paths_config(&path) && access(path.data, F_OK) == 0)
        ok = file_read(&text, path.data, MAX_FILE, e) && read_text(o, &text, path.data, false, e);
    buf_free(&path);
    buf_free(&text);
    return ok;
}

/* --- printed ---------------------------------------------------------------------------------------------------- */

/* True if options_read_file() reads the same value back: no line becomes a comment or loses blanks. */
static bool can_stand(const char *text, bool one_line)
{
    if (one_line && strchr(text, '\n'))
        return false;
    for (const char *p = text;;) {
        size_t n = strcspn(p, "\n");
        if (!n || strchr("#; \t", *p) || strchr(" \t", p[n - 1]))
            return false;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)p[i] < ' ' || (i && p[i] == ';' && p[i - 1] == ' '))
                return false;
        if (!p[n])
            return true;
        p += n + 1;
    }
}

/* Appends the key and its value, whose further lines begin with a blank; with a # before them if the value is not set. */
static void print_value(const char *key, const char *text, bool one_line, bool set, struct buf *out)
{
    bool can = can_stand(text, one_line);
    if (set && !can)
        buf_addf(out, "# This value of %s cannot stand in a config file: blanks at an end, an empty line, a control character, \" ;\"%s.\n",
                 key, one_line ? ", or more than one line" : "");
    const char *sign = set && can ? "" : "# ";
    buf_addf(out, "%s%s =%s", sign, key, *text ? " " : "");
    for (const char *p = text; *p; p++)
        if (*p == '\n')
            buf_addf(out, "\n%s    ", sign);
        else
            buf_addc(out, *p);
    buf_addc(out, '\n');
}

static void print_section(const char *title, const char *key, const char *value, void *arg)
{
    struct buf *out = arg;
    if (key)
        print_value(key, value, false, true, out);
    else
        buf_addf(out, "\n[%s]\n", title);
}

void options_print(const struct options *o, struct buf *out)
{
    struct option_about about;
    for (int i = 0; options_about((enum option_id)i, &about); i++) {
        const enum option_id id = (enum option_id)i;
        const bool set = options_from(o, id) != FROM_DEFAULT;
        int n_items;
        const char *const *items = options_list(o, id, &n_items);
        if (about.flag_only)
            continue;
        buf_addf(out, "# %s (%s)\n", about.help, options_origin(o, id));
        for (int k = 0; k < n_items; k++)
            print_value(about.key, items[k], true, set, out);
        if (!n_items)
            print_value(about.key, options_text(o, id), !about.text, set && *options_text(o, id), out);
    }
    options_each_section(o, print_section, out);
}
