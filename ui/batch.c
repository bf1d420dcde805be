#include "ui/batch.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/unicode.h"
#include "chat/chat.h"
#include "option/flags.h"
#include "ui/answer.h"
#include "ui/process.h"
#include "ui/prompt.h"
#include "ui/responder.h"

struct batch {
    struct options *o;
    struct chat *chat;
    const struct buf *words;
    struct reply reply;
    int      line;                      /* number of the one under way, from 1 */
    json_t  *id;                        /* as it gave it; NULL: none */
    struct buf prompt;
    int64_t  deadline_ns;               /* of this line; 0: none */
    bool     timed_out;
    int      status;                    /* of this line; -1: not known yet */
    bool     failed;                    /* some line failed */
    bool     unreadable;                /* the rest of the input is */
    bool     over;                      /* the model, the output or the user ended it */
};

/* --- output ------------------------------------------------------------------------------------------------------ */

static void put(struct batch *b, json_t *answer)
{
    json_t *head = json_pack("{s:i}", "line", b->line);
    struct buf text = {0}, rest = {0};
    if (b->id)
        json_object_set(head, "id", b->id);
    json_object_set_new(answer, "exit", json_integer(b->status));
    json_print(&text, head, JSON_COMPACT);              /* apart, since an id keeps all its digits */
    json_print(&rest, answer, JSON_COMPACT | JSON_REAL_PRECISION(10));
    text.data[text.len - 1] = ',';
    buf_add(&text, rest.data + 1, rest.len - 1);
    buf_free(&rest);
    json_decref(head);
    json_decref(answer);
    if (puts(text.data) < 0 || fflush(stdout)) {
        fprintf(stderr, "q35chat: cannot write an answer: %s\n", strerror(errno));
        b->over = true;
    }
    buf_free(&text);
    b->failed |= b->status != EXIT_ANSWERED;
}

static void fail(struct batch *b, int status, const char *why)
{
    b->status = status;
    put(b, json_pack("{s:o}", "error", json_text(why, strlen(why))));
    fprintf(stderr, "q35chat: line %d: ", b->line);
    struct buf safe = {0};
    unicode_safe(&safe, why, strlen(why));
    fprintf(stderr, "%s\n", buf_str(&safe));
    buf_free(&safe);
}

/* --- a JSON line ------------------------------------------------------------------------------------------------- */

/* The keys of a line: options of its request, then the four that are none. */
static const char *const keys[] = {
#define SAMPLING_NUMBER(name, ...) #name,
#include "config/sampling_numbers.def"
    "top_k", "logit_bias", "seed", "max_tokens", "stop", "preset", "think", "think_budget", "system",
    "prompt", "messages", "files", "id",
};
enum { N_KEYS = sizeof keys / sizeof *keys, N_OPTION_KEYS = N_KEYS - 4 };

static bool set_option(struct batch *b, enum option_id id, const json_t *value, struct err *e)
{
    char number[64];
    if (json_is_string(value))
        return options_set(b->o, id, json_string_value(value), FROM_SET, e);
    if (json_is_boolean(value))
        return options_set(b->o, id, json_is_true(value) ? "on" : "off", FROM_SET, e);
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.17g", json_real_value(value));
    else
        return err_set(e, "%s must be text, a number, true or false", options_key(id));
    return options_set(b->o, id, number, FROM_SET, e);
}

static bool set_list(struct batch *b, enum option_id id, const json_t *list, struct err *e)
{
    bool ok = options_set(b->o, id, "", FROM_SET, e);
    for (size_t i = 0; ok && i < json_array_size(list); i++)
        ok = set_option(b, id, json_array_get(list, i), e);
    return ok;
}

static bool take_option(struct batch *b, const char *key, const json_t *value, struct err *e)
{
    int i = 0;
    while (i < N_KEYS && strcmp(keys[i], key))
        i++;
    if (i == N_KEYS) {
        const char *near = nearest_name(key, keys, N_KEYS);
        return err_set(e, "unknown key %s%s%s%s", key, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
    }
    if (i >= N_OPTION_KEYS)
        return true;
    enum option_id id = (enum option_id)options_find(key);
    return json_is_array(value) ? set_list(b, id, value, e) : set_option(b, id, value, e);
}

static bool take_files(struct batch *b, const json_t *files, struct err *e)
{
    if (files && !options_on(b->o, OPT_batch_files))
        return err_set(e, "files is allowed only with --batch-files");
    if (files && !json_is_array(files))
        return err_set(e, "files must be a list of paths");
    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *path = json_string_value(json_array_get(files, i));
        if (!path || !chat_attach(b->chat, path, e))
            return path ? false : err_set(e, "files must be a list of paths");
    }
    return true;
}

/* Takes the messages before the last one into the conversation, the last one as the prompt. */
static bool take_messages(struct batch *b, const json_t *messages, struct err *e)
{
    size_t n = json_array_size(messages);
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(messages, i), *content = json_object_get(m, "content");
        const char *role = json_string_value(json_object_get(m, "role")), *text = json_string_value(content);
        if (!role || !text)
            return err_set(e, "message %zu needs a role and a content, both text", i + 1);
        bool user = !strcmp(role, "user"), last = i + 1 == n;
        if (!strcmp(role, "system") && !i) {
            if (!options_set(b->o, OPT_system, text, FROM_SET, e))
                return false;
        } else if (!user && strcmp(role, "assistant")) {
            return err_set(e, "message %zu has the role %s, expected user or assistant, or system in the first one", i + 1, role);
        } else if (last) {
            buf_add(&b->prompt, text, json_string_length(content));
            return user || err_set(e, "the last message must be the user's");
        } else if (!chat_recall(b->chat, role, text, json_string_length(content), e)) {
            return false;
        }
    }
    return err_set(e, "messages must be a list that ends with a message of the user");
}

static bool take_object(struct batch *b, const json_t *j, struct err *e)
{
    const json_t *prompt = json_object_get(j, "prompt"), *messages = json_object_get(j, "messages");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)j, key, value)
        if (!take_option(b, key, value, e))
            return false;
    if (!prompt == !messages)
        return err_set(e, "expected one of prompt and messages");
    if (prompt && !json_is_string(prompt))
        return err_set(e, "prompt is not text");
    if (!take_files(b, json_object_get(j, "files"), e))
        return false;
    if (messages)
        return take_messages(b, messages, e);
    buf_add(&b->prompt, buf_str(b->words), b->words->len);
    prompt_join(&b->prompt, json_string_value(prompt), json_string_length(prompt));
    return true;
}

/* With words on the command line a line is text, whatever it begins with: it may come from somebody else. */
static bool is_object(const struct batch *b, const char *line)
{
    return options_on(b->o, OPT_batch_json) || (!b->words->len && *line == '{');
}

static bool take_line(struct batch *b, const char *line, size_t n, struct err *e)
{
    json_error_t why;
    if (memchr(line, 0, n))
        return err_set(e, "the line holds a zero byte; expected text");
    if (!is_object(b, line)) {
        buf_add(&b->prompt, buf_str(b->words), b->words->len);
        prompt_join(&b->prompt, line, n);
        return true;
    }
    json_t *j = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!j)
        return err_set(e, "not a JSON object: %s at column %d", why.text, why.column);
    b->id = json_incref(json_object_get(j, "id"));
    bool ok = take_object(b, j, e);
    json_decref(j);
    return ok;
}

/* --- an answer --------------------------------------------------------------------------------------------------- */

static void done(struct batch *b, const struct chat_event *ev)
{
    struct buf why = {0};
    b->status = ev->end != END_INTERRUPTED ? (int)reply_status(&b->reply, ev, options_on(b->o, OPT_strict))
              : b->timed_out ? EXIT_TIMEOUT : EXIT_SIGNAL + interrupt_signal();
    if (b->timed_out)
        buf_adds(&why, "--timeout was reached");
    else
        reply_complaint(&b->reply, ev, &why);
    if (why.len)
        fprintf(stderr, "q35chat: line %d: %s\n", b->line, why.data);
    put(b, reply_json(&b->reply, b->chat, ev));
    buf_free(&why);
}

static void take(struct batch *b, const struct chat_event *ev)
{
    reply_take(&b->reply, ev);
    if (ev->kind == CHAT_DONE)
        done(b, ev);
    if (ev->kind == CHAT_FATAL) {
        fail(b, EXIT_MODEL, ev->text);
        b->over = true;
    }
}

static void answer(struct batch *b)
{
    enum { KILL_MS = 3000 };            /* a tool that does not end when it is asked to */
    while (b->status < 0) {
        int n;
        chat_wait(b->chat, interrupt_fd(), b->timed_out ? KILL_MS : prompt_ms_left(b->deadline_ns));
        if (interrupt_taken()) {
            b->over = true;
            chat_interrupt(b->chat);
        }
        if (b->deadline_ns && !prompt_ms_left(b->deadline_ns)) {
            b->timed_out = true;
            chat_interrupt(b->chat);
        }
        const struct chat_event *ev = chat_drain(b->chat, &n);
        for (int i = 0; i < n && b->status < 0; i++)
            take(b, &ev[i]);
    }
}

static bool attach_files(struct batch *b, struct err *e)
{
    int n;
    const char *const *files = options_list(b->o, OPT_file, &n);
    for (int i = 0; i < n; i++)
        if (!chat_attach(b->chat, files[i], e))
            return false;
    return true;
}

static void one(struct batch *b, const char *line, size_t n)
{
    struct err e = {0};
    double seconds = options_real(b->o, OPT_timeout);
    options_push(b->o);
    reply_reset(&b->reply);
    buf_reset(&b->prompt);
    b->id = NULL;
    b->status = -1;
    b->timed_out = false;
    b->deadline_ns = seconds > 0 ? clock_ns() + (int64_t)(seconds * 1e9) : 0;
    bool ok = chat_new(b->chat, &e) && take_line(b, line, n, &e) && attach_files(b, &e);
    if (ok && prompt_is_blank(&b->prompt))
        ok = err_set(&e, "the prompt is empty");
    if (ok && chat_submit(b->chat, buf_str(&b->prompt), b->prompt.len, &e))
        answer(b);
    else
        fail(b, EXIT_USAGE, e.msg);
    json_decref(b->id);
    options_pop(b->o);
}

/* Reads the next line and answers it unless it is blank.  False at the end of the input, for whatever reason. */
static bool next(struct batch *b, struct buf *line)
{
    enum { LONGEST = 16 << 20 };
    enum buf_line got;
    buf_reset(line);
    while ((got = buf_read_line(line, stdin, LONGEST)) == BUF_LINE_INTERRUPTED && !interrupt_signal())
        ;
    b->line += got == BUF_LINE || got == BUF_LINE_TOO_LONG;
    b->id = NULL;
    b->unreadable = got == BUF_LINE_UNREADABLE || got == BUF_LINE_TOO_LONG;
    if (got == BUF_LINE_UNREADABLE)
        fprintf(stderr, "q35chat: cannot read line %d of stdin: %s\n", b->line + 1, strerror(errno));
    if (got == BUF_LINE_TOO_LONG)
        fail(b, EXIT_USAGE, "longer than 16 MiB; the rest of the input was not read");
    while (line->len && strchr("\r\n", line->data[line->len - 1]))
        line->data[--line->len] = 0;
    if (got == BUF_LINE && !prompt_is_blank(line))
        one(b, line->data, line->len);
    return got == BUF_LINE;
}

int batch_run(struct options *o, const struct buf *words)
{
    static const struct chat_front front = {.tools = "none"};
    struct batch b = {.o = o, .words = words};
    struct err e = {0};
    struct buf line = {0};
    interrupt_open();
    b.chat = chat_open(ui_responder(o, &e), o, &front, &e);  /* loads while the first line is read */
    if (!b.chat) {
        prompt_say(e.msg);
        return EXIT_MODEL;
    }
    reply_init(&b.reply);
    while (!b.over && next(&b, &line))
        ;
    int status = interrupt_signal() ? EXIT_SIGNAL + interrupt_signal()
               : b.unreadable ? EXIT_USAGE : b.failed || b.over ? EXIT_FAILED : EXIT_ANSWERED;
    buf_free(&line);
    reply_free(&b.reply);
    buf_free(&b.prompt);
    chat_close(b.chat);
    return status;
}
