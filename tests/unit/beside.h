/* A chat with the scripted engine that other programs may use, and such programs, all in this process. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/tmpdir.h"
#include "talk.h"
#include "responder/remote.h"
#include "serve/host.h"

#define MODEL "tests/data/chat"

static struct tmpdir dir;
static char socket_path[PATH_MAX];
static const char *offered = "none";   /* the tools of all programs */

static inline void must_set(struct options *o, enum option_id id, const char *value)
{
    struct err e = {{0}};
    if (!options_set(o, id, value, FROM_SET, &e))
        fail_msg("%s", e.msg);
}

static inline struct options *options_of_test(void)
{
    struct options *o = options_open();
    must_set(o, OPT_model, MODEL);
    must_set(o, OPT_seed, "7");
    must_set(o, OPT_tools, offered);
    return o;
}

/* Drains the chat whose engine it is, if there is one, and this talk.  True when its turn has ended. */
static inline bool step_both(struct talk *t, struct talk *chat)
{
    int n;
    bool over = false;
    if (chat) {
        chat_wait(chat->c, -1, 1);
        chat_drain(chat->c, &n);
    }
    chat_wait(t->c, -1, chat ? 1 : 5000);
    const struct chat_event *ev = chat_drain(t->c, &n);
    for (int i = 0; i < n; i++) {
        see(t, &ev[i]);
        over = over || ev[i].kind == CHAT_DONE || ev[i].kind == CHAT_FATAL;
    }
    return over;
}

/* A chat that other programs may use. */
static inline void open_chat(struct talk *chat)
{
    static const struct chat_front front = {.can_ask = true, .tools = "none"};
    struct err e = {{0}};
    *chat = (struct talk){.o = options_of_test()};
    struct responder *own = local_open(chat->o, &e), *guest = local_guest(own);
    struct responder *host = host_open(own, &guest, 1, socket_path, chat->o, NULL, &e);
    if (!host)
        fail_msg("%s", e.msg);
    chat->c = chat_open(host, chat->o, &front, &e);
    while (!chat_info(chat->c))
        step(chat);
}

/* A program that uses it: a pipe, or another chat. */
static inline void attach(struct talk *t, bool pipe)
{
    static const struct chat_front front = {.can_ask = true, .tools = "none"};
    struct err e = {{0}};
    *t = (struct talk){.o = options_of_test()};
    t->c = chat_open(pipe ? remote_attach(t->o, socket_path, MODEL, false, &e) : local_attach(socket_path, MODEL, false, &e), t->o, &front, &e);
    if (!t->c)
        fail_msg("%s", e.msg);
}

/* A program that has the model itself. */
static inline void open_alone(struct talk *t)
{
    static const struct chat_front front = {.can_ask = true, .tools = "none"};
    *t = (struct talk){.o = options_of_test()};
    start_with(t, &front);
}

/* Runs the tests with places of their own for files. */
static inline int run_beside(const struct CMUnitTest *tests, size_t n)
{
    char command[PATH_MAX];
    if (!tmpdir_make(&dir))
        return 1;
    setenv("XDG_CONFIG_HOME", dir.path, 1);
    setenv("XDG_STATE_HOME", dir.path, 1);
    snprintf(socket_path, sizeof socket_path, "%s/run/serve.sock", dir.path);
    int failed = _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf '%s'", dir.path);
    failed += system(command) != 0;
    talk_free();
    return failed;
}
