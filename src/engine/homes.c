#include "engine/homes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void homes_init(struct homes *h)
{
    *h = (struct homes){0};
    pthread_mutex_init(&h->lock, NULL);
}

static void forget(struct home *m)
{
    free(m->path);
    ids_free(&m->ids);
    *m = (struct home){0};
}

void homes_free(struct homes *h)
{
    for (int i = 0; i < LIMIT_HOMES; i++)
        forget(&h->all[i]);
    pthread_mutex_destroy(&h->lock);
}

/* ---- under the lock ---- */

static struct home *find(struct homes *h, uint64_t name)
{
    for (int i = 0; name && i < LIMIT_HOMES; i++)
        if (h->all[i].name == name)
            return &h->all[i];
    return NULL;
}

/* A free entry, or the one that was not used for longest; NULL: all conversations are moving. */
static struct home *make(struct homes *h, uint64_t name)
{
    struct home *best = NULL;
    for (int i = 0; i < LIMIT_HOMES; i++) {
        struct home *m = &h->all[i];
        if (!m->moving && (!best || m->used < best->used))
            best = m;
    }
    if (best) {
        forget(best);
        best->name = name;
    }
    return best;
}

static int common(const struct home *m, const struct saving *s)
{
    int n = 0;
    while (m && n < m->ids.n && n < s->n && m->ids.data[n] == s->ids[n])
        n++;
    return n;
}

static bool has_states(const struct home *m, int pos)
{
    bool has = !pos;
    for (int i = 0; i < SAVED_STATES; i++)
        has |= m->pos[i] == pos;
    return has;
}

/* ---- functions of homes.h ---- */

void homes_set(struct homes *h, uint64_t name, const char *path)
{
    pthread_mutex_lock(&h->lock);
    struct home *m = find(h, name);
    if (!m && name && path)
        m = make(h, name);
    if (m && !(m->path && path && !strcmp(m->path, path))) {
        free(m->path);
        m->path = path ? memory_strdup(path) : NULL;
        m->ids.n = 0;
        m->no_use = false;
    }
    if (m)
        m->used = ++h->clock;
    pthread_mutex_unlock(&h->lock);
}

char *homes_path(struct homes *h, uint64_t name)
{
    pthread_mutex_lock(&h->lock);
    struct home *m = find(h, name);
    char *path = m && m->path ? memory_strdup(m->path) : NULL;
    if (m)
        m->used = ++h->clock;
    pthread_mutex_unlock(&h->lock);
    return path;
}

void homes_wrote(struct homes *h, uint64_t name, const char *path, const struct saving *s)
{
    pthread_mutex_lock(&h->lock);
    struct home *m = find(h, name);
    if (m && m->path && !strcmp(m->path, path)) {
        m->ids.n = 0;
        ids_append(&m->ids, s->ids, s->n);
        memcpy(m->pos, s->pos, sizeof m->pos);
        m->no_use = false;
    }
    pthread_mutex_unlock(&h->lock);
}

bool homes_has(struct homes *h, uint64_t name, const struct saving *s)
{
    pthread_mutex_lock(&h->lock);
    const struct home *m = find(h, name);
    bool has = m && common(m, s) == s->n;
    for (int i = 0; i < SAVED_STATES; i++)
        has = has && has_states(m, s->pos[i]);
    pthread_mutex_unlock(&h->lock);
    return has;
}

int homes_common(struct homes *h, uint64_t name, const struct saving *s)
{
    pthread_mutex_lock(&h->lock);
    int n = common(find(h, name), s);
    pthread_mutex_unlock(&h->lock);
    return n;
}

void homes_move(struct homes *h, uint64_t name, bool moving)
{
    pthread_mutex_lock(&h->lock);
    struct home *m = find(h, name);
    if (m)
        m->moving = moving;
    pthread_mutex_unlock(&h->lock);
}

bool homes_moving(struct homes *h, uint64_t name)
{
    pthread_mutex_lock(&h->lock);
    const struct home *m = find(h, name);
    bool moving = m && m->moving;
    pthread_mutex_unlock(&h->lock);
    return moving;
}

void homes_refuse(struct homes *h, uint64_t name)
{
    pthread_mutex_lock(&h->lock);
    struct home *m = find(h, name);
    if (m)
        m->no_use = true;
    pthread_mutex_unlock(&h->lock);
}

bool homes_take_refused(struct homes *h, uint64_t name)
{
    pthread_mutex_lock(&h->lock);
    struct home *m = find(h, name);
    bool refused = m && m->no_use;
    if (m)
        m->no_use = false;
    pthread_mutex_unlock(&h->lock);
    return refused;
}
