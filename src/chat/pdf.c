#include "chat/pdf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/unicode.h"
#include "chat/picture.h"
#include "image/image.h"
#include "option/paths.h"

enum { MOST_TEXT = 4 << 20 };           /* bytes */
#define SIDE "1760"                     /* pixels of a page's longer side: A4 at 150 dots an inch */

/* ---- names ---- */

/* True if `file` is the path of a regular file that begins as a PDF does. */
static bool is_pdf(const struct buf *file)
{
    struct stat st;
    char first[IMAGE_MAGIC];
    const int fd = open(buf_str(file), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const ssize_t n = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) ? pread(fd, first, sizeof first, 0) : 0;
    if (fd >= 0)
        close(fd);
    return n > 0 && image_kind(first, (size_t)n) == IMAGE_PDF;
}

/* Reads ":3" or ":3-5" at the end of a path.  Returns the length of what is before it; 0: there is none. */
static size_t read_pages(const char *path, int *from, int *to)
{
    const char *colon = strrchr(path, ':');
    int n = 0;
    if (!colon || colon == path)
        return 0;
    if (sscanf(colon, ":%6d-%6d%n", from, to, &n) == 2 && !colon[n])
        return (size_t)(colon - path);
    n = 0;
    if (sscanf(colon, ":%6d%n", from, &n) != 1 || colon[n])
        return 0;
    *to = *from;
    return (size_t)(colon - path);
}

/* Puts the path of the file into p->file, never with a first "-", which would be an option. */
static void set_file(struct pdf *p, const char *path)
{
    struct buf where = {0};
    paths_expand(&where, path);
    buf_reset(&p->file);
    buf_addf(&p->file, "%s%s", *buf_str(&where) == '-' ? "./" : "", buf_str(&where));
    buf_free(&where);
}

bool pdf_named(struct pdf *p, const char *path)
{
    *p = (struct pdf){.path = path, .from = 1};
    set_file(p, path);
    if (is_pdf(&p->file))
        return true;
    const size_t n = read_pages(path, &p->from, &p->to);
    struct buf before = {0};
    buf_add(&before, path, n);
    if (n)
        set_file(p, before.data);
    buf_free(&before);
    if (n && is_pdf(&p->file))
        return true;
    pdf_free(p);
    return false;
}

void pdf_free(struct pdf *p)
{
    buf_free(&p->file);
}

/* ---- pages ---- */

static bool explain(const struct pdf *p, int status, const char *program, struct err *e)
{
    if (status == CHILD_NOT_FOUND)
        return err_set(e, "%s needs %s, which is not installed (poppler-utils has it)", p->path, program);
    return err_set(e, "%s cannot be read as a PDF: it is damaged, has a password, or takes more than %d s or 1.5 GB", p->path, CHILD_MS / 1000);
}

bool pdf_pages(struct pdf *p, struct err *e)
{
    const char *const words[] = {"pdfinfo", p->file.data, NULL};
    struct buf out = {0};
    const int status = child_run_until(words, 1 << 16, &out, p->ends);
    const char *line = strstr(buf_str(&out), "Pages:");
    const int n = line ? atoi(line + strlen("Pages:")) : 0;
    buf_free(&out);
    if (status || n < 1)
        return explain(p, status, "pdfinfo", e);
    const bool all = !p->to;
    p->to = all ? n : p->to;
    if (p->from < 1 || p->from > p->to || p->to > n)
        return err_set(e, "%s: there are pages 1 to %d", p->path, n);
    if (p->to - p->from >= PDF_MAX_PAGES)
        return err_set(e, "%s has %d pages; at most %d go with a message: %s:1-%d chooses", p->path, p->to - p->from + 1, PDF_MAX_PAGES,
                       p->file.data, PDF_MAX_PAGES);
    return true;
}

bool pdf_page(const struct pdf *p, int n, struct entry_file *f, struct arena *a, struct err *e)
{
    char page[16];
    snprintf(page, sizeof page, "%d", n);
    const char *const words[] = {"pdftoppm", "-q", "-png", "-f", page, "-l", page, "-scale-to", SIDE, p->file.data, NULL};
    struct buf out = {0};
    const int status = child_run_until(words, IMAGE_MAX_BYTES, &out, p->ends);
    bool ok = (!status && out.len) || explain(p, status, "pdftoppm", e);
    const char *name = arena_printf(a, "%s:%d", p->file.data, n);
    ok = ok && picture_take(f, name, &out, a, e);
    buf_free(&out);
    return ok;
}

bool pdf_text(const struct pdf *p, struct entry_file *f, struct arena *a, struct err *e)
{
    char from[16], to[16];
    snprintf(from, sizeof from, "%d", p->from);
    snprintf(to, sizeof to, "%d", p->to);
    const char *const words[] = {"pdftotext", "-q", "-layout", "-enc", "UTF-8", "-f", from, "-l", to, p->file.data, "-", NULL};
    struct buf out = {0}, text = {0};
    const int status = child_run_until(words, MOST_TEXT, &out, p->ends);
    const bool ok = !status || explain(p, status, "pdftotext", e);
    if (ok) {
        unicode_replace(&text, buf_str(&out), out.len);
        *f = (struct entry_file){.path = text_of(arena_strdup(a, p->path)), .bytes = text.len,
                                 .text = {arena_strndup(a, buf_str(&text), text.len), text.len}};
    }
    buf_free(&out);
    buf_free(&text);
    return ok;
}
