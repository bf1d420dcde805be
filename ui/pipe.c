#include "ui/pipe.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unicode.h"
#include "chat/chat.h"
#include "ui/printer.h"
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
    if (p->printed || !(p->extract || end_failed(ev->end) || (ev->end == END_INTERRUPTED && !p->terminal)))
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
        prompt_say(e.msg);
        a->status = EXIT_FAILED;
    } else if (!reply_attach_files(a, &e)) {
        prompt_say(e.msg);
        a->status = EXIT_USAGE;
    } else {
        if (resumed.len)
            prompt_say(resumed.data);
        if (a->form->begin)
            a->form->begin(a);
        if (!chat_submit(a->chat, buf_str(prompt), prompt->len, &e))
            reply_fail(a, e.msg, EXIT_MODEL);          /* the model failed while stdin was read */
        waiting_turn(&a->waiting);
    }
    buf_free(&resumed);
}

/* Shows the model's notice to a user who sees the answer on a terminal and named no model. */
static void show_notice(const struct pipe *p)
{
    bool unnamed = p->terminal && isatty(2) && options_from(p->a.o, OPT_model) == FROM_DEFAULT;
    const char *notice = chat_notice(p->a.chat);
    struct buf line = {0};
    if ((unnamed || p->a.verbose) && notice) {
        buf_add(&line, notice, strcspn(notice, "\n"));         /* the rest suggests questions for a chat */
        prompt_say(buf_str(&line));
    }
    buf_free(&line);
}

static int usage(const char *why)
{
    prompt_say(why);
    return EXIT_USAGE;
}

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
        return usage("no prompt: give one as arguments or on stdin");
    if (options_given(o, OPT_resume) && !*options_text(o, OPT_resume))
        return usage("-r needs the name of a conversation here; q35chat session list shows them");
    if (!prompt_check_files(o, &e))
        return usage(e.msg);
    if (prompt_ignores_file(prompt) && a->strict)
        return EXIT_USAGE;
    interrupt_open();
    a->chat = chat_open(ui_responder(o, &e), o, &front, &e);    /* loads while stdin is being read */
    if (!a->chat)
        return no_model(a, e.msg);
    show_notice(&p);
    reply_init(a);
    if (p.prints)
        printer_open(&p.printer, o);
    waiting_open(&a->waiting, o);
    int status = use_stdin ? prompt_read_stdin(o, prompt, a->deadline_ns) : EXIT_ANSWERED;
    if (status)
        a->status = status;
    else if (prompt_is_blank(prompt))
        a->status = usage("no prompt: stdin is empty");
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
