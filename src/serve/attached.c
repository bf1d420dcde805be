#include "serve/attached.h"

#include <stdlib.h>

#include "base/grow.h"

void attached_add(struct attached_list *l, struct exchange *x, const struct buf *lines)
{
    l->all = grow(l->all, l->n, &l->cap, sizeof *l->all);
    l->all[l->n++] = x;
    exchange_begin(x, "application/x-ndjson");
    exchange_write(x, (struct text){buf_str(lines), lines->len});
}

bool attached_gone(struct attached_list *l, const struct exchange *x)
{
    for (int i = 0; i < l->n; i++)
        if (l->all[i] == x) {
            l->all[i] = l->all[--l->n];
            return true;
        }
    return false;
}

void attached_tell(struct attached_list *l, const struct buf *lines)
{
    for (int i = 0; i < l->n; i++)
        exchange_write(l->all[i], (struct text){buf_str(lines), lines->len});
}

void attached_end(struct attached_list *l)
{
    for (int i = 0; i < l->n; i++)
        exchange_end(l->all[i]);
}

void attached_free(struct attached_list *l)
{
    free(l->all);
    *l = (struct attached_list){0};
}
