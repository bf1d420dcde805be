/* Output of tools, and the [tool NAME] sections that define them.  Real children print bytes of any kind and end in every way: the result is
 * text, begins with what they printed, and shows how they ended.  Sections are changed at random: a tool that is offered has a schema in JSON, and
 * its command, as it is shown, is the same command. */
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/unicode.h"
#include "tool/tool.h"
#include "tests/fuzz/mutate.h"
#include "tests/tmpdir.h"

static struct tmpdir dir;
static char path[96];

static int make_dir(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s", tmpdir_make(&dir) ? dir.path : "");
    snprintf(path, sizeof path, "%s/conf", dir.path);
    return !*dir.path;
}

static int drop_dir(void **state)
{
    (void)state;
    tmpdir_drop(&dir, "conf");
    tmpdir_remove(&dir);
    return 0;
}

/* ---- output ---- */

enum { SHORT = 300 };
static const char tools_conf[] =
    "[tool well]\ncommand = cat\n[tool fails]\ncommand = sh -c 'cat; exit 3'\n[tool killed]\ncommand = sh -c 'cat; kill -9 $$'\n"
    "[tool other]\ncommand = sh -c 'cat >&2'\n[tool short]\ncommand = cat\nmax_output = 300\n"
    "[tool hangs]\ncommand = sh -c 'cat; exec sleep 60'\n";
static const struct { const char *name, *outcome; } kinds[] = {
    {"well", ""}, {"other", ""}, {"fails", "exit 3"}, {"killed", "signal 9"}, {"short", ""}, {"hangs", "signal 2"},
};
static const char *const outputs[] = {
    "one line", "two\nlines\n\n", "", " \n\t", "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xf0\x9f\x99\x82", "{\"x\": [1, 2]}\r\n",
    "\x1b[31mred\x1b[0m \x1b]52;c;eA==\a",
};

/* Returns the output of a tool as text.  Drops zero bytes at the end, too: strchr() finds them. */
static void make_text(const struct buf *printed, struct buf *text)
{
    buf_reset(text);
    unicode_replace(text, buf_str(printed), printed->len);
    while (text->len && strchr(" \t\r\n", text->data[text->len - 1]))
        text->data[--text->len] = 0;
}

static const char *check_result(uint32_t kind, const struct buf *printed, const struct buf *result)
{
    struct buf text = {0};
    char outcome[TOOL_OUTCOME];
    const char *wrong = NULL;
    const bool cut = !strcmp(kinds[kind].name, "short") && printed->len > SHORT, well = !*kinds[kind].outcome;
    const struct buf kept = {.data = printed->data, .len = cut ? unicode_complete(buf_str(printed), SHORT) : printed->len};
    make_text(&kept, &text);
    if (!well && text.len >= 3 && !memcmp(text.data + text.len - 3, "\xEF\xBF\xBD", 3)
        && (result->len < text.len || memcmp(buf_str(result), buf_str(&text), text.len))) {
        text.len -= 3;                  /* a part of a character at the end may be left out when a limit ends the tool */
        while (text.len && strchr(" \t\r\n", text.data[text.len - 1]))
            text.len--;
    }
    const char *rest = buf_str(result) + (text.len < result->len ? text.len : result->len);
    if (!unicode_valid(buf_str(result), result->len) || !result->len)
        wrong = "a result is no text";
    else if (result->len < text.len || memcmp(buf_str(result), buf_str(&text), text.len))
        wrong = "a result does not begin with what was printed";
    else if (!cut && well && text.len && result->len != text.len)
        wrong = "the result of a tool that ended well has more than it printed";
    else if (!cut && (!well || !text.len) && (rest[text.len > 0] != '[' || strchr(rest + (text.len > 0), '\n')))
        wrong = "a result does not end with a line of its own about the end";
    else if (cut && strcmp(rest + (text.len > 0), "[ended: more than 300 bytes of output]"))
        wrong = "the result of a tool that printed too much does not show it";
    tool_outcome(buf_str(result), result->len, outcome);
    if (!wrong && !cut && !memchr(buf_str(printed), '[', printed->len) && strcmp(outcome, kinds[kind].outcome))
        wrong = "a call is shown as one that ended in another way";
    buf_free(&text);
    return wrong;
}

/* Bytes that tool_output() shows of all that was printed: without a part of a character, then without white space and zero bytes at the end. */
static size_t shown_bytes(const struct buf *b)
{
    size_t n = unicode_complete(buf_str(b), b->len);
    while (n && strchr(" \t\r\n", b->data[n - 1]))
        n--;
    return n;
}

static const char *run_tool(struct tools *tools, uint32_t kind, const struct buf *printed)
{
    struct buf result = {0};
    struct err e = {{0}};
    const char *wrong = NULL;
    size_t n = 0, shown = 0;
    bool closed = false;
    const size_t whole = shown_bytes(printed);
    struct tool_run *r = tool_start(tools_find(tools, kinds[kind].name), buf_str(printed), printed->len, &e);
    if (!r)
        return "a tool cannot be started";
    while (!tool_step(r, &result)) {
        const char *so_far = tool_output(r, &n);
        if (n < shown || n > printed->len || memcmp(so_far, buf_str(printed), n))
            wrong = "what a tool has printed so far is something else";
        shown = n;
        if (n == whole && !strcmp(kinds[kind].name, "hangs"))
            tool_interrupt(r);          /* it would go on for a minute */
        if ((closed = one_in(400)))
            break;                      /* while it runs */
        struct pollfd fds[TOOL_MAX_FDS];
        poll(fds, (nfds_t)tool_fds(r, fds), TOOL_TICK_MS);
    }
    tool_close(r);
    wrong = wrong || closed ? wrong : check_result(kind, printed, &result);
    if (wrong)
        print_message("%s: %s\n", kinds[kind].name, buf_str(&result));
    buf_free(&result);
    return wrong;
}

static void test_tool__any_output_becomes_text_that_shows_how_the_call_ended(void **state)
{
    struct buf b = {0};
    struct long_run run;
    struct err e;
    struct options *o = options_open();
    (void)state;
    assert_true(tmpdir_put(&dir, "conf", tools_conf, sizeof tools_conf - 1) && options_read_file(o, path, &e));
    struct tools *tools = tools_open(o, &e);
    assert_true(tools && tools_offer(tools, "all", &e));
    for (run = long_run_begin(1, 1); next_input(&run);) {
        const uint32_t kind = rnd(COUNT(kinds));
        buf_reset(&b);
        for (uint32_t n = rnd(one_in(4) ? 200 : 4); n; n--)
            buf_adds(&b, ANY(outputs));
        mutate(&b, odd_bytes, COUNT(odd_bytes), ANY(outputs));
        const char *wrong = run_tool(tools, kind, &b);
        if (wrong)
            fail_input(&run, wrong, buf_str(&b), b.len);
    }
    long_run_print(&run, run.n, "calls");
    tools_close(tools);
    options_close(o);
    buf_free(&b);
}

/* ---- sections ---- */

static const char *const sections[] = {
    "[tool disk]\ndescription = Free space \"here\"\ncommand = df -h /\ntimeout_s = 5\nmax_output = 1000\n",
    "[tool run]\ncommand = sh -c 'echo \"$1\" \\\\ x' a\\ b \"c d\" ''\n"
    "parameters = {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"integer\"}}}\nenv = A,B\n",
    "[tool x-y_2]\ncommand = \"a\\\"b\" 'c'\\''d'\nmax_memory_mb = 100\nmax_processes = 5\n"
    "max_file_mb = 1\nmax_files = 10\n[tool z]\ncommand = true\n",
};
static const char *const section_words[] = {
    "'", "\"", "\\", "''", "\"\"", "\\\\", "\\'", " ", "\t", "\n    ", "$x", "`", ";", " ;", "#", "command = ", "parameters = {}", "[tool ", "]",
    "clock", "all", "none", "a ",
    "description = ", "\xc3\xa9", "\xff", "{}", "[1]",
};

/* The words that a tool's command is shown as. */
static void shown_command(const struct tool *t, struct buf *out)
{
    static const char runs[] = "runs ", in[] = "\nin ";
    buf_reset(out);
    tool_command(t, out);
    char *end = out->len ? memmem(out->data, out->len, in, strlen(in)) : NULL;
    for (char *next = end; next; next = memmem(next + 1, (size_t)(out->data + out->len - next - 1), in, strlen(in)))
        end = next;
    if (end)
        out->len = (size_t)(end - out->data);
    buf_consume(out, out->len >= strlen(runs) ? strlen(runs) : out->len);
    if (out->data)
        out->data[out->len] = 0;
}

/* Makes a tool of the command that is shown of another one; NULL: that text does not come out of a config file as it went in. */
static const char *same_command(const char *command)
{
    struct options *o = options_open();
    struct buf conf = {0}, again = {0};
    struct err e;
    const char *wrong = NULL;
    buf_addf(&conf, "[tool t]\ncommand = %s\n", command);
    assert_true(tmpdir_put(&dir, "conf", conf.data, conf.len));
    if (options_read_file(o, path, &e) && options_n_tools(o) == 1 && options_tool(o, 0)->command && !strcmp(options_tool(o, 0)->command, command)) {
        struct tools *tools = tools_open(o, &e);
        if (!tools || !tools_offer(tools, "t", &e))
            wrong = "a command as it is shown is refused";
        else if (shown_command(tools_find(tools, "t"), &again), strcmp(buf_str(&again), command))
            wrong = "a command as it is shown is another one";
        tools_close(tools);
    }
    options_close(o);
    buf_free(&conf);
    buf_free(&again);
    return wrong;
}

/* Rules for tools that run without a question. */
static const char *check_policy(struct tools *tools, const char *policy)
{
    struct err e = {{0}};
    struct buf all = {0};
    const struct tool *clock = tools_find(tools, "clock");
    const char *wrong = NULL;
    if (!tools_check_policy(tools, policy, &e))
        return *e.msg ? NULL : "a policy is refused without a reason";
    const enum tool_approval is = tool_approval(clock, policy);
    if (!strcmp(policy, "never") ? is != TOOL_DENY : !strcmp(policy, "ask") ? is != TOOL_ASK : is != TOOL_RUN)
        wrong = "a policy means something else for a built-in tool";
    tools_names(tools, true, &all);
    tools_list(tools, &all);
    if (!strstr(all.data, "clock"))
        wrong = "the list of tools lacks one";
    buf_free(&all);
    return wrong;
}

static const char *check_tools(struct tools *tools, const struct options *o)
{
    struct buf command = {0};
    struct err e;
    const char *wrong = NULL;
    int n;
    if (!tools_offer(tools, "all", &e))
        return "not all tools can be offered";
    static const char *const policies[] = {"auto", "ask", "always", "never", "clock", "clock,disk", "calculator clock", "nobody", ""};
    const struct text *all = tools_schemas(tools, &n);
    wrong = check_policy(tools, ANY(policies));
    for (int i = 0; i < n && !wrong; i++) {
        json_t *v = json_loadb(all[i].p, all[i].n, 0, NULL);
        const json_t *f = json_object_get(v, "function");
        const char *name = json_string_value(json_object_get(f, "name"));
        if (!name || !tools_find(tools, name) || !json_is_object(json_object_get(f, "parameters")))
            wrong = "a tool has no schema";
        json_decref(v);
    }
    for (int i = 0; i < options_n_tools(o) && !wrong; i++) {
        const struct tool *t = tools_find(tools, options_tool(o, i)->name);
        if (!t)
            return "a tool of the file is not offered";
        shown_command(t, &command);
        wrong = command.len ? same_command(command.data) : "a tool has no command";
    }
    buf_free(&command);
    return wrong;
}

static void test_tool__any_section_is_refused_or_gives_a_tool_that_is_shown_as_it_is(void **state)
{
    struct buf b = {0};
    struct long_run run;
    long n_tools = 0;
    (void)state;
    for (run = long_run_begin(1, 1); next_input(&run);) {
        struct options *o = options_open();
        struct err e = {{0}};
        const char *wrong = NULL;
        buf_reset(&b);
        buf_adds(&b, ANY(sections));
        mutate(&b, section_words, COUNT(section_words), ANY(sections));
        assert_true(tmpdir_put(&dir, "conf", buf_str(&b), b.len));
        struct tools *tools = options_read_file(o, path, &e) ? tools_open(o, &e) : NULL;
        if (!tools && !*e.msg)
            wrong = "a section is refused without a reason";
        if (tools)
            wrong = check_tools(tools, o);
        n_tools += tools != NULL;
        tools_close(tools);
        options_close(o);
        if (wrong)
            fail_input(&run, wrong, buf_str(&b), b.len);
    }
    long_run_print(&run, run.n, "files");
    print_message("%ld with tools\n", n_tools);
    assert_true(n_tools > 0 || getenv("FUZZ_ONE"));
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tool__any_output_becomes_text_that_shows_how_the_call_ended),
        cmocka_unit_test(test_tool__any_section_is_refused_or_gives_a_tool_that_is_shown_as_it_is),
    };
    return cmocka_run_group_tests_name("tool fuzz", tests, make_dir, drop_dir);
}
