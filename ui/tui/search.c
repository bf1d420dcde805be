#include "ui/tui/search.h"

#include <string.h>

void search_free(struct search *s)
{
    find_free(&s->find);
    buf_free(&s->text);
    *s = (struct search){0};
}

void search_cut(struct search *s, int item)
{
    if (s->item >= item)
        s->on_hit = false;
}

void search_item(struct search *s, struct item *it)
{
    bool marks = it->kind == ITEM_ANSWER || it->kind == ITEM_REASONING;
    if (s->find.n && it->hits.scanned < it->source.len)
        hits_update(&it->hits, &s->find, buf_str(&it->source), it->source.len, marks);
}

long search_set(struct search *s, struct items *items, const char *what)
{
    long n = 0;
    if (strcmp(what, buf_str(&s->text))) {
        for (int i = 0; i < items->n; i++)
            hits_free(&items->at[i].hits);
        buf_reset(&s->text);
        buf_adds(&s->text, what);
        find_set(&s->find, what);
        s->on_hit = false;
    }
    for (int i = 0; i < items->n; i++) {
        search_item(s, &items->at[i]);
        n += items->at[i].hits.n;
    }
    return n;
}

/* Before the first hit from that place on; it may be behind the last one of its item. */
static void begin_at(struct search *s, const struct items *items, struct pane_place from)
{
    s->item = from.item >= 0 && from.item < items->n ? from.item : 0;
    s->hit = 0;
    const struct hits *h = &items->at[s->item].hits;
    while (from.sub >= 0 && s->hit < h->n && h->at[s->hit].at < from.at)
        s->hit++;
}

long search_step(struct search *s, struct items *items, int direction, struct pane_place from)
{
    long which = 1;
    if (!search_set(s, items, buf_str(&s->text)))
        return 0;
    if (!s->on_hit)
        begin_at(s, items, from);
    s->hit += direction < 0 ? -1 : s->on_hit;
    s->on_hit = true;
    while (s->hit < 0) {
        s->item = (s->item ? s->item : items->n) - 1;
        s->hit = items->at[s->item].hits.n - 1;
    }
    while (s->hit >= items->at[s->item].hits.n) {
        s->item = s->item + 1 < items->n ? s->item + 1 : 0;
        s->hit = 0;
    }
    for (int i = 0; i < s->item; i++)
        which += items->at[i].hits.n;
    return which + s->hit;
}

struct hit search_hit(const struct search *s, const struct items *items)
{
    return items->at[s->item].hits.at[s->hit];
}
