/* `q35chat model list`: what is on this machine. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "prepare/models.h"
#include "ui/exits.h"
#include "ui/subcommand.h"
#include "ui/tui/figure.h"

static json_t *text_json(const char *s)
{
    return json_text(s, strlen(s));
}

static void add_json(const struct models_item *it, bool standard, struct buf *out)
{
    static const char *const places[] = {[MODELS_OURS] = "models", [MODELS_HUB] = "hub", [MODELS_DEMO] = "demo"};
    struct memory_plan plan;
    struct err e = {0};
    json_t *j = memory_got(json_object());
    json_object_set_new(j, "name", text_json(it->name));
    json_object_set_new(j, "dir", text_json(it->dir));
    json_object_set_new(j, "place", json_string(places[it->place]));
    json_object_set_new(j, "model", text_json(it->geometry));
    json_object_set_new(j, "bytes", json_integer((json_int_t)it->bytes));
    json_object_set_new(j, "complete", json_boolean(it->complete));
    json_object_set_new(j, "default", json_boolean(standard));
    if (it->complete) {
        bool fits = models_fits(it, &plan, &e);
        json_object_set_new(j, "fits", json_boolean(fits));
        if (fits) {
            json_object_set_new(j, "context", json_integer(plan.n_ctx));
            json_object_set_new(j, "need", json_integer((json_int_t)plan.total));
            json_object_set_new(j, "available", json_integer((json_int_t)plan.available));
        }
    }
    if (it->missing || *e.msg)
        json_object_set_new(j, "why", text_json(it->missing ? it->missing : e.msg));
    json_print(out, j, JSON_COMPACT);
    json_decref(j);
    buf_addc(out, '\n');
}

static void add_state(const struct models_item *it, struct buf *out)
{
    struct memory_plan plan;
    struct err e = {0};
    if (!it->complete)
        buf_adds(out, it->missing);
    else if (!models_fits(it, &plan, &e))
        buf_adds(out, e.msg);
    else {
        buf_adds(out, "fits, with ");
        figure_window(out, plan.n_ctx);
        buf_adds(out, " tokens of context");
    }
    if (!it->complete && it->place == MODELS_HUB)
        buf_addf(out, "; to continue: q35chat model get %s", it->name);
}

static void add_line(const struct models_item *it, bool standard, int width, struct buf *out)
{
    struct buf size = {0}, state = {0};
    buf_addf(&size, it->bytes < 100000000 ? "%.1f MB" : "%.1f GB", (double)it->bytes / (it->bytes < 100000000 ? 1e6 : 1e9));
    add_state(it, &state);
    buf_addf(out, "%c %-*s  %9s  %s\n", standard ? '*' : ' ', width, it->name, size.data, state.data);
    buf_free(&size);
    buf_free(&state);
}

int model_list(const struct args *a)
{
    struct models m;
    struct buf out = {0}, safe = {0};
    bool json = args_on(a, "json");
    int width = 4;
    models_find(&m);
    int standard = models_standard(&m);
    for (int i = 0; i < m.n; i++)
        width = (int)strlen(m.items[i].name) > width ? (int)strlen(m.items[i].name) : width;
    for (int i = 0; i < m.n; i++)
        if (json)
            add_json(&m.items[i], i == standard, &out);
        else
            add_line(&m.items[i], i == standard, width, &out);
    if (!json && standard >= 0)
        buf_adds(&out, "* is the default.\n");
    if (!json && (standard < 0 || m.items[standard].place == MODELS_DEMO))
        buf_adds(&out, "q35chat model get downloads Qwen3.5-122B-A10B, q35chat model get 35b the small one.\n");
    models_free(&m);
    if (json)
        buf_adds(&safe, buf_str(&out));
    else
        unicode_safe(&safe, buf_str(&out), out.len);
    fputs(buf_str(&safe), stdout);
    buf_free(&out);
    buf_free(&safe);
    return fflush(stdout) || ferror(stdout) ? EXIT_FAILED : EXIT_ANSWERED;
}
