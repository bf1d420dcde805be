#include "chat/thumbs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/worker.h"
#include "image/image.h"
#include "session/transcript.h"

struct made {
    struct buf name;                    /* entry_picture.kept, which is made of a hash of the file */
    struct buf bytes;                   /* of the file, until it was decoded */
    enum { WAITS, WORKS, MADE, FAILED } state;
    struct thumb thumb;
};

struct thumbs {
    struct worker worker;               /* its lock guards what follows */
    int fd;                             /* eventfd */
    struct made *all[THUMBS_MOST];      /* the oldest first */
    int n;
    uint32_t last;                      /* number */
};

/* Decodes and shrinks the picture, and writes it as PNG. */
static bool make(struct made *m)
{
    struct image im = {0};
    bool ok = image_decode(&im, buf_str(&m->bytes), m->bytes.len, "", NULL, NULL);
    if (ok) {
        int w = im.w < THUMB_W ? im.w : THUMB_W, h = (int)((int64_t)im.h * w / im.w);
        if (h > THUMB_H) {
            h = THUMB_H;
            w = (int)((int64_t)im.w * h / im.h);
        }
        ok = image_shrink(&im, w > 1 ? w : 1, h > 1 ? h : 1) && image_write_png(&im, &m->thumb.png, NULL);
    }
    m->thumb.w = im.w;
    m->thumb.h = im.h;
    m->thumb.rgb = ok ? image_take(&im) : NULL;
    image_free(&im);
    return ok;
}

/* One step of the worker, called with the lock: makes the next small picture that waits, without it. */
static int64_t make_next(void *arg)
{
    struct thumbs *t = arg;
    int i = 0;
    while (i < t->n && t->all[i]->state != WAITS)
        i++;
    if (i == t->n)
        return WORKER_IDLE;
    struct made *m = t->all[i];
    m->state = WORKS;
    worker_unlock(&t->worker);
    const bool ok = make(m);
    worker_lock(&t->worker);
    m->state = ok ? MADE : FAILED;
    m->thumb.number = ok ? ++t->last : 0;
    buf_free(&m->bytes);
    eventfd_write(t->fd, 1);
    return WORKER_AGAIN;
}

struct thumbs *thumbs_open(void)
{
    struct thumbs *t = memory_zeroed(1, sizeof *t);
    t->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->fd >= 0 && worker_start(&t->worker, 1, make_next, t))
        return t;
    if (t->fd >= 0)
        close(t->fd);
    free(t);
    return NULL;
}

/* Frees small picture i and takes it off the list. */
static void drop(struct thumbs *t, int i)
{
    struct made *m = t->all[i];
    free(m->thumb.rgb);
    buf_free(&m->thumb.png);
    buf_free(&m->name);
    buf_free(&m->bytes);
    free(m);
    memmove(t->all + i, t->all + i + 1, (size_t)(--t->n - i) * sizeof *t->all);
}

void thumbs_close(struct thumbs *t)
{
    if (!t)
        return;
    worker_stop(&t->worker);
    while (t->n)
        drop(t, t->n - 1);
    close(t->fd);
    free(t);
}

int thumbs_fd(const struct thumbs *t)
{
    return t->fd;
}

bool thumbs_changed(struct thumbs *t)
{
    eventfd_t n;
    return !eventfd_read(t->fd, &n);
}

/* Makes room for one more.  False: the thread works on the oldest. */
static bool room(struct thumbs *t)
{
    if (t->n < THUMBS_MOST)
        return true;
    if (t->all[0]->state == WORKS)
        return false;
    drop(t, 0);
    return true;
}

uint32_t thumbs_number(struct thumbs *t, const struct entry_picture *p)
{
    uint32_t number = 0;
    int i = 0;
    worker_lock(&t->worker);
    while (i < t->n && !text_same((struct text){buf_str(&t->all[i]->name), t->all[i]->name.len}, p->kept))
        i++;
    if (i < t->n) {
        number = t->all[i]->thumb.number;
    } else if (p->bytes.n && p->kept.n && room(t)) {
        struct made *m = t->all[t->n++] = memory_zeroed(1, sizeof *m);
        buf_add(&m->name, p->kept.p, p->kept.n);
        buf_add(&m->bytes, p->bytes.p, p->bytes.n);
        worker_wake(&t->worker);
    }
    worker_unlock(&t->worker);
    return number;
}

const struct thumb *thumbs_find(struct thumbs *t, uint32_t number)
{
    const struct thumb *found = NULL;
    worker_lock(&t->worker);
    for (int i = 0; i < t->n; i++)
        if (number && t->all[i]->thumb.number == number)
            found = &t->all[i]->thumb;
    worker_unlock(&t->worker);
    return found;
}
