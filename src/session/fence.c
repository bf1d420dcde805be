#include "session/fence.h"

static int longest_run(struct text t)
{
    int longest = 0, run = 0;
    for (size_t i = 0; i < t.n; i++) {
        run = t.p[i] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

void fence_add(struct buf *out, const char *language, struct text t)
{
    int n = longest_run(t) < 3 ? 3 : longest_run(t) + 1;
    for (int i = 0; i < n; i++)
        buf_addc(out, '`');
    buf_addf(out, "%s\n", language);
    if (t.n)
        buf_add(out, t.p, t.n);
    if (t.n && t.p[t.n - 1] != '\n')
        buf_addc(out, '\n');
    for (int i = 0; i < n; i++)
        buf_addc(out, '`');
}
