#include "chat/forms.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "guide/form.h"
#include "option/paths.h"

static const enum option_id ids[] = {OPT_schema, OPT_pattern, OPT_choices};
enum { N_IDS = sizeof ids / sizeof *ids };

bool forms_is(enum option_id id)
{
    return id == OPT_schema || id == OPT_pattern || id == OPT_choices;
}

/* ---- the form ---- */

/* Returns the form that the value of an option asks for. */
static struct form form_of_value(const struct options *o, enum option_id id, const char *value, struct arena *mem)
{
    const struct text text = text_of(arena_strdup(mem, value));
    if (id == OPT_schema)
        return (struct form){.kind = FORM_SCHEMA, .text = text_trim(text), .loose = options_on(o, OPT_schema_loose)};
    return id == OPT_pattern ? (struct form){.kind = FORM_PATTERN, .text = text} : form_of_choices(text, mem);
}

struct form forms_wanted(const struct options *o, struct arena *mem)
{
    for (int i = 0; i < N_IDS; i++)
        if (*options_text(o, ids[i]))
            return form_of_value(o, ids[i], options_text(o, ids[i]), mem);
    return (struct form){0};
}

const char *forms_name(const struct options *o)
{
    for (int i = 0; i < N_IDS; i++)
        if (*options_text(o, ids[i]))
            return options_key(ids[i]);
    return NULL;
}

/* ---- setting it ---- */

static const char *expected(enum option_id id)
{
    return id == OPT_schema ? "a JSON schema or the name of a file" : id == OPT_pattern ? "a regular expression" : "texts with commas between";
}

/* Appends the value of an option: of a schema the JSON itself, which may be in a file. */
static bool read_value(enum option_id id, const char *given, enum option_from from, struct buf *out, struct err *e)
{
    enum { MOST = 16 << 20 };
    const struct text t = text_trim(text_of(given));
    struct buf path = {0};
    if (id != OPT_schema || (t.n && *t.p == '{') || text_is(t, "true") || text_is(t, "false")) {
        buf_adds(out, given);
        return true;
    }
    if (!t.n)
        return err_set(e, "schema is blank, expected %s", expected(id));
    paths_expand(&path, given);
    struct err why = {{0}};
    bool ok = file_read(out, buf_str(&path), MOST, &why) || err_set(e, "%sschema: %s", from == FROM_COMMAND_LINE ? "--" : "", why.msg);
    if (ok && text_starts((struct text){out->data, out->len}, "\xef\xbb\xbf"))          /* the byte order mark that some editors write */
        buf_consume(out, 3);
    if (ok && !text_trim(text_of(buf_str(out))).n)
        ok = err_set(e, "schema: %s is empty, expected a JSON schema", path.data);
    buf_free(&path);
    return ok;
}

/* Checks that some answer has the form, which was given as `given`: perhaps the name of a file.  A server of others may know schemas that cannot be
 * enforced here. */
static bool can_be(const struct options *o, enum option_id id, const char *given, const char *value, enum option_from from, struct err *e)
{
    struct arena mem = {0};
    const bool file = strcmp(given, value);
    struct form f = form_of_value(o, id, value, &mem);
    f.loose = f.loose || *options_text(o, OPT_endpoint);
    f.field = arena_printf(&mem, "%s%s%s%s", from == FROM_COMMAND_LINE ? "--" : "", options_key(id), file ? " " : "", file ? given : "");
    bool ok = true;
    for (int i = 0; ok && i < f.n_choices; i++)
        ok = f.choices[i].n || err_set(e, "choices must be %s, none of them empty", expected(id));
    struct grammar *g = ok ? form_grammar(&f, e) : NULL;
    ok = ok && g;
    grammar_release(g);
    arena_free(&mem);
    return ok;
}

bool forms_set(struct options *o, enum option_id id, const char *text, enum option_from from, struct err *e)
{
    const bool off = !*text || !strcmp(text, "off");
    struct buf value = {0};
    bool ok = off || (read_value(id, text, from, &value, e) && can_be(o, id, text, buf_str(&value), from, e));
    for (int i = 0; i < N_IDS && ok; i++)
        if (ids[i] == id || *options_text(o, ids[i]))
            ok = options_set(o, ids[i], ids[i] == id ? buf_str(&value) : "", from, e);
    buf_free(&value);
    return ok;
}

bool forms_read(struct options *o, struct err *e)
{
    enum option_from from = FROM_DEFAULT;
    int id = -1;
    for (int i = 0; i < N_IDS; i++) {
        const enum option_from it = options_from(o, ids[i]);
        if ((!*options_text(o, ids[i]) && it != FROM_COMMAND_LINE) || it < from)
            continue;
        if (id >= 0 && it == from) {
            const char *place = options_place(o, ids[i]);
            return err_set(e, "%s%sschema, pattern and choices cannot be combined: an answer has one form", place ? place : "", place ? ": " : "");
        }
        id = (int)ids[i];
        from = it;
    }
    if (id < 0)
        return true;
    const char *text = options_text(o, (enum option_id)id);
    if (!*text)
        return err_set(e, "--%s is empty, expected %s; off is for answers of any form", options_key((enum option_id)id),
                       expected((enum option_id)id));
    struct err why = {{0}};
    const char *place = options_place(o, (enum option_id)id);
    return forms_set(o, (enum option_id)id, text, from, &why) || err_set(e, "%s%s%s", place ? place : "", place ? ": " : "", why.msg);
}

/* ---- sessions ---- */

void forms_describe(const struct options *o, struct buf *out)
{
    for (int i = 0; i < N_IDS; i++)
        if (*options_text(o, ids[i])) {
            buf_addf(out, "%s %s", options_key(ids[i]), options_text(o, ids[i]));
            return;
        }
}

void forms_restore(struct options *o, const char *text)
{
    const size_t n = text ? strcspn(text, " ") : 0;
    char key[16];
    snprintf(key, sizeof key, "%.*s", (int)n, text ? text : "");
    const int found = *key ? options_find(key) : -1;
    for (int i = 0; i < N_IDS; i++)
        if (found >= 0 && forms_is((enum option_id)found))
            options_set(o, ids[i], (int)ids[i] == found && text[n] ? text + n + 1 : "", FROM_SET, NULL);
        else if (options_from(o, ids[i]) == FROM_SET)
            options_set(o, ids[i], "", FROM_SET, NULL);
}
