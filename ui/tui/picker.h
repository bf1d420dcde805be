/* A list to choose from that narrows while one types: sessions, earlier messages, the tree of the conversation;
 * and what fills the context, where letters are keys instead. */
#ifndef Q35_UI_TUI_PICKER_H
#define Q35_UI_TUI_PICKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "chat/chat.h"
#include "ui/tui/lines.h"
#include "ui/tui/popup.h"

enum picker_kind { PICK_SESSION, PICK_MESSAGE, PICK_NODE, PICK_URL, PICK_PART };

/* Plain value, valid as {0}. */
struct picker {
    enum picker_kind kind;
    struct popup popup;
    struct popup_row *rows;
    const char **names;                 /* of a row: the session's */
    int *ids;                           /* of a row: index of the message, or of the node; number of the part */
    int  n, cap;
    char *find;                         /* only sessions in which these words were said, or NULL */
    int  doomed;                        /* the row that the next Ctrl-D deletes, or -1 */
    bool preview;                       /* what was said in the chosen session is shown above */
    int  previewed;                     /* the row whose text that is, for */
    int  preview_columns;
    struct lines lines;
    struct arena mem;
};

bool picker_sessions(struct picker *p, const struct chat *c, const char *find, int64_t now_s, struct err *e);
void picker_messages(struct picker *p, const struct chat *c);
void picker_tree(struct picker *p, const struct chat *c);
void picker_urls(struct picker *p, const char *text, size_t n);
void picker_parts(struct picker *p, struct chat *c);
bool picker_narrows(const struct picker *p);            /* by what is typed */
void picker_free(struct picker *p);
void picker_draw_preview(struct picker *p, struct cells *c, struct area a);     /* its end, if it is asked for */
void picker_filter(struct picker *p, const char *words);        /* rows that hold all of them */

#endif
