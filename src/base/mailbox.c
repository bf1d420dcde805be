#include "base/mailbox.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/memory.h"

bool mailbox_init(struct mailbox *m, size_t item_size)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *m = (struct mailbox){0};
    if (fd < 0)
        return false;
    *m = (struct mailbox){.item_size = item_size, .fd = fd};
    pthread_mutex_init(&m->lock, NULL);
    return true;
}

void mailbox_free(struct mailbox *m)
{
    if (!m->item_size)
        return;
    free(m->lists[0].items);
    free(m->lists[1].items);
    close(m->fd);
    pthread_mutex_destroy(&m->lock);
    *m = (struct mailbox){0};
}

void mailbox_post(struct mailbox *m, const void *item)
{
    lock_take(&m->lock, LOCK_MAILBOX);
    struct mailbox_list *l = &m->lists[m->in];
    bool was_empty = l->n == 0;
    l->items = memory_grow(l->items, l->n, &l->cap, m->item_size);
    memcpy(l->items + (size_t)l->n * m->item_size, item, m->item_size);
    l->n++;
    if (was_empty)
        eventfd_write(m->fd, 1);        /* one wake per batch */
    lock_release(&m->lock, LOCK_MAILBOX);
}

const void *mailbox_take(struct mailbox *m, int *n)
{
    eventfd_t v;
    lock_take(&m->lock, LOCK_MAILBOX);
    eventfd_read(m->fd, &v);
    struct mailbox_list *full = &m->lists[m->in];
    m->in = !m->in;
    m->lists[m->in].n = 0;
    lock_release(&m->lock, LOCK_MAILBOX);
    *n = full->n;
    return full->items;
}

bool mailbox_wait(struct mailbox *m, int timeout_ms)
{
    struct pollfd p = {.fd = m->fd, .events = POLLIN};
    int r;
    do
        r = poll(&p, 1, timeout_ms);
    while (r < 0 && errno == EINTR);
    return r > 0;
}
