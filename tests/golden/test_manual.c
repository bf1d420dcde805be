/* The tables of docs/q35chat.1 and of docs/serve-reference.md are those of config and of the subcommands.  They are between `.\" table NAME` and
 * `.\" end`, in Markdown between `<!-- table NAME -->` and `<!-- end -->`; `make manual` writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/err.h"
#include "option/options.h"
#include "ui/process.h"
#include "ui/subcommand.h"

/* Text that roff takes as it is. */
static void add_text(struct buf *out, const char *s)
{
    for (; *s; s++) {
        const char *as = *s == '\\' ? "\\e" : *s == '-' ? "\\-" : *s == '^' ? "\\(ha" : *s == '~' ? "\\(ti" : *s == '`' ? "\\(ga"
                         : *s == '\'' ? "\\(aq" : NULL;
        if (as)
            buf_adds(out, as);
        else
            buf_addc(out, *s);
    }
}

static void add_flag(struct buf *out, const char *before, const char *key)
{
    buf_addf(out, "\\fB%s", before);
    for (const char *p = key; *p; p++)
        buf_adds(out, *p == '_' || *p == '-' ? "\\-" : (char[]){*p, 0});
    buf_adds(out, "\\fR");
}

static void rows_begin(struct buf *out)
{
    buf_adds(out, ".sp\n.PD 0\n");
}

/* Lines of text of at most 80 bytes, as mandoc likes it.  A tag is one line, of any length: the next line would be its text. */
static void fold(struct buf *out, const char *text)
{
    bool tag = false;
    for (const char *end; *text; text = end) {
        size_t n = strcspn(text, "\n"), cut = 79;
        const bool keep = tag || *text == '.';
        tag = !strncmp(text, ".TP", 3);
        end = text + n + (text[n] == '\n');
        for (; !keep && n > 80; cut = 79) {
            while (cut && (text[cut] != ' ' || text[cut + 1] == '.'))
                cut--;
            assert_true(cut);
            buf_add(out, text, cut);
            buf_addc(out, '\n');
            text += cut + 1;
            n -= cut + 1;
        }
        buf_add(out, text, (size_t)(end - text));
    }
}

static void rows_end(struct buf *out)
{
    buf_adds(out, ".PD\n");
}

/* --- the tables ---------------------------------------------------------------------------------------------------- */

static void option(struct buf *out, const struct option_about *o)
{
    bool switched = !o->arg;
    buf_adds(out, ".TP\n");
    if (o->letter)
        buf_addf(out, "\\fB\\-%c\\fR, ", o->letter);
    add_flag(out, "\\-\\-", o->key);
    if (o->arg) {
        buf_adds(out, o->choices ? " " : " \\fI");
        add_text(out, o->arg);
        buf_adds(out, o->choices ? "" : "\\fR");
    }
    if ((switched || o->can_be_off) && !strcmp(o->standard, "on"))
        add_flag(out, ", \\-\\-no\\-", o->key);
    buf_addc(out, '\n');
    add_text(out, o->help);
    const char *comma = " (";
    if (o->min != o->max) {
        char low[32], high[32];
        snprintf(low, sizeof low, "%.10g", o->min);
        snprintf(high, sizeof high, "%.10g", o->max);
        buf_adds(out, comma);
        add_text(out, low);
        buf_addf(out, " to %s", high);
        comma = "; ";
    }
    if (*o->standard && !(o->flag_only && switched)) {
        buf_addf(out, "%sdefault ", comma);
        add_text(out, o->standard);
        comma = "; ";
    }
    const char *where = o->flag_only ? "command line only" : o->start_only ? "not for /set" : NULL;
    if (where) {
        buf_addf(out, "%s%s", comma, where);
        comma = "; ";
    }
    buf_adds(out, comma[0] == ';' ? ")\n" : "\n");
}

static void options(struct buf *out)
{
    struct option_about o;
    for (int id = 0; options_about((enum option_id)id, &o); id++)
        option(out, &o);
}

static void commands(struct buf *out)
{
    static const struct { const char *name, *arg, *help; } all[] = {
#define COMMAND(name, arg, completion, help) {#name, arg, help},
#include "config/commands.def"
    };
    static const struct { const char *name, *command; } others[] = {
#define ALIAS(name, command) {#name, #command},
#include "config/commands.def"
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf_addf(out, ".TP 26\n\\fB/%s\\fR", all[i].name);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (!strcmp(others[k].command, all[i].name))
                buf_addf(out, ", \\fB/%s\\fR", others[k].name);
        buf_adds(out, *all[i].arg ? " \\fI" : "");
        add_text(out, all[i].arg);
        buf_adds(out, *all[i].arg ? "\\fR\n" : "\n");
        add_text(out, all[i].help);
        buf_addc(out, '\n');
    }
}

struct key { const char *context, *key, *action, *help; };

static const struct key all_keys[] = {
#define KEY(context, key, action, help) {#context, key, #action, help},
#include "config/keys.def"
};
enum { N_KEYS = sizeof all_keys / sizeof *all_keys };

/* All keys of a row's action where it is, in the row's place. */
static void key_row(struct buf *out, const struct key *row)
{
    buf_adds(out, ".TP 26\n\\fB");
    add_text(out, row->key);
    for (int i = 0; i < N_KEYS; i++)
        if (&all_keys[i] != row && !*all_keys[i].help && !strcmp(all_keys[i].context, row->context) && !strcmp(all_keys[i].action, row->action)) {
            buf_adds(out, "\\fR, \\fB");
            add_text(out, all_keys[i].key);
        }
    buf_adds(out, "\\fR\n");
    add_text(out, row->help);
    buf_addc(out, '\n');
}

static void keys(struct buf *out)
{
    static const struct { const char *context, *title; } places[] = {
#define CONTEXT(name, characters, title, manual) {#name, manual},
#include "config/contexts.def"
    };
    int told = 0;
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        buf_addf(out, ".PD\n.SS %s\n.PD 0\n", places[p].title);
        for (int i = 0; i < N_KEYS; i++) {
            bool here = !strcmp(all_keys[i].context, places[p].context);
            told += here;
            if (here && *all_keys[i].help)
                key_row(out, &all_keys[i]);
        }
    }
    rows_end(out);
    assert_int_equal(told, N_KEYS);
}

static void presets(struct buf *out)
{
    static const struct {
        const char *name;
        int top_k;
#define SAMPLING_NUMBER(name, ...) float name;
#include "config/sampling_numbers.def"
    } all[] = {
#define PRESET(name, ...) {#name, __VA_ARGS__},
#include "config/sampling.def"
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf_addf(out, ".TP 12\n\\fB%s\\fR\n", all[i].name);
#define SAMPLING_NUMBER(name, ...) buf_addf(out, #name " %g, ", (double)all[i].name);
#include "config/sampling_numbers.def"
        buf_addf(out, "top_k %d\n", all[i].top_k);
    }
}

static void recipes(struct buf *out)
{
    static const struct { const char *name, *help; } all[] = {
#define KV(name, type, keys, values, sinks, recent, help) {name, help},
#include "config/kv_recipes.def"
#undef KV
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buf_addf(out, ".TP 12\n\\fB%s\\fR\n%s\n", all[i].name, all[i].help);
}

static void themes(struct buf *out)
{
    static const struct { const char *name, *help; } all[] = {
#define THEME(id, name, help) {name, help},
#include "config/theme.def"
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf_adds(out, ".TP 16\n");
        add_flag(out, "", all[i].name);
        buf_addc(out, '\n');
        add_text(out, all[i].help);
        buf_addc(out, '\n');
    }
}

static void languages(struct buf *out)
{
    static const char *const all[] = {
#define LANGUAGE(name, ...) name,
#include "config/syntax.def"
    };
    enum { N = sizeof all / sizeof *all };
    for (int i = 0; i < N; i++)
        buf_addf(out, "%s%s\n", all[i], i + 2 == N ? " and" : i + 1 == N ? "." : ",");
}

static void sub_flag(struct buf *out, const struct sub_row *f)
{
    buf_adds(out, ".TP 26\n");
    add_flag(out, "\\-\\-", f->name);
    if (f->arguments) {
        buf_adds(out, f->type == VALUE_CHOICE ? " " : " \\fI");
        add_text(out, f->arguments);
        buf_adds(out, f->type == VALUE_CHOICE ? "" : "\\fR");
    }
    buf_addc(out, '\n');
    add_text(out, f->help);
    if (!f->standard)
        buf_adds(out, " (must be given)");
    else if (f->min != f->max)
        buf_addf(out, " (%.10g to %.10g)", f->min, f->max);
    else if (*f->standard && f->arguments)
        buf_addf(out, " (default %s)", f->standard);
    buf_addc(out, '\n');
}

/* Every command with its options; what all of a group share stands once, behind them. */
static void subcommands(struct buf *out, const char *group)
{
    const struct sub_row *g = NULL, *f;
    while ((g = sub_next(g, SUB_GROUP)) && strcmp(g->name, group))
        ;
    assert_non_null(g);
    for (const struct sub_row *c = g; (c = sub_next(c, SUB_COMMAND));) {
        buf_addf(out, ".TP\n\\fBq35chat %s %s\\fR", g->name, c->name);
        buf_adds(out, *c->arguments ? " \\fI" : "");
        add_text(out, c->arguments);
        buf_adds(out, *c->arguments ? "\\fR\n" : "\n");
        add_text(out, c->help);
        buf_adds(out, "\n");
        if (c[1].kind == SUB_FLAG)
            buf_adds(out, ".RS\n");
        for (f = c + 1; f->kind == SUB_FLAG; f++)
            sub_flag(out, f);
        if (c[1].kind == SUB_FLAG)
            buf_adds(out, ".RE\n");
    }
    if (g[1].kind == SUB_FLAG)
        buf_adds(out, ".PD\n.PP\nOptions of all of them:\n.sp\n.PD 0\n");
    for (f = g + 1; f->kind == SUB_FLAG; f++)
        sub_flag(out, f);
}

static const struct { int number; const char *meaning; } all_exits[] = {
#define EXIT_ROW(number, name, meaning) {number, meaning},
    EXITS(EXIT_ROW)
};
enum { N_EXITS = sizeof all_exits / sizeof *all_exits };

static void exits(struct buf *out)
{
    for (int i = 0; i < N_EXITS; i++) {
        buf_addf(out, ".TP 8\n\\fB%d\\fR\n", all_exits[i].number);
        add_text(out, all_exits[i].meaning);
        buf_addc(out, '\n');
    }
}

static void session(struct buf *out) { subcommands(out, "session"); }
static void model(struct buf *out) { subcommands(out, "model"); }
static void bench(struct buf *out) { subcommands(out, "bench"); }
static void serve(struct buf *out) { subcommands(out, "serve"); }
static void debug(struct buf *out) { subcommands(out, "debug"); }

/* --- tables in Markdown ----------------------------------------------------------------------------------------------- */

enum { CHAT, PLAIN, BOTH };

/* "a b" -> "`a`, `b`" */
static void add_names(struct buf *out, const char *names)
{
    for (; *names; names++)
        if (*names == ' ')
            buf_adds(out, "`, `");
        else
            buf_addc(out, *names);
}

static void field(struct buf *out, const char *names, int where, const char *value, const char *words)
{
    static const char *const places[] = {[CHAT] = "chat", [PLAIN] = "completions", [BOTH] = "both"};
    buf_adds(out, "| `");
    add_names(out, names);
    buf_addf(out, "` | %s | ", places[where]);
    if (*value)
        buf_addf(out, "must be `%s`: ", value);
    buf_addf(out, "%s |\n", words);
}

static void fields_done(struct buf *out)
{
    buf_adds(out, "| field | in | what it does |\n| --- | --- | --- |\n");
#define DONE(names, where, words) field(out, names, where, "", words);
#include "config/request_fields.def"
}

static void fields_ignored(struct buf *out)
{
    buf_adds(out, "| field | in | why it changes nothing |\n| --- | --- | --- |\n");
#define IGNORED(names, where, words) field(out, names, where, "", words);
#include "config/request_fields.def"
}

static void fields_refused(struct buf *out)
{
    buf_adds(out, "| field | in | why |\n| --- | --- | --- |\n");
#define REFUSED(...) field(out, __VA_ARGS__);
#include "config/request_fields.def"
}

static void effort(struct buf *out, const char *name, bool thinks, int budget)
{
    buf_addf(out, "| `%s` | %s | ", name, thinks ? "on" : "off");
    if (budget)
        buf_addf(out, "%d tokens |\n", budget);
    else
        buf_adds(out, thinks ? "`think_budget` of the config file |\n" : "|\n");
}

static void efforts(struct buf *out)
{
    buf_adds(out, "| value | reasoning | at most |\n| --- | --- | --- |\n");
#define EFFORT(...) effort(out, __VA_ARGS__);
#include "config/efforts.def"
}

/* A row of /v1/messages or /v1/responses. */
static void messages_field(struct buf *out, const char *names, const char *kind, const char *words)
{
    buf_adds(out, "| `");
    add_names(out, names);
    buf_addf(out, "` | %s | %s |\n", kind, words);
}

static void messages(struct buf *out)
{
    buf_adds(out, "| field | is | how, or why |\n| --- | --- | --- |\n");
#define DONE(names, words) messages_field(out, names, "read", words);
#define IGNORED(names, words) messages_field(out, names, "ignored", words);
#define REFUSED(names, value, words) messages_field(out, names, "refused", words);
#include "config/messages_fields.def"
}

static void responses(struct buf *out)
{
    buf_adds(out, "| field | is | how, or why |\n| --- | --- | --- |\n");
#define DONE(names, words) messages_field(out, names, "read", words);
#define IGNORED(names, words) messages_field(out, names, "ignored", words);
#define REFUSED(names, value, words) messages_field(out, names, "refused", words);
#include "config/responses_fields.def"
}

static const char *place_of(int where)
{
    return where == CHAT ? "chat" : where == PLAIN ? "generate" : "both";
}

static void ollama_field(struct buf *out, const char *names, int where, const char *kind, const char *words)
{
    buf_adds(out, "| `");
    add_names(out, names);
    buf_addf(out, "` | %s | %s | %s |\n", place_of(where), kind, words);
}

static void ollama(struct buf *out)
{
    buf_adds(out, "| field | in | is | how, or why |\n| --- | --- | --- | --- |\n");
#define DONE(names, where, words) ollama_field(out, names, where, "read", words);
#define IGNORED(names, where, words) ollama_field(out, names, where, "ignored", words);
#define REFUSED(names, where, value, words) ollama_field(out, names, where, *(value) ? "refused unless " value : "refused", words);
#include "config/ollama_fields.def"
}

struct table { const char *name; void (*write)(struct buf *out); bool rows; };

static const struct table markdown_tables[] = {
    {"fields", fields_done, false}, {"ignored", fields_ignored, false}, {"refused", fields_refused, false}, {"messages", messages, false},
    {"responses", responses, false}, {"ollama", ollama, false},
    {"efforts", efforts, false},
};

static const struct table tables[] = {
    {"options", options, false}, {"commands", commands, true}, {"keys", keys, false}, {"presets", presets, true}, {"recipes", recipes, true},
    {"themes", themes, true}, {"languages", languages, false}, {"session", session, true}, {"model", model, true}, {"bench", bench, true},
    {"serve", serve, true}, {"debug", debug, true},
    {"exits", exits, true},
};

/* --- the pages ----------------------------------------------------------------------------------------------------- */

static const struct page {
    const char *path, *begin, *end, *name_end;
    const struct table *tables;
    int n;
    bool folds;
} pages[] = {
    {"docs/q35chat.1", ".\\\" table ", ".\\\" end\n", "\n", tables, sizeof tables / sizeof *tables, true},
    {"docs/serve-reference.md", "<!-- table ", "<!-- end -->\n", " -->\n", markdown_tables, sizeof markdown_tables / sizeof *markdown_tables, false},
};

static void write_table(const struct page *p, const char *name, size_t len, struct buf *out)
{
    struct buf table = {0};
    int i = 0;
    while (i < p->n && (strlen(p->tables[i].name) != len || strncmp(p->tables[i].name, name, len)))
        i++;
    assert_true(i < p->n);
    if (p->tables[i].rows)
        rows_begin(&table);
    p->tables[i].write(&table);
    if (p->tables[i].rows)
        rows_end(&table);
    if (p->folds)
        fold(out, table.data);
    else
        buf_adds(out, table.data);
    buf_free(&table);
}

/* Copies the page with every table as it should be. */
static void renew(const struct page *p, const char *text, struct buf *out)
{
    int found = 0;
    for (const char *at; (at = strstr(text, p->begin)); found++) {
        const char *name = at + strlen(p->begin), *name_end = strstr(name, p->name_end), *close = strstr(name, p->end);
        assert_true(name_end && close);
        const char *line = name_end + strlen(p->name_end);
        buf_add(out, text, (size_t)(line - text));
        write_table(p, name, (size_t)(name_end - name), out);
        buf_adds(out, p->end);
        text = close + strlen(p->end);
    }
    buf_adds(out, text);
    assert_int_equal(found, p->n);
}

static void test_manual__its_tables_are_those_of_the_program(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        struct buf page = {0}, wanted = {0};
        struct err e = {0};
        assert_true(file_read(&page, pages[i].path, 1 << 20, &e));
        renew(&pages[i], page.data, &wanted);
        if (getenv("WRITE_MANUAL"))
            assert_true(file_replace(pages[i].path, wanted.data, wanted.len));
        else if (strcmp(page.data, wanted.data))
            fail_msg("%s has old tables: make manual writes them", pages[i].path);
        buf_free(&page);
        buf_free(&wanted);
    }
}

/* docs/pipes.md has the same statuses. */
static void test_manual__the_page_about_pipes_has_every_exit_status(void **state)
{
    struct buf page = {0}, row = {0};
    struct err e = {0};
    (void)state;
    assert_true(file_read(&page, "docs/pipes.md", 1 << 20, &e));
    for (int i = 0; i < N_EXITS; i++) {
        buf_reset(&row);
        buf_addf(&row, "\n| %d | %s |\n", all_exits[i].number, all_exits[i].meaning);
        if (!strstr(page.data, row.data))
            fail_msg("docs/pipes.md lacks the row %s", row.data);
    }
    buf_free(&page);
    buf_free(&row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manual__the_page_about_pipes_has_every_exit_status),
        cmocka_unit_test(test_manual__its_tables_are_those_of_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
