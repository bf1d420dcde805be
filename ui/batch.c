#include "ui/pipe.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "chat/chat.h"
#include "option/flags.h"
#include "ui/process.h"
#include "ui/prompt.h"
#include "ui/reply.h"
#include "ui/responder.h"

struct batch {
    struct reply a;                    /* first: functions of the form cast it back to struct batch */
    const struct buf *words;
    int      line;                      /* number of the current line, from 1 */
    char     about[32];                 /* "line 3: " */
    json_t  *id;                        /* the id that the line gave; NULL: none */
    struct buf prompt;
    bool     failed;                    /* some line failed */
    bool     unreadable;                /* the rest of the input is */
    bool     over;                      /* the model, the output or the user ended it */
};

/* --- output ------------------------------------------------------------------------------------------------------ */

static void put(struct batch *b, json_t *answer, int status)
{
    json_t *head = json_pack("{s:i}", "line", b->line);
    struct buf text = {0}, rest = {0};
    if (b->id)
        json_object_set(head, "id", b->id);
    json_object_set_new(answer, "exit", json_integer(status));
    json_print(&text, head, JSON_COMPACT);              /* apart, since an id keeps all its digits */
    json_print(&rest, answer, JSON_COMPACT | JSON_REAL_PRECISION(10));
    text.data[text.len - 1] = ',';
    buf_add(&text, rest.data + 1, rest.len - 1);
    buf_addc(&text, '\n');
    buf_free(&rest);
    json_decref(head);
    json_decref(answer);
    b->a.status = -1;                   /* reply_write() sets it on failure */
    reply_write(&b->a, text.data, text.len);
    b->over |= b->a.status >= 0;
    buf_free(&text);
    b->failed |= status != EXIT_ANSWERED;
}

static void batch_done(struct reply *a, const struct chat_event *ev, int status)
{
    put((struct batch *)a, reply_object(a, ev), status);
}

static void batch_failed(struct reply *a, const char *why, int status)
{
    struct batch *b = (struct batch *)a;
    put(b, json_pack("{s:o}", "error", json_text(why, strlen(why))), status);
    b->over |= status == EXIT_MODEL;
}

static const struct reply_form reply_batch = {.done = batch_done, .failed = batch_failed};

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
        return options_set(b->a.o, id, json_string_value(value), FROM_SET, e);
    if (json_is_boolean(value))
        return options_set(b->a.o, id, json_is_true(value) ? "on" : "off", FROM_SET, e);
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.17g", json_real_value(value));
    else
        return err_set(e, "%s must be text, a number, true or false", options_key(id));
    return options_set(b->a.o, id, number, FROM_SET, e);
}

static bool set_list(struct batch *b, enum option_id id, const json_t *list, struct err *e)
{
    bool ok = options_set(b->a.o, id, "", FROM_SET, e);
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
    if (files && !options_on(b->a.o, OPT_batch_files))
        return err_set(e, "files is allowed only with --batch-files");
    if (files && !json_is_array(files))
        return err_set(e, "files must be a list of paths");
    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *path = json_string_value(json_array_get(files, i));
        if (!path || !chat_attach(b->a.chat, path, e))
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
            if (!options_set(b->a.o, OPT_system, text, FROM_SET, e))
                return false;
        } else if (!user && strcmp(role, "assistant")) {
            return err_set(e, "message %zu has the role %s, expected user or assistant, or system in the first one", i + 1, role);
        } else if (last) {
            buf_add(&b->prompt, text, json_string_length(content));
            return user || err_set(e, "the last message must be the user's");
        } else if (!chat_recall(b->a.chat, role, text, json_string_length(content), e)) {
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

/* True if the line is a JSON object.  With words on the command line it is text, whatever it begins with: it may come from a stranger. */
static bool is_object(const struct batch *b, const char *line)
{
    return options_on(b->a.o, OPT_batch_json) || (!b->words->len && *line == '{');
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

/* --- the lines --------------------------------------------------------------------------------------------------- */

static void one(struct batch *b, const char *line, size_t n)
{
    struct err e = {0};
    double seconds = options_real(b->a.o, OPT_timeout);
    options_push(b->a.o);
    reply_reset(&b->a);
    buf_reset(&b->prompt);
    b->id = NULL;
    b->a.deadline_ns = seconds > 0 ? clock_ns() + (int64_t)(seconds * 1e9) : 0;
    bool ok = chat_new(b->a.chat, &e) && take_line(b, line, n, &e) && reply_attach_files(&b->a, &e);
    if (ok && prompt_is_blank(&b->prompt))
        ok = err_set(&e, "the prompt is empty");
    if (ok && chat_submit(b->a.chat, buf_str(&b->prompt), b->prompt.len, &e))
        reply_run(&b->a);
    else
        reply_fail(&b->a, e.msg, EXIT_USAGE);
    b->over |= b->a.stopped;
    json_decref(b->id);
    options_pop(b->a.o);
}

/* Reads the next line and answers it unless it is blank.  False at the end of the input, for whatever reason. */
static bool next(struct batch *b, struct buf *line)
{
    enum { LONGEST = 16 << 20 };
    enum file_line got;
    buf_reset(line);
    while ((got = file_read_line(line, stdin, LONGEST)) == FILE_LINE_INTERRUPTED && !interrupt_signal())
        ;
    b->line += got == FILE_LINE || got == FILE_LINE_TOO_LONG;
    snprintf(b->about, sizeof b->about, "line %d: ", b->line);
    b->id = NULL;
    b->unreadable = got == FILE_LINE_UNREADABLE || got == FILE_LINE_TOO_LONG;
    if (got == FILE_LINE_UNREADABLE)
        fprintf(stderr, "q35chat: cannot read line %d of stdin: %s\n", b->line + 1, strerror(errno));
    if (got == FILE_LINE_TOO_LONG)
        reply_fail(&b->a, "longer than 16 MiB; the rest of the input was not read", EXIT_USAGE);
    while (line->len && strchr("\r\n", line->data[line->len - 1]))
        line->data[--line->len] = 0;
    if (got == FILE_LINE && !prompt_is_blank(line))
        one(b, line->data, line->len);
    return got == FILE_LINE;
}

int batch_run(struct options *o, const struct buf *words)
{
    static const struct chat_front front = {.tools = "none"};
    struct batch b = {.a = {.form = &reply_batch, .o = o, .strict = options_on(o, OPT_strict)}, .words = words};
    struct err e = {0};
    struct buf line = {0};
    interrupt_open();
    b.a.about = b.about;
    b.a.chat = chat_open(ui_responder(o, &e), o, &front, &e);  /* loads while the first line is read */
    if (!b.a.chat) {
        prompt_say(e.msg);
        return EXIT_MODEL;
    }
    reply_init(&b.a);
    while (!b.over && next(&b, &line))
        ;
    int status = interrupt_signal() ? EXIT_SIGNAL + interrupt_signal()
               : b.unreadable ? EXIT_USAGE : b.failed || b.over ? EXIT_FAILED : EXIT_ANSWERED;
    buf_free(&line);
    reply_free(&b.a);
    buf_free(&b.prompt);
    chat_close(b.a.chat);
    return status;
}
