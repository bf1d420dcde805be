/* A conversation with the scripted engine, driven like by a front end. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "chat/chat.h"
#include "responder/local.h"
#include "by_text.h"
#include "fake_engine.h"

/* The events of one turn, as a front end sees them. */
struct seen {
    struct buf reasoning, text, calls, output, results, notes;
    struct chat_event last;             /* CHAT_DONE or CHAT_FATAL */
    char why[512], taken_back[512];
    int n_asked;
    enum chat_answer answer;            /* to every question */
};

static bool by_text;                    /* the responder knows no tokens */

struct talk {
    struct options *o;
    struct chat *c;
    struct seen s;
};

static inline void set(struct talk *t, enum option_id id, const char *text)
{
    struct err e = {0};
    assert_true(options_set(t->o, id, text, FROM_COMMAND_LINE, &e));
}

static inline void begin(struct talk *t)
{
    fake_reset();
    *t = (struct talk){.o = options_open()};
    set(t, OPT_model, "tests/data/chat");
}

static inline void start_with(struct talk *t, const struct chat_front *front)
{
    struct err e = {0};
    t->c = chat_open(by_text ? by_text_open() : local_open(t->o, &e), t->o, front, &e);
    if (!t->c)
        fail_msg("%s", e.msg);
}

static inline void start(struct talk *t)
{
    static const struct chat_front front = {.can_ask = true, .tools = "none"};
    start_with(t, &front);
}

static inline void forget(struct seen *s)
{
    struct buf *all[] = {&s->reasoning, &s->text, &s->calls, &s->output, &s->results, &s->notes};
    for (int i = 0; i < 6; i++)
        buf_free(all[i]);
    *s = (struct seen){.answer = s->answer};
}

static inline void end(struct talk *t)
{
    forget(&t->s);
    chat_close(t->c);
    options_close(t->o);
}

static inline void see(struct talk *t, const struct chat_event *ev)
{
    struct seen *s = &t->s;
    switch (ev->kind) {
    case CHAT_REASONING:   buf_add(&s->reasoning, ev->text, ev->n); break;
    case CHAT_TEXT:        buf_add(&s->text, ev->text, ev->n); break;
    case CHAT_CALL:        buf_addf(&s->calls, "%s%s%s;", ev->name, ev->text, ev->truncated ? "..." : ""); break;
    case CHAT_TOOL_OUTPUT: buf_add(&s->output, ev->text, ev->n); break;
    case CHAT_TOOL_RESULT: buf_addf(&s->results, "%s=%s;", ev->name, ev->text); break;
    case CHAT_NOTE:        buf_adds(&s->notes, ev->text); break;
    case CHAT_APPROVE:
        s->n_asked++;
        chat_approve(t->c, s->answer);
        break;
    case CHAT_DONE:
    case CHAT_FATAL:
        s->last = *ev;
        snprintf(s->why, sizeof s->why, "%s", ev->text);
        snprintf(s->taken_back, sizeof s->taken_back, "%s", ev->taken_back ? ev->taken_back : "");
        break;
    default:
        break;
    }
}

/* Waits once and takes the events; true when the turn has ended. */
static inline bool step(struct talk *t)
{
    int n;
    chat_wait(t->c, -1, 5000);
    const struct chat_event *ev = chat_drain(t->c, &n);
    bool over = false;
    for (int i = 0; i < n; i++) {
        see(t, &ev[i]);
        over = over || ev[i].kind == CHAT_DONE || ev[i].kind == CHAT_FATAL;
    }
    return over;
}

static inline void finish_turn(struct talk *t)
{
    while (!step(t))
        ;
    assert_false(chat_busy(t->c));
}

static inline void submit(struct talk *t, const char *text)
{
    struct err e = {0};
    forget(&t->s);
    if (!chat_submit(t->c, text, strlen(text), &e))
        fail_msg("%s", e.msg);
}

static inline void ask(struct talk *t, const char *text)
{
    submit(t, text);
    finish_turn(t);
}

/* The prompt of submit k as text, control tokens by name. */
static inline const char *prompt(int k)
{
    static struct buf text;
    struct detok d = {0};
    buf_reset(&text);
    for (int i = 0; i < fake.prompts[k].n; i++)
        detok_push(&d, fake.tok, fake.prompts[k].data[i], false, &text);
    detok_flush(&d, &text);
    return buf_str(&text);
}

#define USER(t) "<|im_start|>user\n" t "<|im_end|>\n"
#define THINK "<|im_start|>assistant\n<think>\n"
#define PLAIN "<|im_start|>assistant\n<think>\n\n</think>\n\n"

/* Runs the same tests with a responder that knows only texts, without those that need more: `without`, ends with NULL. */
static inline int run_by_text(const char *name, const struct CMUnitTest *tests, size_t n, const char *const *without)
{
    struct CMUnitTest *kept = memory_zeroed(n, sizeof *kept);
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++) {
        int k = 0;
        while (without[k] && strcmp(without[k], tests[i].name))
            k++;
        if (!without[k])
            kept[n_kept++] = tests[i];
    }
    by_text = true;
    int failed = _cmocka_run_group_tests(name, kept, n_kept, NULL, NULL);
    by_text = false;
    free(kept);
    return failed;
}

/* At the end of main(). */
static inline void talk_free(void)
{
    for (int i = 0; i < FAKE_MAX; i++)
        ids_free(&fake.prompts[i]);
    tokenizer_close(fake.tok);
}
