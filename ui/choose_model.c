#include "ui/choose_model.h"

#include "prepare/models.h"

bool choose_model(struct options *o, struct err *e)
{
    struct buf dir = {0};
    struct models m;
    bool ok = true;
    if (*options_text(o, OPT_endpoint))
        return true;                    /* the server's model */
    if (options_given(o, OPT_model)) {
        ok = models_resolve(options_text(o, OPT_model), &dir, e);
    } else {
        models_find(&m);
        int i = models_standard(&m);
        buf_adds(&dir, i < 0 ? "" : m.items[i].dir);
        models_free(&m);
    }
    ok = ok && (!dir.len || options_set(o, OPT_model, dir.data, FROM_COMMAND_LINE, e));
    buf_free(&dir);
    return ok;
}
