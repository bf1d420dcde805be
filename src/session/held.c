#include "session/held.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "option/endpoint.h"
#include "session/file.h"

enum { MAX_LINE = 64 << 10 };

static bool is_directory(const char *model)
{
    return *model == '/';
}

bool held_with(const char *name, struct buf *model)
{
    struct buf path = {0};
    char line[MAX_LINE];
    FILE *f = session_path_of(name, &path, NULL) ? fopen(path.data, "re") : NULL;
    json_t *header = f && fgets(line, sizeof line, f) ? json_loads(line, 0, NULL) : NULL;
    const char *was = json_string_value(json_object_get(header, "model"));
    const bool names = was && (is_directory(was) || endpoint_is_address(was));
    buf_reset(model);
    buf_adds(model, names ? was : "");
    json_decref(header);
    if (f)
        fclose(f);
    buf_free(&path);
    return names;
}

/* Returns the length of the address, and the name after it; "": no name. */
static size_t split_model(const char *model, const char **name)
{
    size_t n = strcspn(model, " ");
    *name = model + n + (model[n] == ' ');
    return n;
}

bool held_same(const char *a, const char *b)
{
    const char *of_a, *of_b;
    if (!strcmp(a, b))
        return true;
    if (is_directory(a) != is_directory(b))
        return false;
    if (is_directory(a)) {
        char *x = realpath(a, NULL), *y = realpath(b, NULL);
        bool same = x && y && !strcmp(x, y);
        free(x);
        free(y);
        return same;
    }
    size_t n = split_model(a, &of_a), m = split_model(b, &of_b);
    return n == m && !strncmp(a, b, n) && (!*of_a || !*of_b || !strcmp(of_a, of_b));
}

bool held_gone(const char *model)
{
    struct buf config = {0};
    buf_addf(&config, "%s/config.json", model);
    bool gone = is_directory(model) && access(config.data, R_OK);
    buf_free(&config);
    return gone;
}

/* Returns a value of the option `endpoint` for this address: its present one, the name of a section, or the address; NULL: the config file has
 * none. */
static const char *configured(const struct options *o, const char *url)
{
    struct endpoint ep = {0};
    const char *found = NULL;
    if (*options_text(o, OPT_endpoint) && endpoint_find(o, &ep, NULL) && !strcmp(ep.url, url))
        found = options_text(o, OPT_endpoint);
    for (int i = 0; i < options_n_endpoints(o) && !found; i++)
        if (options_endpoint(o, i)->url && !strcmp(options_endpoint(o, i)->url, url))
            found = options_endpoint(o, i)->name;
    endpoint_free(&ep);
    return found;
}

/* Chooses a server; `trusted`: its address may come from the file alone. */
static bool choose_server(struct options *o, const char *model, bool trusted)
{
    struct buf url = {0};
    const char *name;
    buf_add(&url, model, split_model(model, &name));
    const char *known = configured(o, url.data), *endpoint = known ? known : trusted ? url.data : NULL;
    bool ok = endpoint && (endpoint == options_text(o, OPT_endpoint) || options_set(o, OPT_endpoint, endpoint, FROM_CONVERSATION, NULL));
    ok = ok && (!*name || options_set(o, OPT_model, name, FROM_CONVERSATION, NULL));
    buf_free(&url);
    return ok;
}

bool held_choose(struct options *o, const char *name)
{
    struct buf model = {0};
    bool flag = options_from(o, OPT_model) == FROM_COMMAND_LINE || options_from(o, OPT_endpoint) == FROM_COMMAND_LINE;
    bool ok = !flag && held_with(name, &model);
    if (ok && is_directory(model.data))
        ok = !held_gone(model.data) && (!*options_text(o, OPT_endpoint) || options_set(o, OPT_endpoint, "", FROM_CONVERSATION, NULL))
          && options_set(o, OPT_model, model.data, FROM_CONVERSATION, NULL);
    else if (ok)
        ok = choose_server(o, model.data, !strchr(name, '/'));
    buf_free(&model);
    return ok;
}

void held_words(const char *model, void (*fn)(const char *word, void *arg), void *arg)
{
    struct buf url = {0};
    const char *name = model;
    if (!is_directory(model)) {
        buf_add(&url, model, split_model(model, &name));
        fn("--endpoint", arg);
        fn(url.data, arg);
    }
    if (*name) {
        fn("-m", arg);
        fn(name, arg);
    }
    buf_free(&url);
}
