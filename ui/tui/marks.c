#include "ui/tui/marks.h"

enum { BEFORE = 26 };                   /* the mark that jumps leave */

static void go(struct marks *m, struct pane *p, int mark, struct buf *told)
{
    if (!m->set[mark]) {
        buf_adds(told, "nothing is marked so");
        return;
    }
    struct pane_place to = m->at[mark];
    m->at[BEFORE] = pane_place(p);
    m->set[BEFORE] = true;
    pane_go(p, to);
    pane_choose(p, -1);
    pane_choose(p, pane_here(p));
}

bool marks_take(struct marks *m, struct pane *p, uint32_t code, struct buf *told)
{
    enum mark_wait waits = m->waits;
    int mark = code >= 'a' && code <= 'z' ? (int)code - 'a' : code == '\'' ? BEFORE : -1;
    m->waits = MARK_NONE;
    if (waits == MARK_NONE)
        return false;
    if (mark < 0 || (waits == MARK_SETS && mark == BEFORE)) {
        buf_adds(told, "marks are letters from a to z");
    } else if (waits == MARK_GOES) {
        go(m, p, mark, told);
    } else {
        m->at[mark] = pane_place(p);
        m->set[mark] = true;
        buf_addf(told, "mark %c; '%c comes back to it", mark + 'a', mark + 'a');
    }
    return true;
}
