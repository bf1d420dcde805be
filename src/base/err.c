#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/unicode.h"

bool err_set(struct err *e, const char *fmt, ...)
{
    if (!e)
        return false;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    e->msg[unicode_plain(e->msg, strlen(e->msg), '?')] = 0;     /* file names and tensor names come from outside */
    return false;
}
