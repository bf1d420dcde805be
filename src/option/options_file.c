/* The config file, through inih. */
#include "option/options.h"

#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "option/paths.h"

enum { SECTION = 49, LONGEST = 197 };   /* bytes that inih keeps of a section's name, and of a line */

/* A config file on its way through inih, which cuts lines of 200 bytes or more: it gets such a line with another value, and the
 * handler, which is called before the next line is asked for, takes the real one from here. */
struct reading {
    struct options *o;
    const char *path, *rest;
    int  line;                          /* of the one that inih was given last */
    char section[SECTION + 1], key[64]; /* of the entry before: again the same key means a continued line */
    struct buf whole;                   /* the value of a long line */
    bool is_long, failed;
    struct buf value;
    struct err why;
};

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

/* A long line `s`: its value goes to `whole`, and a line of the same kind to `out`. */
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
        snprintf(out, size, "?\n");     /* no entry: inih will say so */
        return;
    }
    buf_reset(&r->whole);
    buf_add(&r->whole, value.p, value.n);
    r->is_long = true;
}

/* Notes a section at its head: inih reports it with its first entry only, and one without entries is a mistake to be shown. */
static void see_section(struct reading *r, struct text line)
{
    const char *end = memchr(line.p, ']', line.n);
    size_t n = end ? (size_t)(end - line.p) - 1 : 0;
    r->failed = r->failed || n > SECTION;
    if (n > SECTION)
        err_set(&r->why, "the name of this section has more than %d bytes", SECTION);
    *r->key = 0;
    char title[SECTION + 1];
    enum section_kind kind;
    const char *name;
    snprintf(title, sizeof title, "%.*s", (int)(n <= SECTION ? n : 0), line.p + 1);
    if (sections_kind(title, &kind, &name))
        sections_named(options_sections(r->o), kind, name);
}

/* Like fgets(), for inih. */
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

static void warn(struct reading *r, const char *what)
{
    options_warn(r->o, r->path, r->line, what);
}

static void section_entry(struct reading *r, enum section_kind kind, const char *name, const char *key)
{
    char **value = sections_value(kind, sections_named(options_sections(r->o), kind, name), key);
    if (value) {
        free(*value);
        *value = memory_strdup(buf_str(&r->value));
        return;
    }
    struct buf keys = {0};
    struct err what;
    sections_keys(kind, &keys);
    err_set(&what, "%s has no %s, expected %s", sections_said(kind), key, buf_str(&keys));
    warn(r, what.msg);
    buf_free(&keys);
}

/* Warns of an unknown name; the file may be of another version. */
static void unknown(struct reading *r, const char *section, const char *key)
{
    struct err what;
    if (*section)
        err_set(&what, "no section [%s], expected " SECTIONS_EXPECTED, section);
    else
        options_unknown(key, &what);
    warn(r, what.msg);
}

/* One `key = value`; what a section says is checked when it is used. */
static bool file_entry(struct reading *r, bool continued, const char *section, const char *key, const char *value)
{
    enum section_kind kind;
    const char *name;
    bool named = sections_kind(section, &kind, &name);
    struct option_about about = {.text = named};
    int id = *section ? -1 : options_find(key);
    if (!named && id < 0) {
        if (!continued)
            unknown(r, section, key);
        return true;
    }
    if (!named && options_about((enum option_id)id, &about) && about.flag_only)
        return err_set(&r->why, "%s is for the command line only", key);
    if (continued && about.text)
        buf_addc(&r->value, '\n');
    else
        buf_reset(&r->value);
    buf_adds(&r->value, value);
    if (!named)
        return options_set(r->o, (enum option_id)id, buf_str(&r->value), FROM_FILE, &r->why);
    section_entry(r, kind, name, key);
    return true;
}

static int file_handler(void *arg, const char *section, const char *key, const char *value)
{
    struct reading *r = arg;
    if (r->failed)
        return 1;                       /* inih goes on after an error; the first one is the one to report */
    bool continued = !strcmp(r->section, section) && !strcmp(r->key, key);
    snprintf(r->section, sizeof r->section, "%s", section);
    snprintf(r->key, sizeof r->key, "%s", key);
    r->failed = !file_entry(r, continued, section, key, r->is_long ? buf_str(&r->whole) : value);
    return !r->failed;
}

static bool read_text(struct options *o, struct buf *text, const char *path, struct err *e)
{
    static const char mark[] = "\xef\xbb\xbf";         /* of byte order; some editors write one */
    struct reading r = {.o = o, .path = path, .rest = buf_str(text)};
    if (strlen(r.rest) != text->len)
        return err_set(e, "%s holds a zero byte, expected text", path);
    if (!strncmp(r.rest, mark, strlen(mark)))
        r.rest += strlen(mark);
    int line = ini_parse_stream(next_line, &r, file_handler, &r);
    bool ours = r.failed && (!line || line == r.line), ok = !line && !ours;
    if (!ok)
        err_set(e, "%s:%d: %s", path, ours ? r.line : line, ours ? r.why.msg : "expected key = value, " SECTIONS_EXPECTED ", or # comment");
    buf_free(&r.value);
    buf_free(&r.whole);
    return ok;
}

enum { MAX_FILE = 1 << 20, PATIENCE_MS = 10000 };

bool options_read_file(struct options *o, const char *path, struct err *e)
{
    struct buf text = {0};
    bool ok = buf_read_stream(&text, path, MAX_FILE, PATIENCE_MS, e) && read_text(o, &text, path, e);
    buf_free(&text);
    return ok;
}

bool options_read_usual_file(struct options *o, struct err *e)
{
    struct buf path = {0}, text = {0};
    bool ok = true;
    if (paths_config(&path) && access(path.data, F_OK) == 0)
        ok = buf_read_file(&text, path.data, MAX_FILE, e) && read_text(o, &text, path.data, e);
    buf_free(&path);
    buf_free(&text);
    return ok;
}
