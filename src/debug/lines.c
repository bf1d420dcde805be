#include "debug/lines.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"

void debug_list(struct buf *out, const char *key, const int32_t *x, int n)
{
    buf_addf(out, "\"%s\": [", key);
    for (int i = 0; i < n; i++)
        buf_addf(out, i ? ", %d" : "%d", x[i]);
    buf_addc(out, ']');
}

static void answer_error(struct buf *out, const struct err *e)
{
    buf_reset(out);
    buf_adds(out, "{\"error\": ");
    json_quote(out, e->msg, strlen(e->msg));
    buf_addc(out, '}');
}

int debug_lines(FILE *in, FILE *out, debug_line_fn *fn, void *arg)
{
    enum { LONGEST = 1 << 30 };
    int status = 0;
    struct buf line = {0}, answer = {0};
    enum file_line got;
    for (; (got = file_read_line(&line, in, LONGEST)) == FILE_LINE; buf_reset(&line)) {
        struct err e = {0};
        buf_reset(&answer);
        if (!fn(buf_str(&line), line.len, &answer, arg, &e)) {
            answer_error(&answer, &e);
            status = 1;
        }
        buf_addc(&answer, '\n');
        fwrite(answer.data, 1, answer.len, out);
        if (fflush(out)) {
            err_warn("cannot write an answer: %s", strerror(errno));
            status = 1;
            break;
        }
    }
    if (got == FILE_LINE_TOO_LONG)
        err_warn("a line has more than %d bytes", LONGEST);
    if (got > FILE_LINE_TOO_LONG || got == FILE_LINE_INTERRUPTED)
        err_warn("cannot read the input: %s", strerror(errno));
    status |= got > FILE_LINE_END;
    buf_free(&line);
    buf_free(&answer);
    return status;
}

int debug_lines_with_tokenizer(const char *model_dir, FILE *in, FILE *out, debug_line_fn *fn)
{
    struct err e = {0};
    struct tokenizer *t = tokenizer_open(model_dir, &e);
    if (!t) {
        err_warn("%s", e.msg);
        return 1;
    }
    if (tokenizer_notice(t))
        err_warn("%s", tokenizer_notice(t));
    int status = debug_lines(in, out, fn, t);
    tokenizer_close(t);
    return status;
}
