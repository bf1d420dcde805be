#include "ui/front.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/unicode.h"
#include "chat/chat.h"
#include "chat/forms.h"
#include "option/flags.h"
#include "ui/printer.h"
#include "ui/process.h"
#include "ui/prompt.h"
#include "ui/reply.h"
#include "ui/responder.h"

struct pipe {
    struct reply a;                    /* first: functions of the form cast it back to struct pipe */
    bool terminal;                      /* stdout is one */
    bool streams, extract;
    bool show_reasoning, show_answer;
    bool prints;                        /* the answer is Markdown on a terminal */
    struct printer printer;
    enum chat_event_kind part;          /* the part that was printed last */
    bool printed;
    int  newlines;                      /* held back: only the end of the output decides about them */
};

/* --- an answer as text ------------------------------------------------------------------------------------------- */

/* Prints text; line ends wait until something follows, so that the output ends with exactly one. */
static void put(struct pipe *p, const char *text, size_t n)
{
    waiting_clear(&p->a.waiting);
    size_t end = n;
    while (end && text[end - 1] == '\n')
        end--;
    if (end) {
        for (; p->newlines; p->newlines--)
            reply_write(&p->a, "\n", 1);
        reply_write(&p->a, text, end);
        p->printed = true;
    }
    if (p->printed)
        p->newlines += (int)(n - end);
}

/* Prints plain text; a terminal gets it without control characters. */
static void print(struct pipe *p, const char *text, size_t n)
{
    struct buf safe = {0};
    if (p->terminal)
        unicode_safe(&safe, text, n);
    put(p, p->terminal ? buf_str(&safe) : text, p->terminal ? safe.len : n);
    buf_free(&safe);
}

/* Prints a piece of the answer, as Markdown on a terminal. */
static void print_answer(struct pipe *p, const char *text, size_t n)
{
    struct buf lines = {0};
    if (!p->prints) {
        print(p, text, n);
        return;
    }
    printer_push(&p->printer, text, n, &lines);
    if (lines.len)
        put(p, lines.data, lines.len);
    buf_free(&lines);
}

/* Prints what the printer holds back of the answer. */
static void end_markdown(struct pipe *p)
{
    struct buf lines = {0};
    printer_end(&p->printer, &lines);
    if (lines.len)
        put(p, lines.data, lines.len);
    buf_free(&lines);
}

/* Prints text as it arrives.  True if text was printed, so that the cursor of a terminal is within it. */
static bool text_event(struct reply *a, const struct chat_event *ev)
{
    struct pipe *p = (struct pipe *)a;
    const bool answer = ev->kind == CHAT_TEXT, shown = p->streams && (answer ? p->show_answer : ev->kind == CHAT_REASONING && p->show_reasoning);
    if (shown && (p->part != ev->kind || (answer ? a->new_text : a->new_reasoning))) {
        end_markdown(p);
        p->newlines = p->printed ? 2 : 0;
        p->part = ev->kind;
    }
    if (shown)
        (answer ? print_answer : print)(p, ev->text, ev->n);
    return shown || (p->terminal && p->printed);
}

/* Prints the answer, or its code block, if it was held back, and the last newline. */
static void text_done(struct reply *a, const struct chat_event *ev, int status)
{
    struct pipe *p = (struct pipe *)a;
    struct buf code = {0};
    (void)status;
    if (p->extract) {
        a->lacks = reply_code(a, &code) ? NULL : "the answer has no code block";
        print(p, buf_str(&code), code.len);
    } else if (!p->streams) {           /* all of it was held back */
        if (p->show_reasoning)
            print(p, buf_str(&a->reasoning), a->reasoning.len);
        if (p->printed)
            p->newlines = 2;
        if (p->show_answer)
            print_answer(p, buf_str(&a->text), a->text.len);
    }
    end_markdown(p);
    if (p->printed || (ev->end == END_INTERRUPTED && p->terminal))      /* ^C is on the line */
        reply_write(a, "\n", 1);
    buf_free(&code);
}

static void text_failed(struct reply *a, const char *why, int status)
{
    struct pipe *p = (struct pipe *)a;
    (void)why;
    (void)status;
    end_markdown(p);
    if (p->printed)
        reply_write(a, "\n", 1);
}

static const struct reply_form reply_text = {.event = text_event, .done = text_done, .failed = text_failed};

/* --- a turn ------------------------------------------------------------------------------------------------------ */

/* Sends the prompt, or sets the status. */
static void submit(struct reply *a, struct buf *prompt)
{
    struct buf resumed = {0};
    struct err e = {0};
    if (!chat_resume(a->chat, &resumed, &e)) {
        process_say(e.msg);
        a->status = EXIT_FAILED;
    } else if (!reply_attach_files(a, &e)) {
        process_say(e.msg);
        a->status = EXIT_USAGE;
    } else {
        if (resumed.len)
            process_say(resumed.data);
        if (a->form->begin)
            a->form->begin(a);
        if (!chat_submit(a->chat, buf_str(prompt), prompt->len, &e))
            reply_fail(a, e.msg, EXIT_MODEL);          /* the model failed while stdin was read */
        waiting_turn(&a->waiting);
    }
    buf_free(&resumed);
}

/* Returns the state of an answer to a pipe, as the options say. */
static struct pipe make_pipe(struct options *o)
{
    const char *reasoning = options_text(o, OPT_reasoning);
    const bool only = !strcmp(reasoning, "only");
    struct pipe p = {
        .a = {.form = options_on(o, OPT_json) ? &reply_json : options_on(o, OPT_jsonl) ? &reply_jsonl : &reply_text, .o = o, .about = "",
              .verbose = options_on(o, OPT_verbose), .strict = options_on(o, OPT_strict), .keeps = true, .reasoning_only = only,
              .start_ns = clock_ns(), .status = -1},
        .terminal = isatty(1),
        .prints = printer_usable(o),
        .extract = options_on(o, OPT_extract),
        .streams = options_on(o, OPT_stream) && !options_on(o, OPT_extract),
        .show_reasoning = only || !strcmp(reasoning, "show"),
        .show_answer = !only,
    };
    if (options_real(o, OPT_timeout) > 0)
        p.a.deadline_ns = p.a.start_ns + (int64_t)(options_real(o, OPT_timeout) * 1e9);
    return p;
}

static int no_model(struct reply *a, const char *why)
{
    if (a->form->begin)
        a->form->begin(a);
    reply_fail(a, why, EXIT_MODEL);
    return a->status;
}

void pipe_no_model(struct options *o, const char *why)
{
    struct pipe p = make_pipe(o);
    no_model(&p.a, why);
}

int pipe_run(struct options *o, struct buf *prompt)
{
    static const struct chat_front front = {.tools = "none"};
    struct pipe p = make_pipe(o);
    struct reply *a = &p.a;
    struct err e = {0};
    bool use_stdin = options_on(o, OPT_stdin) && !isatty(0);
    if (!use_stdin && prompt_is_blank(prompt))
        return process_fail(EXIT_USAGE, "no prompt: give one as arguments or on stdin");
    if (options_given(o, OPT_resume) && !*options_text(o, OPT_resume))
        return process_fail(EXIT_USAGE, "-r needs the name of a conversation here; q35chat session list shows them");
    if (!prompt_check_files(o, &e))
        return process_fail(EXIT_USAGE, e.msg);
    if (prompt_ignores_file(prompt) && a->strict)
        return EXIT_USAGE;
    interrupt_open();
    a->chat = chat_open(ui_responder(o, &e), o, &front, &e);    /* loads while stdin is being read */
    if (!a->chat)
        return no_model(a, e.msg);
    /* Shows the model's notice to a user who sees the answer on a terminal and named no model. */
    bool unnamed = p.terminal && isatty(2) && options_from(p.a.o, OPT_model) == FROM_DEFAULT;
    const char *notice = chat_notice(p.a.chat);
    struct buf line = {0};
    if ((unnamed || p.a.verbose) && notice) {
        buf_add(&line, notice, strcspn(notice, "\n"));         /* the rest suggests questions for a chat */
        process_say(buf_str(&line));
    }
    buf_free(&line);
    reply_init(a);
    if (p.prints)
        printer_open(&p.printer, o);
    waiting_open(&a->waiting, o);
    int status = use_stdin ? prompt_read_stdin(o, prompt, a->deadline_ns) : EXIT_ANSWERED;
    if (status)
        a->status = status;
    else if (prompt_is_blank(prompt))
        a->status = process_fail(EXIT_USAGE, "no prompt: stdin is empty");
    else
        submit(a, prompt);
    reply_run(a);
    /* A model that is still loading is not waited for when the program should end. */
    if (!chat_ready(a->chat) && (a->status >= EXIT_SIGNAL || a->status == EXIT_TIMEOUT)) {
        fflush(stdout);
        if (a->status > EXIT_SIGNAL)
            interrupt_die(a->status - EXIT_SIGNAL);
        _exit(a->status);
    }
    printer_free(&p.printer);
    reply_free(a);
    chat_close(a->chat);
    return a->status;
}

/* --- batch --------------------------------------------------------------------------------------------------------- */

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

/* done: how the turn ended; NULL: there was none. */
static void put_answer(struct batch *b, json_t *answer, const struct chat_event *done, int status)
{
    json_t *head = json_pack("{s:i}", "line", b->line);
    struct buf text = {0}, rest = {0};
    if (b->id)
        json_object_set(head, "id", b->id);
    json_object_set_new(answer, "exit", json_integer(status));
    json_print(&text, head, JSON_COMPACT);              /* apart, since an id keeps all its digits */
    json_print(&rest, answer, JSON_COMPACT | JSON_REAL_PRECISION(10));
    if (done)
        reply_add_parsed(&b->a, done, &rest);
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
    put_answer((struct batch *)a, reply_object(a, ev), ev, status);
}

static void batch_failed(struct reply *a, const char *why, int status)
{
    struct batch *b = (struct batch *)a;
    put_answer(b, json_pack("{s:o}", "error", json_text(why, strlen(why))), NULL, status);
    b->over |= status == EXIT_MODEL;
}

static const struct reply_form reply_batch = {.done = batch_done, .failed = batch_failed};

/* --- a JSON line ------------------------------------------------------------------------------------------------- */

/* The keys of a line: options of its request, then the four that are none. */
static const char *const keys[] = {
#define SAMPLING_NUMBER(name, ...) #name,
#include "config/sampling_numbers.def"
    "top_k", "logit_bias", "seed", "max_tokens", "stop", "preset", "think", "think_budget", "system",
    "schema", "pattern", "choices", "schema_loose", "schema_prompt",
    "prompt", "messages", "files", "id",
};
enum { N_KEYS = sizeof keys / sizeof *keys, N_OPTION_KEYS = N_KEYS - 4 };

static bool add_choices(const json_t *list, struct buf *text, struct err *e)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *choice = json_array_get(list, i);
        const char *s = json_string_value(choice);
        if (!s || !*s || strlen(s) != json_string_length(choice))
            return err_set(e, "choices must be a list of texts, none of them empty");
    }
    json_print(text, list, JSON_COMPACT);
    return true;
}

/* Appends the value of schema, pattern or choices as its option has it.  A line may not name the file of a schema. */
static bool add_form(enum option_id id, const json_t *value, struct buf *text, struct err *e)
{
    const char *s = json_string_value(value);
    const bool filled = s && *s && strlen(s) == json_string_length(value);
    const struct text t = text_trim(text_of(filled ? s : ""));
    if (filled && (id != OPT_schema || text_starts(t, "{") || text_is(t, "true") || text_is(t, "false") || !strcmp(s, "off"))) {
        buf_adds(text, s);
        return true;
    }
    if (id == OPT_schema && (json_is_object(value) || json_is_boolean(value))) {
        json_print(text, value, JSON_ENCODE_ANY);
        return true;
    }
    if (id == OPT_choices && json_array_size(value))
        return add_choices(value, text, e);
    return err_set(e, "%s must be %s", options_key(id), id == OPT_schema ? "a JSON schema, an object or its text" : id == OPT_pattern
                   ? "a regular expression, a text that is not empty" : "a list of texts, or one text with commas between them");
}

/* Sets schema, pattern or choices in place of those of the command line. */
static bool set_form(struct batch *b, enum option_id id, const json_t *value, struct err *e)
{
    struct buf text = {0};
    const bool ok = add_form(id, value, &text, e) && forms_set(b->a.o, id, buf_str(&text), FROM_SET, e);
    buf_free(&text);
    return ok;
}

/* Checks that a line has at most one of schema, pattern and choices, besides those that are off. */
static bool has_one_form(const json_t *line, struct err *e)
{
    static const char *const forms[] = {"schema", "pattern", "choices"};
    int n = 0;
    for (int i = 0; i < 3; i++) {
        const json_t *v = json_object_get(line, forms[i]);
        n += v && !(json_is_string(v) && !strcmp(json_string_value(v), "off"));
    }
    return n < 2 || err_set(e, "schema, pattern and choices cannot be combined: an answer has one form");
}

/* Sets an option from a value of a batch line.  False with the reason. */
static bool set_option(struct batch *b, enum option_id id, const json_t *value, struct err *e)
{
    char number[64];
    if (forms_is(id))
        return set_form(b, id, value, e);
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

/* Takes a key of a batch line: an option, or one that take_object() reads.  False with the reason. */
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
    return json_is_array(value) && !forms_is(id) ? set_list(b, id, value, e) : set_option(b, id, value, e);
}

/* Attaches the files of a batch line, if --batch-files allows them. */
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

/* Takes a batch line that is a JSON object: options, files, and the prompt or messages. */
static bool take_object(struct batch *b, const json_t *j, struct err *e)
{
    const json_t *prompt = json_object_get(j, "prompt"), *messages = json_object_get(j, "messages");
    const char *key;
    json_t *value;
    const json_t *loose = json_object_get(j, "schema_loose");   /* first: what a schema may have depends on it */
    if (!has_one_form(j, e) || (loose && !take_option(b, "schema_loose", loose, e)))
        return false;
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

/* Takes a batch line: a JSON object, or text that is the prompt. */
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

/* Answers one line of a batch; its options end with it. */
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
        process_say(e.msg);
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
