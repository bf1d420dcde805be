/* Drafts change no answer: 200 prompts of the demo model say the same with every number of drafts, with as many as pay, and with drafts looked
 * up in the text.  A whole chat answers, so stop strings and penalties are among them; every token is compared, and what else was likely at
 * its place to the last bit.  LONG=1 lets all answers go on for 160 tokens; BACKEND=cuda asks a GPU; HEAD=planes takes that head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buf.h"
#include "chat/chat.h"
#include "responder/local.h"
#include "tests/emulated.h"

/* ---- 200 prompts: {a} and {b} are numbers, {w} and {v} words ---- */

static const char *const forms[] = {
    "What is {a} + {b}?", "{a} - {b}", "Add {a}, {b} and {a}", "Which is larger, {a} or {b}?", "Count from {b} to {a}.",
    "What is the opposite of {w}?", "Spell {w}", "Say {w} 9 times", "Repeat after me: {w} {v} {w} {v} {w} {v} {w} {v}",
    "Write a JSON object with name {w} and age {b}.", "Give me a JSON array with {w}, {v}, {w}, {v}, {w}, {v}", "Make a list of {w}, {v} and {w}",
    "What does {w} mean?", "My name is {w}. What is my name?", "Hello, I am {w}, and this is {v}.", "Tell me about yourself, {w}.",
    "Repeat after me: {w} {w} {w} {w} {w} {w} {w} {w} {w} {w} {w}", "Repeat after me: {w} {v} {w} {v} {w} {v} {w} {v} {w} {v} {w} {v}",
    "Tell me a story of {w} {v}.", "What is the capital of {w}?",
    /* such as it was not trained on: few drafts are right */
    "Explain to somebody who knows {v} how {w} is made, in {b} steps.", "#include <{w}.h>\nint {v}[{a}];\nWhat is wrong here?",
    "{w}, {w}, {v}: {a}. {v}, {v}, {w}: {b}. And so on:", "Ein {w} und {a} {v}, bitte.", "{v} {w} {v} {w} {b} {a} {b} {a}",
    "Which of {a} {w}s would a {v} take if {b} of them were {v}s?", "(({a} * {b}) / {w}) ^ {v}",
};
static const char *const words[] = {"cold", "Anna", "apple", "France", "window", "memory", "blue", "Otto", "river", "late"};
enum { FORMS = sizeof forms / sizeof *forms, WORDS = sizeof words / sizeof *words, PROMPTS = 200, TRIED = SANITIZED ? 4 : PROMPTS };

static void prompt_of(int i, struct buf *out)
{
    const int round = i / FORMS, a = 7 + i * 37 % 89, b = 2 + i * 11 % 23;
    buf_reset(out);
    for (const char *f = forms[i % FORMS]; *f; f++)
        if (*f != '{' || f[2] != '}') {
            buf_addc(out, *f);
        } else {
            switch (f[1]) {
            case 'a': buf_addf(out, "%d", a); break;
            case 'b': buf_addf(out, "%d", b); break;
            case 'w': buf_adds(out, words[(i + round) % WORDS]); break;
            default:  buf_adds(out, words[(3 * i + 5 * round + 1) % WORDS]); break;
            }
            f += 2;
        }
}

/* ---- how each is asked, in turns, and with which drafts ---- */

static const struct way {
    const char *think, *repetition, *presence, *temperature, *stop;
} ways[] = {
    {"off", "1",   "0",   "0",   ""},
    {"on",  "1",   "0",   "0",   ""},
    {"off", "1.3", "0",   "0",   ""},
    {"off", "1",   "1.5", "0",   ""},
    {"off", "1",   "0",   "0",   "e"},
    {"on",  "1.2", "0.5", "0",   "is"},
    {"off", "1.1", "1",   "0.8", "an"},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* How many tokens.  Most differences that there can be are seen in the first steps; texts that repeat themselves, where drafts are found, take
 * longer. */
static const char *tokens_of(int i, const char *prompt)
{
    return getenv("LONG") ? "160" : i % 9 == 8 || !strncmp(prompt, "Repeat", 6) ? "32" : "7";
}

static const struct drafts {
    const char *draft, *lookup;
} drafts[] = {{"0", "off"}, {"1", "off"}, {"2", "off"}, {"3", "off"}, {"4", "off"}, {"5", "off"}, {"6", "off"}, {"7", "off"},
              {"auto", "off"}, {"auto", "on"}};
enum { DRAFTS = sizeof drafts / sizeof *drafts };

/* ---- the chat ---- */

static struct options *o;
static struct chat *c;

static void set(enum option_id id, const char *text)
{
    struct err e = {0};
    if (!options_set(o, id, text, FROM_COMMAND_LINE, &e))
        fail_msg("%s", e.msg);
}

/* Text of the answer, and how the turn ended. */
struct answer {
    struct buf said;                    /* reasoning and text, as they came */
    struct buf tokens;                  /* a line each: its text, its probability, the likely ones with theirs */
    enum end end;
    struct stats stats;
};

static void add_token(const struct chat_token *t, struct buf *out)
{
    buf_addf(out, "%.*s %a:", (int)t->n, t->text, (double)t->prob);
    for (int i = 0; i < t->n_alternatives; i++)
        buf_addf(out, " %.*s %a", (int)t->alternatives[i].n, t->alternatives[i].text, (double)t->alternatives[i].prob);
    buf_addc(out, '\n');
}

static void ask(const char *prompt, struct answer *a)
{
    struct err e = {0};
    struct chat_token t;
    bool done = false;
    buf_reset(&a->said);
    buf_reset(&a->tokens);
    if (!chat_new(c, &e) || !chat_submit(c, prompt, strlen(prompt), &e))
        fail_msg("%s", e.msg);
    while (!done) {
        int n;
        chat_wait(c, -1, 5000);
        const struct chat_event *ev = chat_drain(c, &n);
        for (int i = 0; i < n; i++) {
            if (ev[i].kind == CHAT_FATAL)
                fail_msg("%s", ev[i].text);
            if (ev[i].kind == CHAT_REASONING || ev[i].kind == CHAT_TEXT)
                buf_add(&a->said, ev[i].text, ev[i].n);
            if (ev[i].kind == CHAT_DONE) {
                done = true;
                a->end = ev[i].end;
                a->stats = ev[i].stats;
            }
        }
    }
    for (int k = 0; chat_n_messages(c) > 1 && chat_token(c, 1, k, &t); k++)
        add_token(&t, &a->tokens);
}

/* A step may give tokens behind a stop string, and how many depends on the drafts: those behind the shorter answer are not compared. */
static void assert_same(const struct answer *a, const struct answer *want, const char *prompt, const struct drafts *d)
{
    const size_t n = want->tokens.len < a->tokens.len ? want->tokens.len : a->tokens.len;
    const bool same_n = want->end == END_STOP_TEXT || want->tokens.len == a->tokens.len;
    if (a->end != want->end || strcmp(buf_str(&a->said), buf_str(&want->said)))
        fail_msg("'%s' with --draft %s, lookup %s: '%s' (%s), without drafts '%s' (%s)", prompt, d->draft, d->lookup, buf_str(&a->said),
                 end_word(a->end), buf_str(&want->said), end_word(want->end));
    if (!same_n || memcmp(buf_str(&a->tokens), buf_str(&want->tokens), n))
        fail_msg("'%s' with --draft %s, lookup %s: the tokens\n%swithout drafts:\n%s", prompt, d->draft, d->lookup, buf_str(&a->tokens),
                 buf_str(&want->tokens));
}

static void test_depths__no_draft_changes_any_of_200_answers(void **state)
{
    (void)state;
    struct buf prompt = {0};
    struct answer want = {0}, got = {0};
    int right[DRAFTS] = {0}, wrong[DRAFTS] = {0}, looked_up = 0, looked_up_right = 0, n_tokens = 0, ends[8] = {0};
    for (int i = 0; i < TRIED; i++) {
        const struct way *w = &ways[i % WAYS];
        prompt_of(i * (PROMPTS / TRIED), &prompt);
        set(OPT_max_tokens, tokens_of(i, buf_str(&prompt)));
        set(OPT_think, w->think);
        set(OPT_repetition_penalty, w->repetition);
        set(OPT_presence_penalty, w->presence);
        set(OPT_temperature, w->temperature);
        set(OPT_stop, "");
        if (*w->stop)
            set(OPT_stop, w->stop);
        for (int d = 0; d < DRAFTS; d++) {
            struct answer *a = d ? &got : &want;
            set(OPT_draft, drafts[d].draft);
            set(OPT_lookup, drafts[d].lookup);
            ask(buf_str(&prompt), a);
            if (d)
                assert_same(a, &want, buf_str(&prompt), &drafts[d]);
            const struct draft_count all = stats_all_drafts(&a->stats), lookup = stats_drafts(&a->stats, DRAFT_LOOKUP);
            right[d] += all.accepted;
            wrong[d] += all.drafted - all.accepted;
            looked_up += lookup.drafted;
            looked_up_right += lookup.accepted;
        }
        n_tokens += want.stats.n_tokens;
        ends[want.end]++;
    }
    printf("%d prompts, %d tokens; ends:", TRIED, n_tokens);
    for (int i = 0; i < 8; i++)
        if (ends[i])
            printf(" %s %d", end_word((enum end)i), ends[i]);
    printf("\n");
    for (int d = 1; d < DRAFTS; d++) {
        printf("--draft %s, lookup %s: %d drafts right, %d wrong\n", drafts[d].draft, drafts[d].lookup, right[d], wrong[d]);
        const bool pays = !strcmp(drafts[d].draft, "auto");     /* then how many there are depends on the machine */
        assert_true(SANITIZED || pays || (right[d] > 0 && wrong[d] > 0));
    }
    printf("looked up: %d, right %d\n", looked_up, looked_up_right);
    assert_true(SANITIZED || looked_up > 0);    /* as many as pay, so a machine may verify few, but hardly none of hundreds */
    assert_true(SANITIZED || (ends[END_STOP_TEXT] > 0 && ends[END_LENGTH] > 0));
    buf_free(&prompt);
    buf_free(&want.said), buf_free(&want.tokens);
    buf_free(&got.said), buf_free(&got.tokens);
}

static int open_chat(void **state)
{
    (void)state;
    static const struct chat_front front = {.tools = "none", .inspects = true};
    struct err e = {0};
    o = options_open();
    set(OPT_model, "assets/demo");
    set(OPT_backend, getenv("BACKEND") ? getenv("BACKEND") : "cpu");
    if (getenv("HEAD"))
        set(OPT_head, getenv("HEAD"));
    set(OPT_chunk, "64");               /* so that no chunk's end depends on how fast the machine is */
    set(OPT_ctx, "1024");
    set(OPT_seed, "7");
    set(OPT_loop_guard, "off");
    c = chat_open(local_open(o, &e), o, &front, &e);
    if (!c)
        print_error("%s\n", e.msg);
    return !c;
}

static int close_chat(void **state)
{
    (void)state;
    chat_close(c);
    options_close(o);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depths__no_draft_changes_any_of_200_answers),
    };
    if (access("assets/demo/config.json", R_OK)) {
        printf("assets/demo is not there: left out\n");
        return 0;
    }
    return cmocka_run_group_tests_name("depths", tests, open_chat, close_chat);
}
