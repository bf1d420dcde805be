#include "chat/sent.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/unicode.h"
#include "chat/picture.h"
#include "option/paths.h"
#include "session/export.h"

/* --- a file ------------------------------------------------------------------------------------------------------ */

static bool is_text(int fd, const char *path, struct err *e)
{
    char beginning[8192];
    ssize_t n = pread(fd, beginning, sizeof beginning, 0);
    if (n < 0)
        return err_set(e, "cannot read %s: %s", path, strerror(errno));
    return !memchr(beginning, 0, (size_t)n) ||
           err_set(e, "%s looks binary: it holds a zero byte; only text and pictures (PNG, JPEG, WebP, GIF) are attached", path);
}

bool attach_file(const char *path, size_t *bytes, struct buf *text, bool *absent, struct err *e)
{
    struct buf where = {0}, raw = {0};
    struct stat st;
    int fd = -1;
    paths_expand(&where, path);
    bool there = !stat(buf_str(&where), &st), ok = there && S_ISREG(st.st_mode);
    if (absent)
        *absent = !ok;
    if (!there)
        err_set(e, "cannot open %s: %s", path, strerror(errno));
    else if (!ok)
        err_set(e, S_ISDIR(st.st_mode) ? "%s is a directory" : "%s is not a regular file", path);
    if (ok && (fd = open(where.data, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) < 0)
        ok = err_set(e, "cannot open %s: %s", path, strerror(errno));
    if (ok && (size_t)st.st_size > ATTACH_MAX)
        ok = err_set(e, "%s is %.1f MiB; the limit is %zu", path, (double)st.st_size / (1 << 20), ATTACH_MAX >> 20);
    ok = ok && is_text(fd, path, e);
    if (ok && text && (ok = file_read_fd(&raw, fd, path, ATTACH_MAX, e)))
        unicode_replace(text, buf_str(&raw), raw.len);
    if (ok)
        *bytes = text ? raw.len : (size_t)st.st_size;
    if (fd >= 0)
        close(fd);
    buf_free(&where);
    buf_free(&raw);
    return ok;
}

bool attach_any(struct entry_file *f, const char *path, struct arena *a, bool *absent, struct err *e)
{
    struct buf text = {0};
    if (absent)
        *absent = false;
    if (picture_is(path))
        return picture_read(f, path, a, e);
    *f = (struct entry_file){.path = text_of(arena_strdup(a, path))};
    bool ok = attach_file(path, &f->bytes, &text, absent, e);
    if (ok)
        f->text = (struct text){arena_strndup(a, buf_str(&text), text.len), text.len};
    buf_free(&text);
    return ok;
}

bool attach_check(const char *path, struct err *e)
{
    struct arena mem = {0};
    struct entry_file f;
    struct pdf p;
    const bool pdf = pdf_named(&p, path), ok = pdf ? pdf_pages(&p, e) : attach_any(&f, path, &mem, NULL, e);
    if (pdf)
        pdf_free(&p);
    arena_free(&mem);
    return ok;
}

/* --- the words of a message -------------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void attach_one(struct attached *a, const struct entry_file *f)
{
    a->files = arena_grow(&a->mem, a->files, a->n, &a->cap, sizeof *a->files);
    a->files[a->n++] = *f;
}

/* Attaches pages and text of a PDF file.  A scan has no text. */
static bool add_pdf(struct attached *a, struct pdf *p, struct err *e)
{
    struct entry_file f;
    p->ends = a->ends;
    bool ok = pdf_pages(p, e);
    for (int i = p->from; ok && i <= p->to && a->pdf != PDF_TEXT; i++)
        if ((ok = pdf_page(p, i, &f, &a->mem, e)))
            attach_one(a, &f);
    if (ok && a->pdf != PDF_PICTURES && (ok = pdf_text(p, &f, &a->mem, e)) && (text_trim(f.text).n || a->pdf == PDF_TEXT))
        attach_one(a, &f);
    return ok;
}

/* True if the file, or its first page, is attached already. */
static bool is_attached(const struct attached *a, const char *path)
{
    const size_t n = strlen(path);
    for (int i = 0; i < a->n; i++) {
        const struct text t = a->files[i].path;
        if (text_is(t, path) || (t.n > n && !memcmp(t.p, path, n) && t.p[n] == ':'))
            return true;
    }
    return false;
}

bool attach_stat(const char *path, struct stat *st)
{
    struct buf where = {0};
    struct pdf p;
    const bool pdf = pdf_named(&p, path);
    paths_expand(&where, path);
    const bool there = !stat(pdf ? p.file.data : buf_str(&where), st);
    if (pdf)
        pdf_free(&p);
    buf_free(&where);
    return there;
}

/* Notes a file by its name. */
static bool add_name(struct attached *a, const char *path, bool *absent)
{
    struct entry_file f = {.path = text_of(arena_strdup(&a->mem, path))};
    const bool ok = attach_file(path, &f.bytes, NULL, absent, NULL);
    if (!*absent && a->what == ATTACH_NAMES)
        attach_one(a, &f);
    return ok || *absent;
}

/* Attaches a file.  False: it cannot be attached.  True, and *absent, if there is no file of this name. */
static bool try_file(struct attached *a, const char *path, bool *absent, struct err *e)
{
    struct entry_file f;
    struct pdf p;
    *absent = false;
    if (is_attached(a, path))
        return true;
    const bool pdf = pdf_named(&p, path), seen = pdf || picture_is(path);
    bool ok;
    if (seen && a->shelf)
        ok = a->take(a->shelf, path, a, e);
    else if (a->what != ATTACH_WHOLE)
        ok = add_name(a, path, absent);
    else if (pdf)
        ok = add_pdf(a, &p, e);
    else if ((ok = attach_any(&f, path, &a->mem, absent, e)))
        attach_one(a, &f);
    if (pdf)
        pdf_free(&p);
    return ok || *absent;
}

bool attach_add(struct attached *a, const char *path, struct err *e)
{
    bool absent;
    return try_file(a, path, &absent, e) && !absent;
}

/* False for "@", "@@" and "@)", which are never meant as a file. */
static bool can_be_path(const char *s)
{
    return isalnum((unsigned char)*s) || strchr("._~/", *s) || (unsigned char)*s >= 0x80;
}

/* Reads the path in s[0..n), which follows an "@".  A bare path may be followed by punctuation of its sentence: "see (@main.c)." */
static bool read_word(struct attached *a, const char *s, size_t n, bool anyway, struct err *e)
{
    static const char around[] = ".,;:!?)]}>'\"*_`";
    struct buf path = {0};
    bool ok = true, absent = true;
    if (n && *s == '"') {
        const char *end = memchr(s + 1, '"', n - 1);
        if (end && end > s + 1) {
            buf_add(&path, s + 1, (size_t)(end - s - 1));
            ok = strchr(path.data, '\n') || try_file(a, path.data, &absent, e);
        }
    } else {
        while (path.len < n && path.len <= PATH_MAX && !is_blank(s[path.len]))
            buf_addc(&path, s[path.len]);
        if (path.len > PATH_MAX)
            path.len = 0;               /* no path */
        while (path.len && (ok = try_file(a, path.data, &absent, e)) && absent && strchr(around, path.data[path.len - 1]))
            path.data[--path.len] = 0;
    }
    ok = ok && (!absent || !path.len || !can_be_path(path.data));
    buf_free(&path);
    return ok || anyway;
}

bool attach_read(struct attached *a, const char *message, size_t n, bool anyway, struct err *e)
{
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++)
        if (message[i] == '@' && (!i || is_blank(message[i - 1]) || message[i - 1] == '('))
            ok = read_word(a, message + i + 1, n - i - 1, anyway, e);
    if (!ok)
        attach_free(a);
    return ok;
}

void attach_free(struct attached *a)
{
    arena_free(&a->mem);
    *a = (struct attached){0};
}

/* --- the messages ------------------------------------------------------------------------------------------------ */

/* Appends the pictures that are sent, and notes them in the message.  Those that are dropped or lost leave a line. */
static void add_pictures(struct message *to, const struct entry *m, struct buf *out, struct arena *a)
{
    struct media *pictures = arena_array(a, (size_t)m->n_files, sizeof *pictures);
    int n = 0;
    to->media = arena_array(a, (size_t)m->n_files, sizeof *to->media);
    to->pictures = pictures;
    for (int i = 0; i < m->n_files; i++)
        n += m->files[i].picture != NULL;
    for (int i = 0; i < m->n_files; i++) {
        const struct entry_file *f = &m->files[i];
        const bool sent = f->picture && f->picture->bytes.n && !f->dropped;
        if (!f->picture)
            continue;
        if (n > 1 || !sent) {
            buf_add(out, f->path.p, f->path.n);
            buf_adds(out, ": ");
        }
        if (sent) {
            pictures[to->n_media] = (struct media){f->path, f->picture->bytes, f->picture->w, f->picture->h};
            to->media[to->n_media++] = out->len;
        }
        buf_adds(out, sent ? MEDIA_IMAGE : SENT_INSTEAD);
        if (n > 1 || !sent)
            buf_addc(out, '\n');
    }
}

/* Returns the text of a message, without the @FILE that it begins with if that is its only file, a picture: that stands there itself. */
static struct text without_picture(const struct entry *m)
{
    const struct text t = m->m.content, path = m->n_files == 1 && m->files[0].picture ? m->files[0].path : (struct text){0};
    const size_t quote = t.n > 1 && t.p[1] == '"', n = 1 + quote + path.n + quote;
    if (!path.n || t.n <= n || *t.p != '@' || memcmp(t.p + 1 + quote, path.p, path.n) || (quote && t.p[n - 1] != '"') || !is_blank(t.p[n]))
        return t;
    return (struct text){t.p + n + 1, t.n - n - 1};
}

void attach_content(struct message *to, const struct entry *m, struct arena *a)
{
    const struct text text = without_picture(m);
    struct buf out = {0};
    *to = m->m;
    add_pictures(to, m, &out, a);
    buf_add(&out, text.p, text.n);
    for (int i = 0; i < m->n_files; i++) {
        const struct entry_file *f = &m->files[i];
        if (f->picture)
            continue;
        buf_adds(&out, "\n\nFile: ");
        buf_add(&out, f->path.p, f->path.n);
        buf_addc(&out, '\n');
        if (f->dropped)
            buf_adds(&out, SENT_INSTEAD);
        else
            fence_add(&out, "", f->text);
    }
    to->content = (struct text){arena_strndup(a, buf_str(&out), out.len), out.len};
    buf_free(&out);
}

/* Returns the index of the last summary, or 0; entries before it are not sent. */
static int first_sent(const struct transcript *t)
{
    int i = t->n - 1;
    while (i > 0 && !t->entries[i]->summary)
        i--;
    return i;
}

enum sent *sent_all(const struct transcript *t, enum sent_for why, struct arena *a)
{
    enum sent *how = arena_array(a, (size_t)t->n + 1, sizeof *how);
    int asked = why == SENT_ANSWER ? transcript_last_user(t) : -1, begin = why == SENT_SUMMED ? t->n : first_sent(t);
    enum sent caller = SENT_WHOLE;
    for (int i = 0; i < t->n; i++) {
        const struct entry *m = t->entries[i];
        how[i] = (m->mark == ENTRY_DROPPED || m->skipped) && i != asked ? SENT_AS_LINE : SENT_WHOLE;
        if (i < begin && m->m.role != ROLE_TOOL && m->mark != ENTRY_PINNED)
            how[i] = SENT_NOT;
        if (m->m.role != ROLE_TOOL)
            caller = how[i];
        else if (caller != SENT_WHOLE)
            how[i] = SENT_NOT;
    }
    return how;
}

struct message *sent_messages(const struct transcript *t, const char *more, struct arena *a, int *n)
{
    const enum sent *how = sent_all(t, more ? SENT_NEXT : SENT_ANSWER, a);
    struct message *messages = arena_array(a, (size_t)t->n + 2, sizeof *messages);
    *n = 0;
    if (t->system)
        messages[(*n)++] = (struct message){.role = ROLE_SYSTEM, .content = text_of(t->system)};
    for (int i = 0; i < t->n; i++) {
        const struct entry *from = t->entries[i];
        if (how[i] == SENT_NOT)
            continue;
        struct message *m = &messages[(*n)++];
        *m = (struct message){.role = from->m.role, .content = text_of(SENT_INSTEAD)};
        if (how[i] == SENT_WHOLE) {
            *m = from->m;
            if (from->n_files)
                attach_content(m, from, a);
        }
    }
    if (more)
        messages[(*n)++] = (struct message){.role = ROLE_USER, .content = text_of(more)};
    return messages;
}
