#include "chat/picture.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "image/image.h"
#include "option/paths.h"
#include "session/kept.h"

/* True for names of the kinds that are read: an empty file is refused as a picture by them, and else is a text. */
static bool is_named_like_one(const char *path)
{
    static const char *const ends[] = {".png", ".jpg", ".jpeg", ".webp", ".gif"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (!strcasecmp(dot, ends[i]))
            return true;
    return false;
}

bool picture_is(const char *path)
{
    struct buf where = {0};
    struct stat st = {0};
    char first[IMAGE_MAGIC];
    paths_expand(&where, path);
    const int fd = open(buf_str(&where), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const ssize_t n = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) ? pread(fd, first, sizeof first, 0) : 0;
    const enum image_kind kind = n > 0 ? image_kind(first, (size_t)n) : IMAGE_NONE;
    const bool empty = fd >= 0 && S_ISREG(st.st_mode) && !st.st_size;
    if (fd >= 0)
        close(fd);
    buf_free(&where);
    if (empty)
        return is_named_like_one(path);
    /* what has no decoder is refused by name, unless it may be a text that begins like it */
    return kind <= IMAGE_GIF || (kind == IMAGE_UNREAD && memchr(first, 0, (size_t)n));
}

int picture_tokens(const struct entry_picture *p, const struct responder *r)
{
    const struct image_limits usual = {IMAGE_MIN_AREA, IMAGE_MAX_AREA}, own = {r->least_pixels, r->most_pixels};
    int h, w;
    return image_target(p->h, p->w, own.max_pixels ? &own : &usual, &h, &w, NULL) ? h / IMAGE_FACTOR * (w / IMAGE_FACTOR) : 1;
}

bool picture_take(struct entry_file *f, const char *path, struct buf *bytes, struct arena *a, struct err *e)
{
    struct entry_picture *p = arena_alloc(a, sizeof *p);
    struct buf name = {0};
    *f = (struct entry_file){.path = text_of(arena_strdup(a, path)), .bytes = bytes->len, .picture = p};
    if (!image_settle(bytes, &p->w, &p->h, path, e))
        return false;
    p->bytes = (struct text){arena_strndup(a, buf_str(bytes), bytes->len), bytes->len};
    kept_name(&name, p->bytes, image_kind(bytes->data, bytes->len) == IMAGE_JPEG ? "jpg" : "png");
    p->kept = text_of(arena_strdup(a, name.data));
    buf_free(&name);
    return true;
}

bool picture_read(struct entry_file *f, const char *path, struct arena *a, struct err *e)
{
    struct buf where = {0}, bytes = {0};
    paths_expand(&where, path);
    const bool ok = file_read(&bytes, where.data, IMAGE_MAX_BYTES, e) && picture_take(f, path, &bytes, a, e);
    buf_free(&where);
    buf_free(&bytes);
    return ok;
}
