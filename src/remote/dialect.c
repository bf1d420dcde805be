#include "remote/dialect.h"

#include <string.h>

#include <jansson.h>

static const struct dialect dialects[] = {
#define DIALECT(n, o, t, r, m, e, s, c, p, i, x, ...) {n, o, THINKING_##t, r, m, e, s, c, p, i, CONTEXT_##x, __VA_ARGS__},
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

/* Returns the dialect of this owner; the last row is for any other server. */
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

static bool has_word(const json_t *list, const char *word)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_string(json_array_get(list, i)) && !strcmp(json_string_value(json_array_get(list, i)), word))
            return true;
    return false;
}

/* True unless the server marks the model as one that makes embeddings and no text.  Servers do that in different ways, most not at all. */
static bool answers(const json_t *model)
{
    const json_t *can = json_object_get(model, "capabilities"), *out = json_object_get(json_object_get(model, "architecture"), "output_modalities");
    const char *type = json_string_value(json_object_get(model, "type"));
    if (json_is_false(json_object_get(can, "completion_chat")))         /* Mistral */
        return false;
    if (has_word(can, "embed") || (has_word(can, "embedding") && !has_word(can, "completion")))         /* infinity; llama.cpp, ollama */
        return false;
    if (json_array_size(out) && !has_word(out, "text"))                 /* OpenRouter */
        return false;
    return !type || strncmp(type, "embedding", 9);                      /* LM Studio, Together */
}

static size_t count_names(const struct buf *names)
{
    size_t n = 0;
    for (size_t i = 0; i < names->len; i++)
        n += !names->data[i];
    return n;
}

/* The first dozen. */
static void list_names(const struct buf *names, struct buf *out)
{
    enum { SHOWN = 12 };
    size_t n = 0;
    for (size_t at = 0; at < names->len; at += strlen(names->data + at) + 1, n++)
        if (n < SHOWN)
            buf_addf(out, "%s%s", n ? ", " : "", names->data + at);
    buf_adds(out, n > SHOWN ? ", ..." : n ? "" : "none that answers");
}

void models_ask(const struct buf *names, struct err *e)
{
    struct buf text = {0};
    list_names(names, &text);
    err_set(e, "the server has %zu models; --model names one of them: %s", count_names(names), buf_str(&text));
    buf_free(&text);
}

/* Puts the names of all models that can chat into `names`, if there is one.  Returns how many there are. */
static size_t take_names(const json_t *list, struct buf *names)
{
    struct buf found = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *model = json_array_get(list, i);
        if (id_of(model) && *id_of(model) && answers(model))
            buf_add(&found, id_of(model), strlen(id_of(model)) + 1);
    }
    const size_t n = count_names(&found);
    if (n) {
        buf_reset(names);
        buf_add(names, found.data, found.len);
    }
    buf_free(&found);
    return n;
}

/* Finds the model of this name.  wanted NULL: the first one that can chat. */
static const json_t *find(const json_t *list, const char *wanted)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *model = json_array_get(list, i);
        const char *id = id_of(model);
        if (id && *id && (wanted ? !strcmp(id, wanted) : answers(model)))
            return model;
    }
    return NULL;
}

static const struct dialect *dialect_of(const json_t *model)
{
    return owned_by(json_string_value(json_object_get(model, "owned_by")));
}

/* True if the server lists every model that it has.  Gateways, and servers that load models on request, may list others. */
static bool lists_all(const json_t *list)
{
    return json_array_size(list) && dialect_of(json_array_get(list, 0)) != &dialects[N_DIALECTS - 1];
}

/* Takes what the list says about a model. */
static void take(const json_t *model, struct remote_model *m)
{
    const json_t *loading = json_object_get(model, "loading"), *sampling = json_object_get(model, "sampling");
    buf_adds(&m->id, id_of(model));
    m->n_ctx = positive(json_object_get(model, "max_model_len"));
    m->loading = json_is_object(loading);
    m->loaded = (size_t)json_integer_value(json_object_get(loading, "done"));
    m->to_load = (size_t)json_integer_value(json_object_get(loading, "total"));
    m->dialect = dialect_of(model);
    m->samples = json_is_object(sampling);
    m->temperature = (float)json_number_value(json_object_get(sampling, "temperature"));
    m->top_p = (float)json_number_value(json_object_get(sampling, "top_p"));
    m->top_k = (int)json_integer_value(json_object_get(sampling, "top_k"));
}

static bool refuse_none(const json_t *list, struct err *e)
{
    const char *what = json_array_size(list) ? "models for embeddings alone" : "no model";
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!id_of(json_array_get(list, i)))
            what = "a model without a name";
    return err_set(e, "the server lists %s; --model names the one that it has", what);
}

static bool refuse_wanted(const char *wanted, const struct buf *names, struct err *e)
{
    struct buf text = {0};
    list_names(names, &text);
    err_set(e, "the server has no model %s; it has %s", wanted, buf_str(&text));
    buf_free(&text);
    return false;
}

/* Chooses `wanted`, or the only model of the list.  False with the names if there are several or it is not there. */
static bool choose(const json_t *list, const char *wanted, struct remote_model *m, struct buf *names, struct err *e)
{
    if (!json_is_array(list))
        return err_set(e, "the server's list of models is not one: expected {\"data\": [{\"id\": ...}]}");
    const size_t n = take_names(list, names);
    const json_t *model = find(list, wanted);
    if (!wanted && n > 1) {
        models_ask(names, e);
        return false;
    }
    if (!wanted && !model)
        return refuse_none(list, e);
    if (!model && lists_all(list))
        return refuse_wanted(wanted, names, e);
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

bool models_choose(const char *body, size_t n, const char *wanted, struct remote_model *m, struct buf *names, struct err *e)
{
    json_t *v = json_loadb(body, n, 0, NULL);
    *m = (struct remote_model){{0}};
    bool ok = choose(json_object_get(v, "data"), wanted, m, names, e);
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
