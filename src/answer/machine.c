#include "answer/machine.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

const char *model_info_blind(const struct model_info *i)
{
    return i && i->no_vision ? "the model was loaded without its vision tower (--no-vision)" : "the model has no vision tower";
}

static void write_text(struct buf *out, const char *key, const char *value)
{
    buf_addf(out, "\"%s\": ", key);
    json_quote(out, value, strlen(value));
    buf_adds(out, ", ");
}

static void write_bool(struct buf *out, const char *key, bool x)      { buf_addf(out, "\"%s\": %s, ", key, x ? "true" : "false"); }
static void write_int(struct buf *out, const char *key, int n)        { buf_addf(out, "\"%s\": %d, ", key, n); }
static void write_size_t(struct buf *out, const char *key, size_t n)  { buf_addf(out, "\"%s\": %zu, ", key, n); }
static void write_float(struct buf *out, const char *key, float x)    { buf_addf(out, "\"%s\": %.9g, ", key, (double)x); }
static void write_double(struct buf *out, const char *key, double x)  { buf_addf(out, "\"%s\": %.15g, ", key, x); }

void model_info_write(const struct model_info *i, struct buf *out)
{
    buf_addc(out, '{');
#define TEXT(name, size) write_text(out, #name, i->name);
#define FACT(type, name) write_##type(out, #name, i->name);
#include "config/model_info.def"
    buf_adds(out, "\"ends\": [");
    for (int k = 0; k < i->n_ends; k++)
        buf_addf(out, k ? ",%d" : "%d", i->ends[k]);
    buf_adds(out, "]}");
}

void machine_figures_write(const struct machine_figures *m, struct buf *out)
{
    buf_addc(out, '{');
#define TEXT(name, size) write_text(out, #name, m->name);
#define FACT(type, name) write_##type(out, #name, m->name);
#include "config/machine.def"
    out->len -= 2;                      /* the last comma */
    buf_addc(out, '}');
}

static void read_text(const json_t *v, char *to, size_t size)
{
    const char *s = json_string_value(v);
    snprintf(to, size, "%s", s ? s : "");
    to[utf8_plain(to, strlen(to), '?')] = 0;         /* its end may be half a character */
}

static bool read_bool(const json_t *v)      { return json_is_true(v); }
static int read_int(const json_t *v)        { return (int)json_integer_value(v); }
static size_t read_size_t(const json_t *v)  { return (size_t)json_integer_value(v); }
static float read_float(const json_t *v)    { return (float)json_number_value(v); }
static double read_double(const json_t *v)  { return json_number_value(v); }

void model_info_read(struct model_info *i, const json_t *v)
{
    const json_t *ends = json_object_get(v, "ends");
    *i = (struct model_info){0};
#define TEXT(name, size) read_text(json_object_get(v, #name), i->name, size);
#define FACT(type, name) i->name = read_##type(json_object_get(v, #name));
#include "config/model_info.def"
    i->n_ctx = i->n_ctx < 0 ? 0 : i->n_ctx > LIMIT_CTX ? LIMIT_CTX : i->n_ctx;
    for (size_t k = 0; k < json_array_size(ends) && k < LIMIT_STOP_IDS; k++)
        i->ends[i->n_ends++] = (int32_t)json_integer_value(json_array_get(ends, k));
}

void machine_figures_read(struct machine_figures *m, const json_t *v)
{
    *m = (struct machine_figures){0};
#define TEXT(name, size) read_text(json_object_get(v, #name), m->name, size);
#define FACT(type, name) m->name = read_##type(json_object_get(v, #name));
#include "config/machine.def"
}
