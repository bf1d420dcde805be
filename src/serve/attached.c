#include "serve/attached.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/memory.h"

void attached_add(struct attached_list *l, struct exchange *x, struct text name, const struct buf *lines)
{
    l->all = grow(l->all, l->n, &l->cap, sizeof *l->all);
    struct attached *a = &l->all[l->n++];
    *a = (struct attached){.x = x, .name = memory_zeroed(1, name.n + 1)};
    memcpy(a->name, name.p, name.n);
    exchange_begin(x, "application/x-ndjson");
    exchange_write(x, (struct text){buf_str(lines), lines->len});
}

bool attached_gone(struct attached_list *l, const struct exchange *x)
{
    for (int i = 0; i < l->n; i++)
        if (l->all[i].x == x) {
            free(l->all[i].name);
            l->all[i] = l->all[--l->n];
            return true;
        }
    return false;
}

void attached_tell(struct attached_list *l, const struct buf *lines)
{
    for (int i = 0; i < l->n; i++)
        exchange_write(l->all[i].x, (struct text){buf_str(lines), lines->len});
}

bool attached_claim(struct attached_list *l, struct text name, uint64_t conversation)
{
    bool there = false;
    for (int i = 0; i < l->n; i++) {
        struct attached *a = &l->all[i];
        const bool claims = text_is(name, a->name);
        if (claims || a->conversation == conversation)
            a->conversation = claims ? conversation : 0;
        there |= claims;
    }
    return there;
}

void attached_tell_of(struct attached_list *l, uint64_t conversation, const struct buf *lines)
{
    for (int i = 0; i < l->n; i++)
        if (conversation && l->all[i].conversation == conversation)
            exchange_write(l->all[i].x, (struct text){buf_str(lines), lines->len});
}

void attached_end(struct attached_list *l)
{
    for (int i = 0; i < l->n; i++)
        exchange_end(l->all[i].x);
}

void attached_free(struct attached_list *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->all[i].name);
    free(l->all);
    *l = (struct attached_list){0};
}
