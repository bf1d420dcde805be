#include "session/callline.h"

#include <jansson.h>
#include <string.h>

bool call_line(struct buf *out, const char *name, const char *arguments)
{
    json_t *o = json_loads(arguments, 0, NULL);
    const char *text = json_object_size(o) == 1 ? json_string_value(json_object_iter_value(json_object_iter(o))) : NULL;
    bool empty = !*arguments || !strcmp(arguments, "{}");
    buf_addf(out, "%s%s%s", name, empty ? "" : " ", text ? text : empty ? "" : arguments);
    json_decref(o);
    return text || empty;
}
