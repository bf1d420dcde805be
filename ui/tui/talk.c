#include "ui/tui/talk.h"

void talk_changed(struct host *h)
{
    for (int i = 0; i < N_WINDOWS; i++)
        if (window_at((enum window_id)i)->changed)
            window_at((enum window_id)i)->changed(h);
    if (!chat_n_messages(h->chat))
        pane_reset(h->pane);
    feed_sync(&h->feed);
    h->recount = true;
}

void talk_began(struct host *h, bool ok, const struct err *e)
{
    h->recount = true;
    if (!ok) {
        feed_sync(&h->feed);
        feed_say(&h->feed, ITEM_ERROR, e->msg);
        host_hint(h, "%s", e->msg);     /* near the input, where the user looks */
        return;
    }
    h->n_turns++;
    h->typing.quit_until = 0;
    feed_turn(&h->feed);
    phase_turn(&h->phase, h->ms);
    pane_to_end(h->pane);
}

void talk_stop(struct host *h)
{
    h->phase.stopping = true;
    chat_interrupt(h->chat);
}
