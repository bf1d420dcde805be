/* The full-screen chat without a terminal and with a scripted engine: a test types, lets time pass and checks the screen. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_engine.h"
#include "responder/local.h"
#include "tests/tmpdir.h"
#include "ui/tui/app.h"
#include "ui/tui/input.h"
#include "ui/tui/window.h"
#include "ui/tui/windows.h"

static struct {
    struct options *o;
    struct chat *chat;
    struct app app;
    struct cells cells;
    struct buf screen;
    int64_t ms;
    bool reads_ahead;
    bool keeps;                         /* saves conversations, attaches files */
    struct tmpdir home;                 /* keeps the user's own conversations out of the test */
} stage;

static inline void stage_set(enum option_id id, const char *text)
{
    struct err e = {0};
    if (!options_set(stage.o, id, text, FROM_COMMAND_LINE, &e))
        fail_msg("%s", e.msg);
}

/* Call first, then script the answers. */
static inline void stage_begin(int rows, int cols)
{
    fake_reset();
    memset(&stage, 0, sizeof stage);
    stage.o = options_open();
    assert_true(tmpdir_make(&stage.home));
    setenv("XDG_STATE_HOME", stage.home.path, 1);
    stage.ms = 1000000;
    stage_set(OPT_model, "tests/data/chat");
    app_open(&stage.app, stage.o, NULL);
    cells_size(&stage.cells, rows, cols);
}

/* Takes the events of the chat; true if there were any. */
static inline bool stage_drain(void)
{
    int n;
    const struct chat_event *ev = chat_drain(stage.chat, &n);
    app_events(&stage.app, ev, n, stage.ms);
    return n > 0;
}

static inline void stage_pass(int ms)
{
    stage.ms += ms;
    stage_drain();
    app_tick(&stage.app, stage.ms);
}

static inline void stage_load(void)
{
    while (!chat_ready(stage.chat)) {
        chat_wait(stage.chat, -1, 1000);
        stage_pass(0);
    }
}

/* Opens the chat; the model is ready unless fake.not_ready. */
static inline void stage_open(void)
{
    static const struct chat_front front = {.can_ask = true, .inspects = true, .tools = "all"};
    struct chat_front now = front;
    struct err e = {0};
    now.keeps = now.attaches = stage.keeps;
    now.reads_ahead = stage.reads_ahead;
    stage.chat = chat_open(local_open(stage.o, &e), stage.o, &now, &e);
    if (!stage.chat)
        fail_msg("%s", e.msg);
    stage.app.host.ms = stage.ms;
    app_chat(&stage.app, stage.chat);
    if (!fake.not_ready)
        stage_load();
}

/* Removes a folder of the state directory with its files. */
static inline void stage_clean(const char *name)
{
    char path[192], file[512];
    snprintf(path, sizeof path, "%s/%s", stage.home.path, name);
    DIR *d = opendir(path);
    for (struct dirent *at; d && (at = readdir(d));) {
        snprintf(file, sizeof file, "%s/%s", path, at->d_name);
        unlink(file);
    }
    if (d)
        closedir(d);
    rmdir(path);
}

static inline void stage_end(void)
{
    chat_close(stage.chat);
    app_close(&stage.app);
    options_close(stage.o);
    cells_free(&stage.cells);
    buf_free(&stage.screen);
    stage_clean("q35chat/sessions");
    stage_clean("q35chat/trash");
    stage_clean("q35chat/pastes");
    stage_clean("q35chat");
    tmpdir_remove(&stage.home);
}

/* Runs until the answer has ended, waits for the user, or hangs. */
static inline void stage_answer(void)
{
    enum { QUIET = 100, WAIT_MS = 2 };  /* an arriving tool call is also silent for a while */
    for (int quiet = 0; chat_busy(stage.chat) && !stage.app.host.open[WINDOW_approve] && quiet < QUIET;) {
        chat_wait(stage.chat, -1, WAIT_MS);
        stage.ms += 10;
        quiet = stage_drain() ? 0 : quiet + 1;
    }
    stage_pass(1000);
}

/* A key by its name, "Ctrl-C"; or a character. */
static inline void stage_key(const char *name)
{
    struct key_event ev = {.kind = KEYS_KEY};
    assert_true(keys_parse(name, &ev.code, &ev.mods));
    if (ev.code < KEY_NONE && !ev.mods)
        ev = (struct key_event){.kind = KEYS_TEXT, .text = name, .n = strlen(name)};
    app_key(&stage.app, &ev, stage.ms);
    stage.ms += 10;
}

static inline void stage_keys(const char *names)       /* with blanks between */
{
    char name[32];
    for (int n; sscanf(names, "%31s%n", name, &n) == 1; names += n)
        stage_key(name);
}

static inline void stage_type(const char *text)
{
    for (; *text; text++)
        app_key(&stage.app, &(struct key_event){.kind = KEYS_TEXT, .text = text, .n = 1}, stage.ms += 10);
}

static inline void stage_say(const char *text)
{
    stage_type(text);
    stage_key("Enter");
}

/* Sets options as the config file does. */
static inline void stage_configure(const char *text)
{
    char path[192];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/conf", stage.home.path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    if (!options_read_file(stage.o, path, &e))
        fail_msg("%s", e.msg);
    unlink(path);
}

static inline const char *stage_screen(void)
{
    view_draw(&stage.app, &stage.cells);
    buf_reset(&stage.screen);
    cells_dump(&stage.cells, false, &stage.screen);
    return buf_str(&stage.screen);
}

static inline const char *stage_draft(void)
{
    static struct buf text;
    buf_reset(&text);
    editor_text(stage.app.host.line[WINDOW_input], &text);
    return buf_str(&text);
}

#define assert_shows(text) \
    do { if (!strstr(stage_screen(), text)) fail_msg("\"%s\" is not on the screen:\n%s", text, buf_str(&stage.screen)); } while (0)
#define assert_hides(text) \
    do { if (strstr(stage_screen(), text)) fail_msg("\"%s\" is on the screen:\n%s", text, buf_str(&stage.screen)); } while (0)
