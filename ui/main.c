#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/memory.h"
#include "chat/forms.h"
#include "chat/sent.h"
#include "option/endpoint.h"
#include "option/options.h"
#include "session/file.h"
#include "session/list.h"
#include "tool/tool.h"
#include "ui/front.h"
#include "ui/model.h"
#include "ui/process.h"
#include "ui/prompt.h"
#include "ui/subcommand.h"
#include "ui/tui/term.h"

/* --- names in options: tools, an endpoint, a conversation ------------------------------------------------------- */

static bool check_tools(const struct options *o, struct err *e)
{
    struct tools *t = tools_open(o, e);
    const char *list = options_text(o, OPT_tools);
    bool ok = t && tools_offer(t, strcmp(list, "auto") ? list : "all", e) && tools_check_policy(t, options_text(o, OPT_tools_approve), e);
    tools_close(t);
    return ok;
}

static bool check_endpoint(const struct options *o, struct err *e)
{
    struct endpoint ep = {0};
    bool ok = !*options_text(o, OPT_endpoint) || endpoint_find(o, &ep, e);
    endpoint_free(&ep);
    return ok;
}

static bool check_conversation(const struct options *o, bool chats, struct err *e)
{
    struct buf newest = {0};
    const char *name = options_text(o, OPT_resume);
    bool ok = *name ? session_exists(name, e)
                    : chats || !options_on(o, OPT_continue) || sessions_newest(&newest) || err_set(e, "no saved conversation to continue");
    buf_free(&newest);
    return ok;
}

/* Checks names before a model is loaded.  False with the name and what there is.  chats: the program opens a chat, which can be a new one if
 * --continue finds none. */
static bool check_names(const struct options *o, bool chats, struct err *e)
{
    return check_tools(o, e) && check_endpoint(o, e) && check_conversation(o, chats, e) && tui_check_keys(o, e);
}

/* --- options that do not go together ----------------------------------------------------------------------------- */

/* Checks what cannot be combined on a command line. */
static bool agree(const struct options *o, const char *first_word, struct err *e)
{
    if (options_on(o, OPT_json) && options_on(o, OPT_jsonl))
        return err_set(e, "--json and --jsonl cannot be combined: one object at the end, or events as they come");
    if (options_on(o, OPT_extract) && (options_on(o, OPT_json) || options_on(o, OPT_jsonl)))
        return err_set(e, "-x prints code blocks as they are: it cannot be combined with --json or --jsonl");
    static const enum option_id no_batch[] = {OPT_json, OPT_jsonl, OPT_extract, OPT_resume, OPT_continue};
    for (size_t i = 0; options_on(o, OPT_batch) && i < sizeof no_batch / sizeof *no_batch; i++)
        if (options_given(o, no_batch[i]))
            return err_set(e, "--batch cannot be combined with --%s: its answers are JSON lines, each a conversation of its own",
                           options_key(no_batch[i]));
    if (options_on(o, OPT_batch) && options_name(o, OPT_save))
        return err_set(e, "--batch keeps no conversations: --save is for one");
    if (!options_on(o, OPT_batch) && (options_on(o, OPT_batch_json) || options_on(o, OPT_batch_files)))
        return err_set(e, "--batch-json and --batch-files need --batch");
    if (options_name(o, OPT_save) && (options_given(o, OPT_resume) || options_on(o, OPT_continue)))
        return err_set(e, "--save NAME begins a conversation; -r and -c continue one");
    int n_files;
    options_list(o, OPT_file, &n_files);
    if (!n_files && options_from(o, OPT_file) == FROM_COMMAND_LINE)
        return err_set(e, "-f is empty, expected the path of a file");
    if (first_word && subcommand_is_name(first_word))
        return err_set(e, "'%s' is a sub-command, which goes before all options; put -- before a prompt that begins so", first_word);
    return true;
}

/* Returns the option that opens a chat; OPT_batch: none was given. */
static enum option_id chat_option(const struct options *o)
{
    static const enum option_id asks[] = {OPT_interactive, OPT_tui, OPT_line};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        if (options_on(o, asks[i]))
            return asks[i];
    return OPT_batch;
}

/* True if a chat opens; otherwise the program gives one answer, or one for each line of --batch. */
static bool opens_chat(const struct options *o, const struct buf *prompt)
{
    static const enum option_id answers[] = {OPT_json, OPT_jsonl, OPT_batch};
    bool chat = isatty(0) && !prompt->len;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        chat = chat && !options_on(o, answers[i]);
    return chat || chat_option(o) != OPT_batch;
}

/* Refuses what has no meaning in a chat. */
static bool agree_on_chat(const struct options *o, const struct buf *prompt, struct err *e)
{
    enum option_id asks = chat_option(o);
    struct option_about about;
    for (int id = 0; options_about((enum option_id)id, &about); id++)
        if (about.of_answer && options_from(o, (enum option_id)id) == FROM_COMMAND_LINE
            && strcmp(options_text(o, (enum option_id)id), about.standard))
            return asks == OPT_batch ? err_set(e, "--%s is for one answer, and without a prompt this is a chat", about.key)
                                     : err_set(e, "--%s is for one answer, and --%s opens a chat", about.key, options_key(asks));
    return !prompt->len || !options_given(o, OPT_resume) || *options_text(o, OPT_resume)
        || err_set(e, "-r needs the name of a conversation when there is a prompt; q35chat session list shows them");
}

/* --save NAME never writes into another conversation.  A path needs a directory; the one for names is made. */
static bool is_free(const char *name, struct err *e)
{
    struct buf path = {0}, dir = {0};
    bool ok = !name || session_path_of(name, &path, e);
    if (ok && name && !access(path.data, F_OK))
        ok = err_set(e, "the conversation %s exists; -r %s continues it", name, name);
    if (ok && name && strchr(name, '/')) {
        buf_add(&dir, path.data, (size_t)(strrchr(path.data, '/') - path.data) + 1);
        ok = !access(dir.data, W_OK) || err_set(e, "cannot make %s: %s", path.data, strerror(errno));
    }
    buf_free(&path);
    buf_free(&dir);
    return ok;
}

/* Replaces `system = @FILE` by the text of the file. */
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
    const char *place = options_place(o, OPT_system);
    if (!ok && place) {
        const struct err why = *e;
        err_set(e, "%s: %s", place, why.msg);
    }
    ok = ok && options_set(o, OPT_system, buf_str(&text), options_from(o, OPT_system), e);
    buf_free(&text);
    return ok;
}

/* Reads the options of a chat from the config file, the environment and the command line, in this order.  False with the reason. */
static bool read_options(struct options *o, int argc, char **argv, struct buf *prompt, struct err *e)
{
    /* Reads all options.  The command line is read twice: it names the config file, and overrides it. */
    struct options *first = options_open();
    const char *word;
    bool ok = options_read_args(first, argc, argv, prompt, &word, e) && agree(first, word, e);
    const char *file = options_text(first, OPT_config);
    buf_reset(prompt);
    bool tells = options_on(first, OPT_help) || options_on(first, OPT_version);         /* works with a broken file too */
    ok = ok && (tells ? true : *file ? options_read_file(o, file, e) : options_read_usual_file(o, e));
    options_close(first);
    return ok && options_read_environment(o, e) && options_read_args(o, argc, argv, prompt, &word, e) && read_system(o, e) && forms_read(o, e)
           && (!options_name(o, OPT_save) || !options_on(o, OPT_private)
               || err_set(e, "--save and --private cannot be combined: a private conversation is not saved"))
           && is_free(options_name(o, OPT_save), e);
}

/* Prints warnings about options, and about endpoint settings that have no effect. */
static void warn(struct options *o)
{
    struct buf unused = {0};
    endpoint_unused(o, &unused);
    if (unused.len)
        options_warn_of(o, unused.data);
    buf_free(&unused);
    process_warn(options_warnings(o));
}

/* Prints what was asked about the program; -1: nothing was. */
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
    status = process_print(&out, isatty(1), status);    /* values of options may hold anything; a file gets them as they are */
    buf_free(&out);
    return status;
}

/* Opens the full screen if the terminal allows it, otherwise line mode, after a line with the reason. */
static int talk(struct options *o, const struct opening *first)
{
    struct err why = {0};
    bool can = isatty(1) ? term_usable(&why) : err_set(&why, "stdout is not a terminal");
    if (options_on(o, OPT_line))
        return line_run(o, first);
    if (options_on(o, OPT_tui) && !can) {
        fprintf(stderr, "q35chat: --tui cannot be used here: %s\n", why.msg);
        return EXIT_USAGE;
    }
    if (can && options_on(o, OPT_accessible) && !options_on(o, OPT_tui))
        can = err_set(&why, getenv("ACCESSIBLE") ? "ACCESSIBLE is set" : "the option accessible is on");
    if (can)
        return tui_run(o, first);
    fprintf(stderr, "line mode: %s\n", why.msg);
    return line_run(o, first);
}

/* Runs a chat; returns the exit status. */
static int chat(struct options *o, struct buf *prompt)
{
    struct opening first = {0};
    int status = prompt_opening(o, prompt, &first);
    if (!status && options_on(o, OPT_attach) && options_on(o, OPT_share) && !*options_text(o, OPT_endpoint))
        waiter_start();
    if (!status)
        status = talk(o, &first);
    buf_free(&first.text);
    return status;
}

/* Suggests a sub-command for a prompt that looks like a mistyped one, before a model is loaded; on a terminal, asks whether to go ahead. */
static bool confirm_prompt(int argc, char **argv, const struct buf *prompt)
{
    struct buf line = {0};
    bool words = argc > 1 && !strchr(argv[1], ' ') && !strncmp(buf_str(prompt), argv[1], strlen(argv[1]));
    bool ask = words && *argv[1] && subcommand_meant(buf_str(prompt), &line), yes = true;
    if (ask)
        fprintf(stderr, "q35chat: asked as a prompt; did you mean %s?\n", line.data);
    if (ask && isatty(0) && isatty(2)) {
        char typed[16] = "";
        fputs("Ask the model? [y/N] ", stderr);
        yes = fgets(typed, sizeof typed, stdin) && (*typed == 'y' || *typed == 'Y');
    }
    buf_free(&line);
    return yes;
}

/* Finds the model, then chats or answers. */
static int run(struct options *o, struct buf *prompt)
{
    struct err e = {0};
    const bool chats = opens_chat(o, prompt);
    int status = EXIT_USAGE;
    if ((!chats || agree_on_chat(o, prompt, &e)) && check_names(o, chats, &e))
        status = model_choose(o, &e);
    if (status == EXIT_MODEL && !chats && !options_on(o, OPT_batch))
        pipe_no_model(o, e.msg);
    else if (status)
        process_say(e.msg);
    else
        status = chats ? chat(o, prompt) : options_on(o, OPT_batch) ? batch_run(o, prompt) : pipe_run(o, prompt);
    return status;
}

int main(int argc, char **argv)
{
    /* A closed stdin, stdout or stderr becomes /dev/null, since the next file that is opened would take its number.  Reading then finds an end,
     * writing an answer fails, messages are lost. */
    static const int modes[] = {O_RDWR, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) < 0)
            _exit(EXIT_FAILED);
    signal(SIGXFSZ, SIG_IGN);           /* a file that may not become longer (ulimit -f) is a write that fails, and not the end */
    /* Threads get a stack of the usual size: what the shell allows to the first one may be little. */
    enum { STACK = 8 << 20 };
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, STACK);
    pthread_setattr_default_np(&a);
    pthread_attr_destroy(&a);
    mapped_watch();
    json_set_alloc_funcs(memory_alloc, free);           /* else jansson reports a lack of memory as an error in the text */
    struct options *o = options_open();
    struct buf prompt = {0};
    struct err e = {0};
    int status;
    if (subcommand_is(argc, argv)) {
        status = subcommand_main(argc, argv);
    } else if (!read_options(o, argc, argv, &prompt, &e)) {
        process_say(e.msg);
        status = EXIT_USAGE;
    } else if (warn(o), (status = tell(o)) < 0) {
        status = confirm_prompt(argc, argv, &prompt) ? run(o, &prompt) : EXIT_USAGE;
    }
    buf_free(&prompt);
    options_close(o);
    if (status > EXIT_SIGNAL)
        interrupt_die(status - EXIT_SIGNAL);
    return status;
}
