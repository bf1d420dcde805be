#include "remote/dialect.h"

#include <string.h>

#include <jansson.h>

static const struct dialect dialects[] = {
#define DIALECT(n, o, t, r, m, e, s, c, p, i, x, own) {n, o, THINKING_##t, r, m, e, s, c, p, i, CONTEXT_##x, own},
#include "config/dialects.def"
};
enum { N_DIALECTS = sizeof dialects / sizeof *dialects };

const struct dialect *dialect_find(const char *name, struct err *e)
{
    struct buf known = {0};
    for (int i = 0; i < N_DIALECTS; i++) {
        if (!strcmp(dialects[i].name, name)) {
            buf_free(&known);
            return &dialects[i];
        }
        buf_addf(&known, "%s%s", i ? ", " : "", dialects[i].name);
    }
    err_set(e, "the dialect is '%s', expected one of: %s", name, buf_str(&known));
    buf_free(&known);
    return NULL;
}

/* The last row is that of any other server. */
static const struct dialect *owned_by(const char *owner)
{
    for (int i = 0; i < N_DIALECTS - 1; i++)
        if (owner && !strcmp(dialects[i].owner, owner))
            return &dialects[i];
    return &dialects[N_DIALECTS - 1];
}

static int positive(const json_t *v)
{
    json_int_t n = json_is_integer(v) ? json_integer_value(v) : 0;
    return n > 0 && n <= 1 << 30 ? (int)n : 0;
}

static const char *id_of(const json_t *model)
{
    return json_string_value(json_object_get(model, "id"));
}

/* The first dozen, for a sentence. */
static void list_names(const json_t *list, struct err *names)
{
    enum { SHOWN = 12 };
    struct buf text = {0};
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        const char *id = id_of(json_array_get(list, i));
        buf_addf(&text, "%s%s", i ? ", " : "", id ? id : "one without a name");
    }
    err_set(names, "%s%s", buf_str(&text), n > SHOWN ? ", ..." : "");
    buf_free(&text);
}

static const json_t *find(const json_t *list, const char *wanted)
{
    const char *id;
    for (size_t i = 0; i < json_array_size(list); i++)
        if ((id = id_of(json_array_get(list, i))) && (!wanted || !strcmp(id, wanted)))
            return json_array_get(list, i);
    return NULL;
}

static const struct dialect *spoken_by(const json_t *model)
{
    return owned_by(json_string_value(json_object_get(model, "owned_by")));
}

/* Gateways, and servers that load models when they are asked for, may list others than they have. */
static bool lists_all(const json_t *list)
{
    return json_array_size(list) && spoken_by(json_array_get(list, 0)) != &dialects[N_DIALECTS - 1];
}

static void take(const json_t *model, struct remote_model *m)
{
    const json_t *loading = json_object_get(model, "loading");
    buf_adds(&m->id, id_of(model));
    m->n_ctx = positive(json_object_get(model, "max_model_len"));
    m->loading = json_is_object(loading);
    m->loaded = (size_t)json_integer_value(json_object_get(loading, "done"));
    m->to_load = (size_t)json_integer_value(json_object_get(loading, "total"));
    m->dialect = spoken_by(model);
}

static bool choose(const json_t *list, const char *wanted, struct remote_model *m, struct err *e)
{
    size_t n = json_array_size(list);
    const json_t *model = find(list, wanted);
    struct err names = {{0}};
    list_names(list, &names);
    if (!json_is_array(list))
        return err_set(e, "the server's list of models is not one: expected {\"data\": [{\"id\": ...}]}");
    if (!wanted && n > 1)
        return err_set(e, "the server has %zu models; --model names one of them: %s", n, names.msg);
    if (!wanted && !model)
        return err_set(e, n ? "the server lists a model without a name; --model names the one that it has" : "the server lists no model; --model names the one that it has");
    if (!model && lists_all(list))
        return err_set(e, "the server has no model %s; it has %s", wanted, names.msg);
    if (model)
        take(model, m);
    else
        models_assume(wanted, m);
    return true;
}

void models_assume(const char *wanted, struct remote_model *m)
{
    buf_adds(&m->id, wanted);
    m->unlisted = true;
    m->dialect = &dialects[N_DIALECTS - 1];
}

bool models_choose(const char *body, size_t n, const char *wanted, struct remote_model *m, struct err *e)
{
    json_t *v = json_loadb(body, n, 0, NULL);
    *m = (struct remote_model){{0}};
    bool ok = choose(json_object_get(v, "data"), wanted, m, e);
    json_decref(v);
    return ok;
}

void remote_model_free(struct remote_model *m)
{
    buf_free(&m->id);
}

int props_context(const char *body, size_t n)
{
    json_t *v = json_loadb(body, n, 0, NULL);
    int found = positive(json_object_get(json_object_get(v, "default_generation_settings"), "n_ctx"));
    json_decref(v);
    return found;
}
