#include "session/export.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/unicode.h"
#include "option/paths.h"
#include "session/kept.h"
#include "session/record.h"
#include "session/transcript.h"

const char *const export_formats[] = {"md", "json", "txt", NULL};

void fence_add(struct buf *out, const char *language, struct text t)
{
    int n = 3, run = 0;                 /* longer than any run of backticks in the text */
    for (size_t i = 0; i < t.n; i++) {
        run = t.p[i] == '`' ? run + 1 : 0;
        n = run >= n ? run + 1 : n;
    }
    for (int i = 0; i < n; i++)
        buf_addc(out, '`');
    buf_addf(out, "%s\n", language);
    if (t.n)
        buf_add(out, t.p, t.n);
    if (t.n && t.p[t.n - 1] != '\n')
        buf_addc(out, '\n');
    for (int i = 0; i < n; i++)
        buf_addc(out, '`');
}

bool call_line(struct buf *out, const char *name, const char *arguments)
{
    json_t *o = json_loads(arguments, 0, NULL);
    const char *text = json_object_size(o) == 1 ? json_string_value(json_object_iter_value(json_object_iter(o))) : NULL;
    bool empty = !*arguments || !strcmp(arguments, "{}");
    buf_addf(out, "%s%s%s", name, empty ? "" : " ", text ? text : empty ? "" : arguments);
    json_decref(o);
    return text || empty;
}

/* Appends a text and an empty line; nothing if the text is empty. */
static void add_paragraph(struct buf *out, struct text t)
{
    if (!t.n)
        return;
    buf_add(out, t.p, t.n);
    buf_adds(out, "\n\n");
}

/* --- markdown ---------------------------------------------------------------------------------------------------- */

/* Appends a text as a quote, each line after "> ". */
static void add_quote(struct buf *out, struct text t)
{
    for (size_t at = 0; at < t.n;) {
        const char *end = memchr(t.p + at, '\n', t.n - at);
        size_t n = end ? (size_t)(end - (t.p + at)) : t.n - at;
        buf_adds(out, n ? "> " : ">");
        buf_add(out, t.p + at, n);
        buf_addc(out, '\n');
        at += n + 1;
    }
    if (t.n)
        buf_addc(out, '\n');
}

/* Appends "You (2026-01-31 14:02)", without the time if that is not known. */
static void add_speaker(struct buf *out, const struct entry *m)
{
    if (m->m.role == ROLE_TOOL)
        buf_addf(out, "Tool %.*s", (int)m->tool.n, m->tool.p);
    else
        buf_adds(out, m->summary ? "Summary" : m->m.role == ROLE_USER ? "You" : "Answer");
    if (m->time_s) {
        buf_adds(out, " (");
        when_minute(out, m->time_s);
        buf_addc(out, ')');
    }
}

/* Appends a line about a file; a picture's has its sides, and is shown from the folder beside `file`. */
static void md_file(struct buf *out, const struct entry_file *f, const char *file)
{
    buf_addf(out, "Attached: %.*s (%zu bytes", (int)f->path.n, f->path.p, f->bytes);
    if (f->picture)
        buf_addf(out, ", picture of %d x %d pixels", f->picture->w, f->picture->h);
    buf_adds(out, f->dropped ? ", dropped)\n\n" : ")\n\n");
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (file && f->picture && f->picture->bytes.n && f->picture->kept.n)
        buf_addf(out, "![](<%s" KEPT_FOLDER "/%.*s>)\n\n", slash ? slash + 1 : file, (int)f->picture->kept.n, f->picture->kept.p);
}

/* Appends a message with its files and calls. */
static void md_entry(struct buf *out, const struct entry *m, const char *file)
{
    buf_adds(out, "## ");
    add_speaker(out, m);
    buf_adds(out, "\n\n");
    add_quote(out, m->m.reasoning);
    if (m->m.role == ROLE_TOOL) {
        fence_add(out, "", m->m.content);
        buf_adds(out, "\n\n");
    } else {
        add_paragraph(out, m->m.content);
    }
    for (int i = 0; i < m->n_files; i++)
        md_file(out, &m->files[i], file);
    for (int i = 0; i < m->m.n_calls; i++) {
        buf_addf(out, "Calls %.*s:\n\n", (int)m->m.calls[i].name.n, m->m.calls[i].name.p);
        fence_add(out, "json", m->m.calls[i].arguments);
        buf_adds(out, "\n\n");
    }
    if (m->stopped)
        buf_adds(out, "(stopped)\n\n");
    if (m->mark)
        buf_adds(out, m->mark == ENTRY_PINNED ? "(pinned)\n\n" : "(dropped: later prompts do not hold it)\n\n");
}

/* Appends the conversation as Markdown. */
static void md(const struct transcript *t, const char *file, struct buf *out)
{
    buf_adds(out, "# ");
    title_of(out, t);
    buf_adds(out, "\n\n");
    if (t->system) {
        buf_adds(out, "## System\n\n");
        add_paragraph(out, text_of(t->system));
    }
    for (int i = 0; i < t->n; i++)
        md_entry(out, t->entries[i], file);
}

/* --- plain text --------------------------------------------------------------------------------------------------- */

/* Appends "[calculator 17 + 25 = 42]"; a result of several lines begins on a line of its own. */
static void txt_call(struct buf *out, const struct call *call, const struct entry *result)
{
    struct buf name = {0}, arguments = {0};
    buf_add(&name, call->name.p, call->name.n);
    buf_add(&arguments, call->arguments.p, call->arguments.n);
    buf_addc(out, '[');
    call_line(out, buf_str(&name), buf_str(&arguments));
    const struct text value = text_trim(result ? result->m.content : text_of("(no result)"));
    buf_adds(out, memchr(value.p, '\n', value.n) ? " =\n" : " = ");
    if (value.n)
        buf_add(out, value.p, value.n);
    buf_adds(out, "]\n\n");
    buf_free(&name);
    buf_free(&arguments);
}

/* Appends the conversation as plain text: what was said, and each call with its result. */
static void txt(const struct transcript *t, const char *file, struct buf *out)
{
    (void)file;
    for (int i = 0; i < t->n; i++) {
        const struct entry *m = t->entries[i];
        if (m->m.role == ROLE_TOOL || !(m->m.content.n || m->m.n_calls))
            continue;
        add_speaker(out, m);
        buf_adds(out, ":\n");
        add_paragraph(out, m->m.content);
        for (int k = 0; k < m->m.n_calls; k++) {
            const struct entry *next = i + 1 + k < t->n ? t->entries[i + 1 + k] : NULL;
            txt_call(out, &m->m.calls[k], next && next->m.role == ROLE_TOOL ? next : NULL);
        }
    }
}

/* --- JSON ---------------------------------------------------------------------------------------------------------- */

/* Returns the message as its session file has it, without token ids and with its mark. */
static json_t *json_entry(const struct entry *m)
{
    struct buf line = {0};
    record_entry(&line, m);
    json_t *r = json_loadb(line.data, line.len, JSON_ALLOW_NUL, NULL);
    CHECK(r);
    json_object_del(r, "ids");
    if (m->mark)
        json_object_set_new(r, "mark", json_string(m->mark == ENTRY_PINNED ? "pinned" : "dropped"));
    for (int i = 0; i < m->n_files; i++)
        if (m->files[i].dropped)
            json_object_set_new(json_array_get(json_object_get(r, "files"), (size_t)i), "mark", json_string("dropped"));
    buf_free(&line);
    return r;
}

/* Appends the conversation as a JSON object: title, system text, messages. */
static void json(const struct transcript *t, const char *file, struct buf *out)
{
    (void)file;
    struct buf title = {0}, system = {0};
    json_t *messages = json_array();
    title_of(&title, t);
    if (t->system)
        unicode_replace(&system, t->system, strlen(t->system));
    for (int i = 0; i < t->n; i++)
        json_array_append_new(messages, json_entry(t->entries[i]));
    json_t *all = json_pack("{s:s, s:s, s:o}", "title", buf_str(&title), "system", buf_str(&system), "messages", messages);
    CHECK(all);
    json_print(out, all, JSON_INDENT(2));
    buf_addc(out, '\n');
    json_decref(all);
    buf_free(&title);
    buf_free(&system);
}

/* --- formats and files ---------------------------------------------------------------------------------------------- */

bool export_transcript(const struct transcript *t, const char *format, const char *file, struct buf *out, struct err *e)
{
    static void (*const writers[])(const struct transcript *, const char *, struct buf *) = {md, json, txt};
    for (int i = 0; export_formats[i]; i++)
        if (!strcmp(export_formats[i], format)) {
            writers[i](t, file, out);
            return true;
        }
    return err_set(e, "unknown format %s; the formats are md, json and txt", format);
}

static const char *find_format(const char *word)
{
    for (int i = 0; word && export_formats[i]; i++)
        if (!strcmp(export_formats[i], word))
            return export_formats[i];
    return NULL;
}

bool export_is_format(const char *word)
{
    return find_format(word);
}

bool export_choose(const char **format, const char *file, struct err *e)
{
    const char *slash = file ? strrchr(file, '/') : NULL, *dot = file ? strrchr(slash ? slash : file, '.') : NULL;
    const char *given = *format;
    *format = given ? find_format(given) : file ? find_format(dot ? dot + 1 : NULL) : "md";
    if (*format)
        return true;
    const char *first = given ? given : file;             /* "html", "html talk.html": a format was meant */
    size_t n = strcspn(first, " ./");
    if (given || !first[n] || first[n] == ' ')
        return err_set(e, "unknown format %.*s; the formats are md, json and txt", (int)n, first);
    return err_set(e, "%s does not name a format: end it in .md, .json or .txt, or write the format before it", file);
}

bool export_write(const char *file, const struct buf *text, struct err *e)
{
    struct buf path = {0};
    paths_expand(&path, file);
    int fd = open(buf_str(&path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 || err_set(e, errno == EEXIST ? "%s exists; choose another name" : "cannot make %s: %s", file, strerror(errno));
    if (ok && !file_write(fd, text->data, text->len))
        ok = err_set(e, "cannot write %s: %s", file, strerror(errno));
    if (fd >= 0 && close(fd) && ok)
        ok = err_set(e, "cannot write %s: %s", file, strerror(errno));
    if (fd >= 0 && !ok)
        unlink(path.data);
    buf_free(&path);
    return ok;
}

bool export_pictures(const char *file, const struct transcript *t, struct err *e)
{
    struct buf path = {0};
    bool ok = true;
    paths_expand(&path, file);
    for (int i = 0; ok && i < t->n; i++)
        ok = kept_write_entry(buf_str(&path), t->entries[i], e);
    buf_free(&path);
    return ok;
}
