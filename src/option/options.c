#include "option/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "option/flags.h"
#include "option/paths.h"

struct row {
    const char *key;
    char        letter;
    enum value_type type;
    const char *standard, *arg;
    double      min, max;
    const char *where, *help;
};

static const char themes[] = ""
#define THEME(id, name, help) "|" name
#include "config/theme.def"
    ;
#define THEME_NAMES (themes + 1)
static const char parts[] = ""
#define PART(name, help) " " #name
#include "config/status.def"
#undef PART
    ;
#define STATUS_PARTS (parts + 1)

enum { SECTION_TOOL, SECTION_ENDPOINT, N_SECTION_KINDS };

static const struct row rows[N_OPTIONS] = {
#define OPTION(key, letter, type, ...) {#key, letter, VALUE_##type, __VA_ARGS__},
#include "config/options.def"
};

struct value {
    const char *text;
    enum option_from from;
    const char *place;                  /* FILE:LINE of a config file; NULL: elsewhere */
    const char **items;                 /* the values of a LIST */
    int n_items;
};

struct options {
    struct arena mem;
    struct value values[N_OPTIONS];
    struct arena pushed_mem;            /* both as they were at options_push() */
    struct value pushed_values[N_OPTIONS];
    struct section_list { char *items; int n; } sections[N_SECTION_KINDS];
    struct buf warnings;
};

/* --- sections of the config file ------------------------------------------------------------------------------- */

/* A section is a struct option_tool or option_endpoint: strings that begin with its name. */
struct section_key {
    const char *name;
    size_t at;                          /* offset of the value in the struct */
};

static const struct section_key tool_keys[] = {
#define TOOL_KEY(key) {#key, offsetof(struct option_tool, key)},
#include "config/tool.def"
};
static const struct section_key endpoint_keys[] = {
#define ENDPOINT_KEY(key) {#key, offsetof(struct option_endpoint, key)},
#include "config/endpoint.def"
};

static const struct section_shape {
    const char *word, *article;
    size_t bytes;
    const struct section_key *keys;
    size_t n_keys;
} shapes[N_SECTION_KINDS] = {
    [SECTION_TOOL] = {"tool", "a", sizeof(struct option_tool), tool_keys, sizeof tool_keys / sizeof *tool_keys},
    [SECTION_ENDPOINT] = {"endpoint", "an", sizeof(struct option_endpoint), endpoint_keys, sizeof endpoint_keys / sizeof *endpoint_keys},
};
_Static_assert(offsetof(struct option_tool, name) == 0 && offsetof(struct option_endpoint, name) == 0, "section_name() relies on it");


static char **section_value(char *section, size_t at)
{
    return (char **)(void *)(section + at);
}

/* Frees the sections of all kinds with their values. */
static void free_sections(struct options *o)
{
    for (int kind = 0; kind < N_SECTION_KINDS; kind++) {
        for (int i = 0; i < o->sections[kind].n; i++) {
            char *section = o->sections[kind].items + (size_t)i * shapes[kind].bytes;
            free(*section_value(section, 0));
            for (size_t k = 0; k < shapes[kind].n_keys; k++)
                free(*section_value(section, shapes[kind].keys[k].at));
        }
        free(o->sections[kind].items);
    }
}

/* Returns the section with this title, "tool disk", which is made if it is new, and its shape.  NULL: no section has such a title. */
static char *section_of(struct options *o, const char *title, const struct section_shape **shape)
{
    int kind = 0;
    size_t n = 0;
    for (; kind < N_SECTION_KINDS; kind++) {
        n = strlen(shapes[kind].word);
        if (!strncmp(title, shapes[kind].word, n) && title[n] == ' ' && title[n + 1])
            break;
    }
    if (kind == N_SECTION_KINDS)
        return NULL;
    *shape = &shapes[kind];
    const size_t bytes = shapes[kind].bytes;
    struct section_list *l = &o->sections[kind];
    for (int i = 0; i < l->n; i++)
        if (!strcmp(*section_value(l->items + (size_t)i * bytes, 0), title + n + 1))
            return l->items + (size_t)i * bytes;
    l->items = memory_resized(l->items, (size_t)(l->n + 1) * bytes);
    char *made = memset(l->items + (size_t)l->n++ * bytes, 0, bytes);
    *section_value(made, 0) = memory_strdup(title + n + 1);
    return made;
}

bool options_section(struct options *o, const char *title)
{
    const struct section_shape *shape;
    return section_of(o, title, &shape) != NULL;
}

bool options_set_section(struct options *o, const char *title, const char *key, const char *value, struct err *e)
{
    const struct section_shape *shape;
    char *section = section_of(o, title, &shape);
    struct buf keys = {0};
    for (size_t k = 0; k < shape->n_keys; k++) {
        if (!strcmp(shape->keys[k].name, key)) {
            char **at = section_value(section, shape->keys[k].at);
            free(*at);
            *at = memory_strdup(value);
            buf_free(&keys);
            return true;
        }
        buf_addf(&keys, "%s%s", k ? ", " : "", shape->keys[k].name);
    }
    err_set(e, "%s %s has no %s, expected %s", shape->article, shape->word, key, buf_str(&keys));
    buf_free(&keys);
    return false;
}

void options_each_section(const struct options *o, option_section_fn *fn, void *arg)
{
    for (int kind = 0; kind < N_SECTION_KINDS; kind++)
        for (int i = 0; i < o->sections[kind].n; i++) {
            const struct section_shape *shape = &shapes[kind];
            char *section = o->sections[kind].items + (size_t)i * shape->bytes;
            struct buf title = {0};
            buf_addf(&title, "%s %s", shape->word, *section_value(section, 0));
            fn(title.data, NULL, NULL, arg);
            for (size_t k = 0; k < shape->n_keys; k++)
                if (*section_value(section, shape->keys[k].at))
                    fn(title.data, shape->keys[k].name, *section_value(section, shape->keys[k].at), arg);
            buf_free(&title);
        }
}

int options_n_tools(const struct options *o)
{
    return o->sections[SECTION_TOOL].n;
}

const struct option_tool *options_tool(const struct options *o, int i)
{
    return (const struct option_tool *)(const void *)o->sections[SECTION_TOOL].items + i;
}

int options_n_endpoints(const struct options *o)
{
    return o->sections[SECTION_ENDPOINT].n;
}

const struct option_endpoint *options_endpoint(const struct options *o, int i)
{
    return (const struct option_endpoint *)(const void *)o->sections[SECTION_ENDPOINT].items + i;
}

/* --- the table and its values -------------------------------------------------------------------------------------- */

struct options *options_open(void)
{
    struct options *o = memory_zeroed(1, sizeof *o);
    for (int i = 0; i < N_OPTIONS; i++)
        o->values[i].text = rows[i].standard;
    return o;
}

void options_close(struct options *o)
{
    if (!o)
        return;
    for (int i = 0; i < N_OPTIONS; i++)
        free(o->values[i].items);
    free_sections(o);
    arena_free(&o->mem);
    buf_free(&o->warnings);
    free(o);
}

static bool has(const struct row *r, char flag)
{
    return strchr(r->where, flag) != NULL;
}

static bool is_list(const struct row *r)
{
    return r->type == VALUE_LIST || r->type == VALUE_BIAS;
}

static bool is_text(const struct row *r)
{
    return r->type <= VALUE_DELETED;
}

int options_find(const char *name)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (flags_same(rows[i].key, name))
            return i;
    return -1;
}

bool options_unknown(const char *name, struct err *e)
{
    const char *names[N_OPTIONS];
    for (int i = 0; i < N_OPTIONS; i++)
        names[i] = rows[i].key;
    const char *near = nearest_name(name, names, N_OPTIONS);
    return err_set(e, "unknown option %s%s%s%s", name, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

/* Appends " --top-p X", " --no-share". */
static void add_flag(const struct row *r, struct buf *out)
{
    buf_adds(out, r->type == VALUE_SWITCH && !strcmp(r->standard, "on") ? " --no-" : " --");
    flags_add_dashed(out, r->key);
    if (r->arg)
        buf_addf(out, " %s", r->arg);
}

/* Checks a value; an error names the option as it was typed, a flag with dashes. */
static bool check(const struct row *r, const char *s, enum option_from from, struct err *e)
{
    struct buf name = {0};
    if (!*s && !*r->standard)           /* "" is its default */
        return true;
    if (from == FROM_COMMAND_LINE) {
        buf_adds(&name, "--");
        flags_add_dashed(&name, r->key);
    } else {
        buf_adds(&name, r->key);
    }
    bool ok = value_check(r->type, name.data, s, r->arg, r->min, r->max, e);
    buf_free(&name);
    return ok;
}

bool options_set(struct options *o, enum option_id id, const char *text, enum option_from from, struct err *e)
{
    struct value *v = &o->values[id];
    if (!check(&rows[id], text, from, e))
        return false;
    text = arena_strdup(&o->mem, text);
    if (is_list(&rows[id])) {
        if (v->from != from || !*text)  /* a stronger source replaces the list; "" empties it */
            v->n_items = 0;
        if (*text) {
            v->items = memory_resized(v->items, (size_t)(v->n_items + 1) * sizeof *v->items);
            v->items[v->n_items++] = text;
        }
    }
    v->text = text;
    v->from = from;
    v->place = NULL;
    return true;
}

void options_set_place(struct options *o, enum option_id id, const char *path, int line)
{
    struct buf place = {0};
    buf_addf(&place, "%s:%d", path, line);
    o->values[id].place = arena_strdup(&o->mem, place.data);
    buf_free(&place);
}

const char *options_place(const struct options *o, enum option_id id)
{
    return o->values[id].place;
}

struct options *options_copy(const struct options *o)
{
    struct options *copy = options_open();
    for (int i = 0; i < N_OPTIONS; i++) {
        struct value *v = &copy->values[i];
        *v = o->values[i];
        v->text = v->text ? arena_strdup(&copy->mem, v->text) : NULL;
        v->place = NULL;
        v->items = v->n_items ? memory_alloc((size_t)v->n_items * sizeof *v->items) : NULL;
        for (int k = 0; k < v->n_items; k++)
            v->items[k] = arena_strdup(&copy->mem, o->values[i].items[k]);
    }
    return copy;
}

void options_push(struct options *o)
{
    memcpy(o->pushed_values, o->values, sizeof o->values);
    o->pushed_mem = o->mem;
    o->mem = (struct arena){0};
    for (int i = 0; i < N_OPTIONS; i++) {
        struct value *v = &o->values[i];
        size_t bytes = (size_t)v->n_items * sizeof *v->items;
        v->items = bytes ? memcpy(memory_alloc(bytes), v->items, bytes) : NULL;
    }
}

void options_pop(struct options *o)
{
    for (int i = 0; i < N_OPTIONS; i++)
        free(o->values[i].items);
    arena_free(&o->mem);
    memcpy(o->values, o->pushed_values, sizeof o->values);
    o->mem = o->pushed_mem;
}

/* Refuses an option that is read only at the start, and shows how to start with that value. */
static bool refuse_late(const struct row *r, const char *text, struct err *e)
{
    struct buf flag = {0};
    struct row given = *r;              /* with the value in place of its name: " --ctx 4k", " --no-share" */
    if (!check(r, text, FROM_SET, e))
        return false;
    if (r->type == VALUE_SWITCH)
        given.standard = value_switch(text) ? "off" : "on";
    else if (*text && !strpbrk(text, " \t\n'\"\\$`"))
        given.arg = text;
    add_flag(&given, &flag);
    err_set(e, has(r, 'f') ? "%s is an option of the command line: q35chat%s" :
               "%s is read when the program starts: `q35chat --continue%s` continues this conversation with it; it can also be set "
               "in the config file", r->key,
               buf_str(&flag));
    buf_free(&flag);
    return false;
}

bool options_set_named(struct options *o, const char *name, const char *text, struct err *e)
{
    int id = options_find(name);
    if (id < 0)
        return options_unknown(name, e);
    if (has(&rows[id], 's'))
        return refuse_late(&rows[id], text, e);
    return options_set(o, id, text, FROM_SET, e);
}

bool options_accessible(void)
{
    const char *s = getenv("ACCESSIBLE");
    return s && *s && strcmp(s, "0") && strcmp(s, "false");
}

bool options_read_environment(struct options *o, struct err *e)
{
    const char *dir = getenv("Q35CHAT_MODEL");
    return (!options_accessible() || options_set(o, OPT_accessible, "on", FROM_ENVIRONMENT, e)) &&
           (!dir || !*dir || options_set(o, OPT_model, dir, FROM_ENVIRONMENT, e));
}

/* --- warnings --------------------------------------------------------------------------------------------------- */

void options_warn(struct options *o, const char *path, int line, const char *what)
{
    buf_addf(&o->warnings, "%s:%d: %s; ignored\n", path, line, what);
}

void options_warn_of(struct options *o, const char *sentence)
{
    buf_addf(&o->warnings, "%s\n", sentence);
}

const char *options_warnings(const struct options *o)
{
    return buf_str(&o->warnings);
}

/* --- the command line ------------------------------------------------------------------------------------------ */

bool options_read_args(struct options *o, int argc, char **argv, struct buf *prompt, const char **first, struct err *e)
{
    int n_words = 0;
    *first = NULL;
    struct flag flags[N_OPTIONS];
    for (int i = 0; i < N_OPTIONS; i++)
        flags[i] = (struct flag){rows[i].key, rows[i].letter, rows[i].type == VALUE_SWITCH || has(&rows[i], 'o'),
                                 rows[i].type == VALUE_SWITCH ? NULL : rows[i].arg, has(&rows[i], '?')};
    struct flags f = {.flags = flags, .n_flags = N_OPTIONS, .argc = argc, .argv = argv, .at = 1, .help = "--help"};
    for (int more; (more = flags_next(&f, e));) {
        if (more < 0)
            return false;
        if (f.found >= 0) {
            if (!options_set(o, (enum option_id)f.found, f.value ? f.value : f.off ? "off" : "on", FROM_COMMAND_LINE, e))
                return false;
        } else {
            if (!n_words && !f.words_only)
                *first = f.value;
            if (n_words++)
                buf_addc(prompt, ' ');
            buf_adds(prompt, f.value);
        }
    }
    return true;
}

/* --- reading the values ---------------------------------------------------------------------------------------- */

const char *options_key(enum option_id id)
{
    return rows[id].key;
}

const char *options_choices(enum option_id id)
{
    return rows[id].type == VALUE_CHOICE ? rows[id].arg : rows[id].type == VALUE_SWITCH ? "on|off" : NULL;
}

bool options_about(enum option_id id, struct option_about *about)
{
    if (id >= N_OPTIONS)
        return false;
    const struct row *r = &rows[id];
    *about = (struct option_about){.key = r->key, .standard = r->standard, .arg = r->arg, .choices = r->type == VALUE_CHOICE ? r->arg : NULL,
                                   .help = r->help, .type = r->type, .min = r->min, .max = r->max, .letter = r->letter, .repeats = is_list(r),
                                   .text = is_text(r), .can_be_off = has(r, 'o'), .flag_only = has(r, 'f'), .start_only = has(r, 's'),
                                   .of_engine = has(r, 'e'), .of_steps = has(r, 'd'), .of_attached = has(r, 'a'), .of_answer = has(r, '1')};
    return true;
}

bool options_given(const struct options *o, enum option_id id)
{
    return o->values[id].from != FROM_DEFAULT && (*o->values[id].text || is_text(&rows[id]));
}

enum option_from options_from(const struct options *o, enum option_id id)
{
    return o->values[id].from;
}

const char *options_text(const struct options *o, enum option_id id)
{
    return o->values[id].text;
}

bool options_on(const struct options *o, enum option_id id)
{
    return value_switch(o->values[id].text) == 1;
}

bool options_off(const struct options *o, enum option_id id)
{
    return value_switch(o->values[id].text) == 0;
}

const char *options_name(const struct options *o, enum option_id id)
{
    return value_switch(o->values[id].text) < 0 ? o->values[id].text : NULL;
}

double options_real(const struct options *o, enum option_id id)
{
    return value_number(rows[id].type, o->values[id].text);
}

int options_drafts(const struct options *o)
{
    const char *text = options_text(o, OPT_draft);
    return !strcmp(text, "auto") ? -1 : !strcmp(text, "off") ? 0 : atoi(text);
}

int options_int(const struct options *o, enum option_id id)
{
    return (int)options_real(o, id);
}

uint64_t options_seed(const struct options *o)
{
    return strtoull(o->values[OPT_seed].text, NULL, 10);
}

const char *const *options_list(const struct options *o, enum option_id id, int *n)
{
    *n = o->values[id].n_items;
    return o->values[id].items;
}

bool options_model_dir(const struct options *o, struct buf *dir, struct err *e)
{
    struct buf looked = {0};
    bool ok = true;
    if (*options_text(o, OPT_model)) {
        buf_adds(dir, options_text(o, OPT_model));
    } else if (!paths_demo(dir, &looked)) {
        ok = err_set(e, "no model is on this machine: q35chat model get downloads Qwen3.5-122B-A10B, --model DIR takes a checkpoint directory; "
                        "the demo model is not in%s", buf_str(&looked));
    }
    buf_free(&looked);
    return ok;
}

/* --- help ----------------------------------------------------------------------------------------------------- */

void options_help(struct buf *out)
{
    enum { COLUMN = 28 };
    buf_adds(out, "Usage: q35chat [options] [--] [prompt ...]    chat, or answer one prompt\n"
                  "       q35chat GROUP COMMAND ...             sub-commands: q35chat help\n\n"
                  "On a terminal and without a prompt: a chat.  Otherwise the answer goes to\n"
                  "stdout and nothing else does; stdin, if it is not a terminal, is read to its\n"
                  "end and follows the prompt.\n\n");
    for (int i = 0; i < N_OPTIONS; i++) {
        if (!has(&rows[i], 'h'))
            continue;
        size_t start = out->len;
        if (rows[i].letter)
            buf_addf(out, "  -%c,", rows[i].letter);
        else
            buf_adds(out, "     ");
        add_flag(&rows[i], out);
        if (out->len - start > COLUMN - 2) {
            buf_addc(out, '\n');
            start = out->len;
        }
        while (out->len - start < COLUMN)
            buf_addc(out, ' ');
        bool no = rows[i].type == VALUE_SWITCH && !strcmp(rows[i].standard, "on");
        buf_addf(out, "%s%s\n", no ? "do not " : "", rows[i].help);
    }
    buf_adds(out, "\nFurther keys for the config file: --print-config.  In the chat: /help, /set.\n"
                  "Exit status: 0 answered, 2 usage, others and 1: the manual has the table.\n"
                  "Manual: man q35chat\n");
}

const char *options_origin(const struct options *o, enum option_id id)
{
    static const char *const origins[] = {"default", "config file", "environment", "conversation", "command line", "/set"};
    return origins[o->values[id].from];
}

const char *options_help_of(enum option_id id)
{
    return rows[id].help;
}

void options_explain(const struct options *o, enum option_id id, struct buf *out)
{
    const struct row *r = &rows[id];
    const struct value *v = &o->values[id];
    const bool is_set = is_list(r) ? v->n_items : *v->text;
    buf_addf(out, "%s %s%s", r->key, is_set ? "= " : "is not set", is_list(r) ? "" : v->text);
    for (int i = 0; i < v->n_items; i++)
        buf_addf(out, "%s%s", i ? " | " : "", v->items[i]);
    buf_addf(out, "   (%s; %s", options_origin(o, id), r->help);
    if (r->type == VALUE_CHOICE || r->type == VALUE_WORDS)
        buf_addf(out, "; %s%s", r->type == VALUE_WORDS ? "some of: " : "", r->arg);
    if (has(r, 's'))
        buf_adds(out, "; at the start only");
    buf_adds(out, ")\n");
}

