#include "serve/engine_key.h"

#include <string.h>

static bool is_number(enum value_type type)
{
    return type == VALUE_INT || type == VALUE_SIZE || type == VALUE_REAL;
}

/* 4k and 4096 are the same; "": what it is by default. */
static void add_value(const struct option_about *about, const char *text, struct buf *out)
{
    if (is_number(about->type) && value_number(about->type, text) != value_number(about->type, about->standard))
        buf_addf(out, "%.10g", value_number(about->type, text));
    else if (!is_number(about->type) && strcmp(text, about->standard))
        buf_adds(out, text);
}

void engine_key(const struct options *o, struct buf *out)
{
    struct option_about about;
    struct buf value = {0};
    for (int id = 0; options_about((enum option_id)id, &about); id++) {
        buf_reset(&value);
        if (about.of_attached && options_given(o, (enum option_id)id))
            add_value(&about, options_text(o, (enum option_id)id), &value);
        if (value.len)
            buf_addf(out, "%s%s=%s", out->len ? " " : "", about.key, value.data);
    }
    buf_free(&value);
}
