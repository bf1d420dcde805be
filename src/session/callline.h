/* How a tool call is shown: "weather Paris". */
#ifndef Q35_SESSION_CALLLINE_H
#define Q35_SESSION_CALLLINE_H

#include <stdbool.h>

#include "base/buf.h"

/* Appends the tool's name and its arguments: the text alone where that is the only one, else the JSON as it came.  True: they are not shown as
 * JSON. */
bool call_line(struct buf *out, const char *name, const char *arguments);

#endif
