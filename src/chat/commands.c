#include "chat/commands.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum command_result command_refused(struct typed *c)
{
    buf_addf(c->out, "%s\n", c->e.msg);
    return COMMAND_DONE;
}

int command_number(const char *arg, int otherwise, const char **rest)
{
    char *end;
    long n = strtol(arg, &end, 10);
    if (!isdigit((unsigned char)*arg) || (*end && !isspace((unsigned char)*end))) {
        *rest = arg;
        return *arg ? 0 : otherwise;
    }
    *rest = end + strspn(end, " \t");
    return n < 1000000 ? (int)n : 0;
}

bool command_names_file(struct typed *c, const char *name)
{
    if (!strchr("|<>&", *name))
        return true;
    return err_set(&c->e, "pipes do not work here ('%s'); give a file name (./%s for a file of that name)", name, name);
}

void command_first_line(struct buf *out, const char *text)
{
    size_t n = strcspn(text, "\n");
    buf_addf(out, "%.*s%s\n", (int)n, text, text[n] ? " ..." : "");
}
