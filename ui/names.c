#include "ui/names.h"

#include <string.h>

#include "option/endpoint.h"
#include "session/file.h"
#include "session/list.h"
#include "tool/tool.h"
#include "ui/tui/action.h"

static bool check_tools(const struct options *o, struct err *e)
{
    struct tools *t = tools_open(o, e);
    const char *list = options_text(o, OPT_tools);
    bool ok = t && tools_offer(t, strcmp(list, "auto") ? list : "all", e) && tools_check_policy(t, options_text(o, OPT_tools_approve), e);
    tools_close(t);
    return ok;
}

static bool check_endpoint(const struct options *o, struct err *e)
{
    struct endpoint ep = {0};
    bool ok = !*options_text(o, OPT_endpoint) || endpoint_find(o, &ep, e);
    endpoint_free(&ep);
    return ok;
}

static bool check_conversation(const struct options *o, bool chats, struct err *e)
{
    struct buf newest = {0};
    const char *name = options_text(o, OPT_resume);
    bool ok = *name ? session_exists(name, e)
                    : chats || !options_on(o, OPT_continue) || sessions_newest(&newest) || err_set(e, "no saved conversation to continue");
    buf_free(&newest);
    return ok;
}

/* Checks the keys of the command line.  Those of the config file may be for another version: the full screen shows what is wrong with them. */
static bool check_keys(const struct options *o, struct err *e)
{
    int n;
    const char *const *keys = options_list(o, OPT_key, &n);
    struct actions *a = actions_open();
    bool ok = true;
    for (int i = 0; ok && i < n && options_from(o, OPT_key) == FROM_COMMAND_LINE; i++)
        ok = actions_bind(a, keys[i], e);
    actions_close(a);
    return ok;
}

bool names_check(const struct options *o, bool chats, struct err *e)
{
    return check_tools(o, e) && check_endpoint(o, e) && check_conversation(o, chats, e) && check_keys(o, e);
}
