#include "ui/choose_model.h"

#include <stdlib.h>
#include <unistd.h>

#include "session/held.h"
#include "session/list.h"
#include "prepare/models.h"
#include "ui/exits.h"

/* A conversation continues with the model that it was held with. */
static void choose_held(struct options *o)
{
    struct buf newest = {0};
    const char *name = options_text(o, OPT_resume);
    if (*name || (options_on(o, OPT_continue) && sessions_newest(&newest)))
        held_choose(o, *name ? name : newest.data);
    buf_free(&newest);
}

int choose_model(struct options *o, struct err *e)
{
    struct buf dir = {0}, whole = {0};
    struct models m;
    bool ok = true;
    choose_held(o);
    enum option_from from = options_from(o, OPT_model);
    const char *name = options_text(o, OPT_model);
    if (*options_text(o, OPT_endpoint))
        return EXIT_ANSWERED;           /* the server's model */
    if (!*name && from == FROM_COMMAND_LINE) {
        err_set(e, "--model is empty, expected a directory or a name that `q35chat model list` lists");
        return EXIT_USAGE;
    }
    if (*name) {
        ok = models_resolve(name, &dir, e);
    } else {
        models_find(&m);
        int i = models_standard(&m);
        buf_adds(&dir, i < 0 ? "" : m.items[i].dir);
        models_free(&m);
    }
    char *here = ok && dir.len && *dir.data != '/' ? getcwd(NULL, 0) : NULL;
    buf_addf(&whole, "%s%s%s", here ? here : "", here ? "/" : "", buf_str(&dir));       /* conversations record it, and are continued elsewhere */
    ok = ok && (!dir.len || options_set(o, OPT_model, whole.data, from, e));
    free(here);
    buf_free(&dir);
    buf_free(&whole);
    return ok ? EXIT_ANSWERED : EXIT_MODEL;
}
