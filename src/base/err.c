#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

bool err_set(struct err *e, const char *fmt, ...)
{
    if (!e)
        return false;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    for (char *p = e->msg; *p; p++)     /* file names and tensor names come from outside */
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    return false;
}
