#include "session/kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file.h"

enum { MOST_BYTES = 1 << 30 };          /* of a kept picture: one that was attached smaller may have been written again as PNG */

void kept_name(struct buf *out, struct text bytes, const char *ending)
{
    struct fingerprinter *f = fingerprint_begin();
    fingerprint_add(f, bytes.p, bytes.n);
    const struct fingerprint print = fingerprint_end(f);
    buf_addf(out, "%016llx%016llx.%s", (unsigned long long)print.high, (unsigned long long)print.low, ending);
}

static void folder_of(struct buf *path, const char *file)
{
    buf_reset(path);
    buf_addf(path, "%s" KEPT_FOLDER, file);
}

/* False for names that kept_name() does not make, which a file from elsewhere may have. */
static bool is_name(struct text name)
{
    static const char *const endings[] = {".png", ".jpg"};
    const size_t n = strspn(name.p, "0123456789abcdef");
    return n == 32 && name.n == n + 4 && (!strcmp(name.p + n, endings[0]) || !strcmp(name.p + n, endings[1]));
}

/* Writes a picture into the folder of kept pictures, unless it is there already. */
static bool write_one(const struct buf *folder, const struct entry_picture *f, struct err *e)
{
    struct buf path = {0};
    buf_addf(&path, "%s/%s", folder->data, f->kept.p);
    bool ok = !access(path.data, F_OK) || ((!mkdir(folder->data, 0700) || errno == EEXIST) && file_replace(path.data, f->bytes.p, f->bytes.n));
    if (!ok)
        err_set(e, "cannot keep a picture as %s: %s", path.data, strerror(errno));
    buf_free(&path);
    return ok;
}

bool kept_write_entry(const char *file, const struct entry *m, struct err *e)
{
    struct buf folder = {0};
    bool ok = true;
    folder_of(&folder, file);
    for (int i = 0; ok && i < m->n_files; i++)
        if (m->files[i].picture && m->files[i].picture->bytes.n && is_name(m->files[i].picture->kept))
            ok = write_one(&folder, m->files[i].picture, e);
    buf_free(&folder);
    return ok;
}

bool kept_write(const char *file, const struct transcript *t, struct err *e)
{
    bool ok = true;
    for (int i = 0; ok && i < t->n_all; i++)
        ok = kept_write_entry(file, t->all[i], e);
    return ok;
}

/* Reads a picture of an entry. */
static bool read_one(const struct buf *folder, struct entry *m, struct entry_picture *f, struct err *e)
{
    struct buf path = {0}, bytes = {0}, name = {0};
    buf_addf(&path, "%s/%s", folder->data, f->kept.p);
    bool ok = is_name(f->kept) ? file_read(&bytes, path.data, MOST_BYTES, e) : err_set(e, "'%s' is no name of a kept picture", f->kept.p);
    if (ok) {
        kept_name(&name, (struct text){buf_str(&bytes), bytes.len}, f->kept.p + 33);
        ok = text_is(f->kept, name.data) || err_set(e, "%s is not the picture that was sent", path.data);
    }
    if (ok)
        f->bytes = (struct text){arena_strndup(&m->mem, bytes.data, bytes.len), bytes.len};
    buf_free(&path);
    buf_free(&bytes);
    buf_free(&name);
    return ok;
}

void kept_read(const char *file, struct transcript *t, struct buf *note)
{
    struct buf folder = {0};
    struct err e = {0};
    int n_lost = 0;
    folder_of(&folder, file);
    for (int i = 0; i < t->n_all; i++)
        for (int k = 0; k < t->all[i]->n_files; k++)
            if (t->all[i]->files[k].picture)
                n_lost += !read_one(&folder, t->all[i], t->all[i]->files[k].picture, &e);
    if (n_lost && note)
        buf_addf(note, "%s%d of the pictures cannot be read and are left out: %s", note->len ? "; " : "", n_lost, e.msg);
    buf_free(&folder);
}

void kept_move(const char *from, const char *to)
{
    struct buf a = {0}, b = {0};
    folder_of(&a, from);
    folder_of(&b, to);
    rename(a.data, b.data);             /* rarely exists */
    buf_free(&a);
    buf_free(&b);
}

void kept_delete(const char *file)
{
    struct buf folder = {0};
    folder_of(&folder, file);
    DIR *d = opendir(folder.data);
    for (struct dirent *f; d && (f = readdir(d));)
        if (*f->d_name != '.')
            unlinkat(dirfd(d), f->d_name, 0);
    if (d)
        closedir(d);
    rmdir(folder.data);
    buf_free(&folder);
}
