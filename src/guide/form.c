#include "guide/form.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "text/pyjson.h"

/* ---- compiled ---- */

static struct grammar *compiled(const struct form *f, struct err *e)
{
    switch (f->kind) {
    case FORM_JSON: return grammar_of_json();
    case FORM_SCHEMA: return grammar_of_schema(f->text, &(struct grammar_options){.loose = f->loose, .ordered = true, .plain = true}, e);
    case FORM_PATTERN: return grammar_of_pattern(f->text, e);
    case FORM_CHOICES: return grammar_of_choices(f->choices, f->n_choices, e);
    case FORM_CALLS:
    case FORM_ANY: break;
    }
    return NULL;
}

struct grammar *form_grammar(const struct form *f, struct err *e)
{
    struct err why = {{0}};
    struct grammar *g = compiled(f, &why);
    if (!g)
        err_set(e, "%s%s%s", f->field ? f->field : "", f->field ? ": " : "", why.msg);
    return g;
}

/* ---- checked ---- */

/* True if the grammar of a pattern or of choices accepts the whole text. */
static bool accepts(struct grammar *g, struct text t, struct err *e)
{
    struct grammar_state s = grammar_begin(g);
    const size_t n = grammar_text(g, &s, t);
    return (n == t.n && grammar_may_end(g, &s)) || err_set(e, "it differs from what was asked for from byte %zu on", n);
}

bool form_check(const struct form *f, struct text answer, struct err *e)
{
    struct form loose = *f;
    struct err why = {{0}};
    if (f->kind == FORM_ANY || f->kind == FORM_CALLS)
        return true;
    loose.loose = true;                 /* what cannot be enforced can still be checked */
    struct grammar *g = form_grammar(&loose, &why);
    if (!g)
        return err_set(e, "it cannot be checked: %s", why.msg);
    const bool json = f->kind == FORM_JSON || f->kind == FORM_SCHEMA;
    const bool ok = json ? grammar_check(g, text_trim(answer), e) : accepts(g, answer, e);
    grammar_release(g);
    return ok;
}

/* ---- worded ---- */

enum { MOST_WORDS = 32 << 10 };
#define INSTRUCTION_TOOLS "You may call tools before you answer.  The answer itself:\n"

static bool find_caseless(struct text in, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= in.n; i++)
        if (!strncasecmp(in.p + i, word, n))
            return true;
    return false;
}

/* True if some message of the user or system has the text. */
static bool is_in(const struct message *m, int n, struct text t)
{
    for (int i = 0; i < n; i++) {
        const bool asks = m[i].role == ROLE_USER || m[i].role == ROLE_SYSTEM;
        if (asks && t.n && m[i].content.n >= t.n && memmem(m[i].content.p, m[i].content.n, t.p, t.n))
            return true;
    }
    return false;
}

static bool has_word_json(const struct message *m, int n)
{
    for (int i = 0; i < n; i++)
        if ((m[i].role == ROLE_USER || m[i].role == ROLE_SYSTEM) && find_caseless(m[i].content, "json"))
            return true;
    return false;
}

/* True if the messages have the quoted names of all properties; a schema without properties must be there itself. */
static bool has_schema(const struct message *m, int n, const struct pyjson *schema, const struct buf *compact)
{
    const struct pyjson *properties = pyjson_get(schema, "properties");
    bool all = properties && properties->kind == PY_DICT && properties->n;
    for (size_t i = 0; all && i < properties->n; i++) {
        struct buf name = {0};
        pyjson_quote(properties->keys[i], &name);
        all = is_in(m, n, (struct text){name.data, name.len});
        buf_free(&name);
    }
    return all || is_in(m, n, (struct text){compact->data, compact->len});
}

static bool has_choices(const struct form *f, const struct message *m, int n)
{
    for (int i = 0; i < f->n_choices; i++)
        if (!is_in(m, n, f->choices[i]))
            return false;
    return true;
}

/* Appends the schema on one line.  False: it is no JSON, or the messages have it already. */
static bool add_schema(const struct form *f, const struct message *m, int n, struct buf *out)
{
    struct arena tmp = {0};
    struct pyjson schema;
    struct buf compact = {0};
    bool add = pyjson_parse(&schema, f->text, PYJSON_LOADS, &tmp, NULL);
    if (add)
        pyjson_dump(&schema, &compact);
    add = add && !has_schema(m, n, &schema, &compact);
    if (add)
        buf_add(out, compact.data, compact.len);
    buf_free(&compact);
    arena_free(&tmp);
    return add;
}

/* Appends what the messages lack to know the form.  False: nothing, or too much. */
static bool add_words(const struct form *f, const struct message *m, int n, bool tools, struct buf *out)
{
    static const char *const words[FORM_CALLS + 1] = {
#define INSTRUCTION(kind, text) [FORM_##kind] = text,
#include "config/instructions.def"
    };
    bool add = words[f->kind] && f->text.n <= MOST_WORDS;
    if (!add)
        return false;
    buf_adds(out, tools ? INSTRUCTION_TOOLS : "");
    buf_adds(out, words[f->kind]);
    if (f->kind == FORM_JSON)
        add = !has_word_json(m, n);
    if (f->kind == FORM_SCHEMA)
        add = add_schema(f, m, n, out);
    if (f->kind == FORM_PATTERN)
        add = !is_in(m, n, f->text);
    if (f->kind == FORM_PATTERN)
        buf_add(out, f->text.p, f->text.n);
    if (f->kind == FORM_CHOICES)
        add = !has_choices(f, m, n);
    for (int i = 0; f->kind == FORM_CHOICES && i < f->n_choices; i++)
        buf_addf(out, "\n%.*s", (int)f->choices[i].n, f->choices[i].p);
    return add && out->len <= MOST_WORDS;
}

const struct message *form_worded(const struct form *f, const struct message *m, int n, bool tools, struct arena *mem)
{
    struct buf words = {0};
    int last = n - 1;
    while (last >= 0 && (m[last].role != ROLE_USER || m[last].aside))
        last--;
    if (last >= 0 && add_words(f, m, n, tools, &words)) {
        struct message *all = arena_array(mem, (size_t)n, sizeof *all);
        const struct text before = m[last].content;
        memcpy(all, m, (size_t)n * sizeof *all);
        char *text = arena_alloc(mem, before.n + 2 + words.len);
        memcpy(text, before.p ? before.p : "", before.n);
        memcpy(text + before.n, "\n\n", 2);
        memcpy(text + before.n + 2, words.data, words.len);
        all[last].fleeting = true;
        all[last].content = (struct text){text, before.n + 2 + words.len};
        m = all;
    }
    buf_free(&words);
    return m;
}

struct form form_of_choices(struct text list, struct arena *mem)
{
    struct form f = {.kind = FORM_CHOICES};
    struct text *all = arena_array(mem, list.n + 1, sizeof *all);
    struct pyjson v = {0};
    if (pyjson_parse(&v, list, PYJSON_LOADS, mem, NULL) && v.kind == PY_LIST) {
        bool texts = v.n > 0;
        for (size_t i = 0; i < v.n; i++) {
            texts &= v.items[i].kind == PY_STR;
            all[i] = v.items[i].text;
        }
        if (texts)
            return (struct form){.kind = FORM_CHOICES, .choices = all, .n_choices = (int)v.n};
    }
    for (size_t from = 0, i = 0; i <= list.n; i++)
        if (i == list.n || list.p[i] == ',') {
            all[f.n_choices++] = text_trim((struct text){list.p + from, i - from});
            from = i + 1;
        }
    f.choices = all;
    return f;
}
