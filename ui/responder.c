#include "ui/responder.h"

#include "chat/local.h"
#include "chat/remote.h"

struct responder *ui_responder(const struct options *o, struct err *e)
{
    return *options_text(o, OPT_endpoint) ? remote_open(o, e) : local_open(o, e);
}
