#include "ui/tui/looks.h"

#include <stdlib.h>

#include "base/memory.h"

static bool style_of(enum heat heat, const struct chat_token *t, enum style *style)
{
    const float sure = 0.9f, unsure = 0.6f, doubtful = 0.3f;
    if (heat == HEAT_HOW) {
        *style = t->source == TOKEN_MTP ? STYLE_drafted : STYLE_looked_up;
        return token_was_drafted(t->source);
    }
    *style = t->prob >= sure ? STYLE_sure : t->prob < doubtful ? STYLE_doubtful : STYLE_unsure;
    return t->prob >= 0 && (t->prob < unsure || t->prob >= sure);
}

/* Colours an item that shows one of the two texts of a message. */
static void tint_item(enum heat heat, struct pane *p, struct chat *c, int item, int message, bool reasoning)
{
    int n = chat_n_tokens(c, message), used = 0;
    struct pane_tint *tints = memory_zeroed((size_t)n + 1, sizeof *tints);
    struct chat_token t;
    for (int k = 0; k < n && chat_token(c, message, k, &t); k++) {
        struct pane_tint tint = {.at = t.at, .n = t.n};
        if (t.reasoning == reasoning && t.n && style_of(heat, &t, &tint.style))
            tints[used++] = tint;
    }
    pane_tint(p, item, tints, used);
    free(tints);
}

void heat_tint(struct heat_tint *h, struct pane *p, struct chat *c)
{
    int n_messages = chat_n_messages(c), under_way = chat_n_tokens(c, -1);
    if (h->shown == h->tinted && under_way == h->n_tokens && pane_n(p) == h->n_items)
        return;
    bool only_new = h->shown == h->tinted && pane_n(p) == h->n_items;
    for (int i = only_new && h->n_items > 2 ? h->n_items - 2 : 0; i < pane_n(p); i++) {
        enum item_kind kind = pane_kind(p, i);
        int message = pane_message(p, i);
        if (message < 0 || (kind != ITEM_ANSWER && kind != ITEM_REASONING))
            continue;
        if (h->shown == HEAT_NONE)
            pane_tint(p, i, NULL, 0);
        else
            tint_item(h->shown, p, c, i, message < n_messages ? message : -1, kind == ITEM_REASONING);
    }
    h->tinted = h->shown;
    h->n_tokens = under_way;
    h->n_items = pane_n(p);
}
