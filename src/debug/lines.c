#include "debug/lines.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "config/limits.h"

void debug_list(struct buf *out, const char *key, const int32_t *x, int n)
{
    buf_addf(out, "\"%s\": [", key);
    for (int i = 0; i < n; i++)
        buf_addf(out, i ? ", %d" : "%d", x[i]);
    buf_addc(out, ']');
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
            buf_reset(&answer);
            buf_adds(&answer, "{\"error\": ");
            json_quote(&answer, e.msg, strlen(e.msg));
            buf_addc(&answer, '}');
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

/* ---- lines with token ids ---- */

enum { MAX_IDS = 1 << 20 };

/* Reads a list of token ids; a missing list is empty. */
static bool read_list(struct ids *out, const json_t *root, const char *key, int vocab, struct err *e)
{
    const json_t *list = json_object_get(root, key), *item;
    size_t i;
    if (!list)
        return true;
    if (!json_is_array(list) || json_array_size(list) > MAX_IDS)
        return err_set(e, "\"%s\" is not a list of token ids, expected at most %d integers", key, MAX_IDS);
    json_array_foreach(list, i, item) {
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id >= vocab)
            return err_set(e, "%s[%zu] is not a token id, expected an integer from 0 to %d", key, i, vocab - 1);
        ids_add(out, (int32_t)id);
    }
    return true;
}

/* Reads a count from 0 on; -1 if it is missing. */
static bool read_count(int *out, const json_t *root, const char *key, struct err *e)
{
    const json_t *v = json_object_get(root, key);
    *out = -1;
    if (!v)
        return true;
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || n > INT_MAX)
        return err_set(e, "\"%s\" is not a count, expected an integer from 0 on", key);
    *out = (int)n;
    return true;
}

/* Reads the list of picture paths; a missing list is empty. */
static bool read_images(struct debug_request *q, const json_t *root, struct err *e)
{
    const json_t *list = json_object_get(root, "images"), *item;
    size_t i;
    if (!list)
        return true;
    if (!json_is_array(list) || json_array_size(list) > LIMIT_PICTURES)
        return err_set(e, "\"images\" is not a list of paths, expected at most %d strings", LIMIT_PICTURES);
    q->images = memory_zeroed(json_array_size(list), sizeof *q->images);
    json_array_foreach(list, i, item) {
        if (!json_is_string(item))
            return err_set(e, "images[%zu] is not a path, expected a string", i);
        q->images[q->n_images++] = memory_strdup(json_string_value(item));
    }
    return true;
}

bool debug_request_read(struct debug_request *q, const char *line, size_t n, int vocab, struct err *e)
{
    json_error_t je;
    json_t *root = json_loadb(line, n, JSON_ALLOW_NUL, &je);
    bool ok = root || err_set(e, "not JSON: %s", je.text);
    *q = (struct debug_request){0};
    ok = ok && (json_is_object(root) || err_set(e, "the line is not a JSON object"))
            && read_list(&q->ids, root, "ids", vocab, e) && read_list(&q->stop, root, "stop", vocab, e)
            && read_count(&q->max_tokens, root, "max_tokens", e) && read_count(&q->draft, root, "draft", e)
            && read_count(&q->depth, root, "depth", e) && read_images(q, root, e)
            && (q->ids.n || err_set(e, "there are no \"ids\", expected a list of at least one token id"));
    json_decref(root);
    return ok;
}

void debug_request_free(struct debug_request *q)
{
    ids_free(&q->ids);
    ids_free(&q->stop);
    for (int i = 0; i < q->n_images; i++)
        free(q->images[i]);
    free(q->images);
}
