#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mapped.h"
#include "base/memory.h"
#include "chat/attach.h"
#include "chat/endpoint.h"
#include "chat/options.h"
#include "chat/session.h"
#include "ui/batch.h"
#include "ui/choose_model.h"
#include "ui/completions.h"
#include "ui/exits.h"
#include "ui/interrupt.h"
#include "ui/line.h"
#include "ui/names.h"
#include "ui/pipe.h"
#include "ui/subcommand.h"
#include "ui/tui/term.h"
#include "ui/tui/tui.h"
#include "ui/waiter.h"

/* What cannot stand together on a command line. */
static bool agree(const struct options *o, const char *first_word, struct err *e)
{
    if (options_on(o, OPT_json) && options_on(o, OPT_jsonl))
        return err_set(e, "--json and --jsonl cannot be had together: one object at the end, or events as they come");
    if (options_on(o, OPT_extract) && (options_on(o, OPT_json) || options_on(o, OPT_jsonl)))
        return err_set(e, "-x prints code blocks as they are: it cannot be had with --json or --jsonl");
    static const enum option_id no_batch[] = {OPT_json, OPT_jsonl, OPT_extract, OPT_resume, OPT_continue};
    for (size_t i = 0; options_on(o, OPT_batch) && i < sizeof no_batch / sizeof *no_batch; i++)
        if (options_given(o, no_batch[i]))
            return err_set(e, "--batch cannot be had with --%s: its answers are JSON lines, each a conversation of its own",
                           options_key(no_batch[i]));
    if (options_on(o, OPT_batch) && options_name(o, OPT_save))
        return err_set(e, "--batch keeps no conversations: --save is for one");
    if (!options_on(o, OPT_batch) && (options_on(o, OPT_batch_json) || options_on(o, OPT_batch_files)))
        return err_set(e, "--batch-json and --batch-files need --batch");
    if (options_name(o, OPT_save) && (options_given(o, OPT_resume) || options_on(o, OPT_continue)))
        return err_set(e, "--save NAME begins a conversation; -r and -c go on with one");
    int n_files;
    options_list(o, OPT_file, &n_files);
    if (!n_files && options_from(o, OPT_file) == FROM_COMMAND_LINE)
        return err_set(e, "-f is empty, expected the path of a file");
    if (first_word && subcommand_is_name(first_word))
        return err_set(e, "'%s' is a sub-command, which goes before all options; put -- before a prompt that begins so", first_word);
    return true;
}

/* --save NAME never writes into another conversation.  A path needs a directory; the one for names is made. */
static bool is_free(const char *name, struct err *e)
{
    struct buf path = {0}, dir = {0};
    bool ok = !name || session_path_of(name, &path, e);
    if (ok && name && !access(path.data, F_OK))
        ok = err_set(e, "there is a conversation %s already; -r %s goes on with it", name, name);
    if (ok && name && strchr(name, '/')) {
        buf_add(&dir, path.data, (size_t)(strrchr(path.data, '/') - path.data) + 1);
        ok = !access(dir.data, W_OK) || err_set(e, "cannot make %s: %s", path.data, strerror(errno));
    }
    buf_free(&path);
    buf_free(&dir);
    return ok;
}

/* `system = @FILE`: what the file says. */
static bool read_system(struct options *o, struct err *e)
{
    const char *file = options_text(o, OPT_system);
    struct buf text = {0};
    size_t bytes;
    if (*file != '@')
        return true;
    bool ok = attach_file(file + 1, &bytes, &text, NULL, e);
    while (text.len && text.data[text.len - 1] == '\n')
        text.data[--text.len] = 0;
    ok = ok && options_set(o, OPT_system, buf_str(&text), FROM_COMMAND_LINE, e);
    buf_free(&text);
    return ok;
}

static bool read_options(struct options *o, int argc, char **argv, struct buf *prompt, struct err *e)
{
    /* The command line is read twice: it names the config file, and it is stronger than the config file. */
    struct options *first = options_open();
    const char *word;
    bool ok = options_read_args(first, argc, argv, prompt, &word, e) && agree(first, word, e);
    const char *file = options_text(first, OPT_config);
    buf_reset(prompt);
    bool tells = options_on(first, OPT_help) || options_on(first, OPT_version);         /* works with a broken file too */
    ok = ok && (tells ? true : *file ? options_read_file(o, file, e) : options_read_usual_file(o, e));
    options_close(first);
    return ok && options_read_environment(o, e) && options_read_args(o, argc, argv, prompt, &word, e) && read_system(o, e)
           && is_free(options_name(o, OPT_save), e);
}

static void warn(struct options *o)
{
    struct buf unused = {0};
    endpoint_unused(o, &unused);
    if (unused.len)
        options_warn_of(o, unused.data);
    buf_free(&unused);
    for (const char *p = options_warnings(o), *end; (end = strchr(p, '\n')); p = end + 1)
        log_warn("%.*s", (int)(end - p), p);
}

/* What only tells about the program; -1 if nothing of the kind was asked. */
static int tell(const struct options *o)
{
    struct buf out = {0};
    if (options_on(o, OPT_help))
        options_help(&out);
    else if (options_on(o, OPT_version))
        buf_adds(&out, "q35chat " Q35_VERSION "\nApache-2.0; bundled data: see LICENSE\n");
    else if (options_on(o, OPT_print_config))
        options_print(o, &out);
    else if (options_given(o, OPT_print_completions))
        completions_print(options_text(o, OPT_print_completions), &out);
    int status = out.len ? EXIT_ANSWERED : -1;
    fputs(buf_str(&out), stdout);
    buf_free(&out);
    return fflush(stdout) ? EXIT_FAILED : status;
}

/* A closed stdin, stdout or stderr would be taken by the next file that is opened.  Reading then finds an end, writing an
 * answer fails, messages go nowhere. */
static void hold_closed(void)
{
    static const int modes[] = {O_RDWR, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) < 0)
            _exit(EXIT_FAILED);
}

/* Of the threads: not what the shell allows to the first one, which may be little. */
static void usual_stacks(void)
{
    enum { STACK = 8 << 20 };
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, STACK);
    pthread_setattr_default_np(&a);
    pthread_attr_destroy(&a);
}

static int refuse_screen(const char *why)
{
    fprintf(stderr, "q35chat: --tui cannot be had here: %s\n", why);
    return EXIT_USAGE;
}

/* Full screen where that can be had; else line by line, and a word why. */
static int talk(struct options *o)
{
    struct err why = {0};
    bool can = isatty(1) ? term_usable(&why) : err_set(&why, "stdout is not a terminal");
    if (options_on(o, OPT_line))
        return line_run(o);
    if (options_on(o, OPT_tui) && !can)
        return refuse_screen(why.msg);
    if (can && options_on(o, OPT_accessible) && !options_on(o, OPT_tui))
        can = err_set(&why, getenv("ACCESSIBLE") ? "ACCESSIBLE is set" : "the option accessible is on");
    if (can)
        return tui_run(o);
    fprintf(stderr, "line mode: %s\n", why.msg);
    return line_run(o);
}

static bool may_be_shared(const struct options *o)
{
    return options_on(o, OPT_attach) && options_on(o, OPT_share) && !*options_text(o, OPT_endpoint);
}

static int chat(struct options *o)
{
    if (may_be_shared(o))
        waiter_start();
    return talk(o);
}

int main(int argc, char **argv)
{
    hold_closed();
    signal(SIGXFSZ, SIG_IGN);           /* a file that may not become longer (ulimit -f) is a write that fails, and not the end */
    usual_stacks();
    mapped_watch();
    json_set_alloc_funcs(memory_alloc, free);           /* else it takes a lack of memory for an error in the text */
    struct options *o = options_open();
    struct buf prompt = {0};
    struct err e = {0};
    int status;
    if (subcommand_is(argc, argv)) {
        status = subcommand_main(argc, argv);
    } else if (!read_options(o, argc, argv, &prompt, &e)) {
        fprintf(stderr, "q35chat: %s\n", e.msg);
        status = EXIT_USAGE;
    } else if (warn(o), (status = tell(o)) >= 0) {
        ;
    } else if ((status = names_check(o, &e) ? choose_model(o, &e) : EXIT_USAGE) == EXIT_MODEL && !options_on(o, OPT_batch)) {
        pipe_no_model(o, e.msg);
    } else if (status) {
        fprintf(stderr, "q35chat: %s\n", e.msg);
    } else {
        bool chats = isatty(0) && !prompt.len && !options_on(o, OPT_json) && !options_on(o, OPT_jsonl);
        status = options_on(o, OPT_batch) ? batch_run(o, &prompt)
                 : chats ? chat(o)
                 : options_on(o, OPT_tui) ? refuse_screen("it is for chats, not for one answer") : pipe_run(o, &prompt);
    }
    buf_free(&prompt);
    options_close(o);
    if (status > EXIT_SIGNAL)
        interrupt_die(status - EXIT_SIGNAL);
    return status;
}
