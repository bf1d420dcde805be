#include "ui/front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "chat/chat.h"
#include "chat/command.h"
#include "ui/lineedit.h"
#include "ui/process.h"
#include "ui/prompt.h"
#include "ui/responder.h"
#include "ui/turn.h"

struct line {
    struct turn turn;                   /* first: ask_approval() casts it back to struct line */
    struct options *o;
    struct chat *chat;
    struct lineedit *edit;
};

/* --- questions -------------------------------------------------------------------------------------------------- */

/* Recognizes a clear word only: a message typed at the wrong moment decides nothing. */
static bool decision(const char *typed, enum chat_answer *answer)
{
    static const struct { const char *word; enum chat_answer answer; } words[] = {
        {"y", CHAT_YES}, {"yes", CHAT_YES}, {"n", CHAT_NO}, {"no", CHAT_NO}, {"a", CHAT_ALWAYS}, {"always", CHAT_ALWAYS},
    };
    size_t n = strcspn(typed, " \t");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == n && !strncasecmp(typed, words[i].word, n) && !typed[n + strspn(typed + n, " \t")]) {
            *answer = words[i].answer;
            return true;
        }
    return false;
}

/* Asks whether a tool may run.  Keys typed before the question, and pastes, are no answer. */
static enum chat_answer ask_approval(struct turn *t, const char *name, const char *arguments)
{
    struct line *l = (struct line *)t;
    struct buf answer = {0};
    enum chat_answer result = CHAT_NO;
    (void)arguments;                    /* on the screen already */
    lineedit_forget(l->edit);
    turn_say(t, "run %s?  y: yes, n: no, always: not asked again in this chat\n", name);
    bool known = false;
    while (!known && lineedit_answer(l->edit, t->speaks ? "Your answer: " : "[y/n/always] ", &answer)) {
        known = decision(buf_str(&answer), &result);
        buf_reset(&answer);
    }
    if (lineedit_interrupted(l->edit) || lineedit_gone(l->edit))
        chat_interrupt(l->chat);
    buf_free(&answer);
    lineedit_rest(l->edit);             /* libedit has left the terminal as it was before the turn */
    return result;
}

/* Asks whether the summary that the model has written, which is on the screen, is to replace the messages. */
static void ask_about_summary(struct line *l)
{
    struct buf text = {0};
    enum chat_answer answer = CHAT_NO;
    bool known = false;
    buf_adds(&text, "this summary would ");
    if (chat_proposes(l->chat, &text)) {
        buf_adds(&text, ".  y: accept, /undo reverts it; n: discard\n");
        turn_say(&l->turn, "%s", text.data);
        buf_reset(&text);
        while (!known && lineedit_answer(l->edit, "[y/n] ", &text)) {
            known = decision(buf_str(&text), &answer);
            buf_reset(&text);
        }
        chat_decide(l->chat, known && answer != CHAT_NO);
        turn_say(&l->turn, known && answer != CHAT_NO ? "summary accepted\n" : "summary discarded; nothing has changed\n");
    }
    buf_free(&text);
}

/* --- the loop --------------------------------------------------------------------------------------------------- */

/* Shows a line that was to be edited, on a terminal that edits its lines itself and cannot be given one. */
static void say_again(struct line *l, const struct buf *text)
{
    turn_say(&l->turn, "it was: %s\n%s", buf_str(text), chat_edited(l->chat) < 0 ? "your next message replaces it\n" : "");
}

/* --- which of several models ------------------------------------------------------------------------------------ */

/* Prints the models of the server with their numbers; a star marks the one in use. */
static void list_models(struct line *l)
{
    const char *const *names;
    struct buf text = {0};
    int n = chat_models(l->chat, &names);
    const struct model_info *now = chat_info(l->chat);
    buf_addf(&text, "the server has %d model%s:\n", n, n == 1 ? "" : "s");
    for (int i = 0; i < n; i++)
        buf_addf(&text, "%c %2d  %s\n", now && !strcmp(now->model, names[i]) ? '*' : ' ', i + 1, names[i]);
    turn_say(&l->turn, "%s", text.data);
    buf_free(&text);
}

static bool choose_model(struct line *l, const char *name)
{
    struct err e = {0};
    bool ok = chat_choose_model(l->chat, name, &e);
    if (!ok)
        turn_say(&l->turn, "%s\n", e.msg);
    return ok;
}

/* Asks for one of the models.  False: none was chosen.  A line that names no model is a message that came too soon, and is put back. */
static bool ask_model(struct line *l)
{
    const char *const *names, *meant = NULL;
    struct buf typed = {0}, message = {0}, prompt = {0};
    list_models(l);
    buf_addf(&prompt, l->turn.speaks ? "Which model, 1 to %d: " : "which model? [1-%d] ", chat_models(l->chat, &names));
    while (!meant && lineedit_line(l->edit, prompt.data, &typed)) {
        meant = chat_model_meant(l->chat, buf_str(&typed));
        if (!meant && typed.len) {
            buf_reset(&message);
            buf_add(&message, typed.data, typed.len);
            turn_say(&l->turn, "no such entry: type a number or a name, or Ctrl-C to cancel\n");
        }
        if (!meant)
            buf_reset(&typed);
    }
    bool ok = meant && choose_model(l, meant);
    if (message.len && lineedit_edits(l->edit))
        lineedit_put(l->edit, &message);
    else if (message.len)
        say_again(l, &message);
    buf_free(&typed);
    buf_free(&message);
    buf_free(&prompt);
    return ok;
}

/* Asks for the model that a message waits for; without one the message comes back. */
static void choose_in_turn(struct turn *t)
{
    struct line *l = (struct line *)t;
    lineedit_resume(l->edit);
    if (!ask_model(l))
        chat_interrupt(l->chat);
    lineedit_rest(l->edit);
}

/* --- messages ---------------------------------------------------------------------------------------------------- */

/* Explains what sending does while an earlier message is edited. */
static void tell_edit(struct line *l)
{
    int message = chat_edited(l->chat), after = chat_n_messages(l->chat) - message - 1;
    if (message >= 0)
        turn_say(&l->turn, "your next message replaces that one%s; an empty line cancels\n", after ? " and everything after it" : "");
}

static void leave_edit(struct line *l)
{
    if (chat_edited(l->chat) >= 0)
        turn_say(&l->turn, "nothing was changed\n");
    chat_edit_end(l->chat);
}

/* Shows where the conversation is: the last message and its answer. */
static void show_end(struct line *l)
{
    struct buf text = {0};
    int n = chat_n_messages(l->chat);
    for (int i = n > 2 ? n - 2 : 0; i < n; i++) {
        struct chat_message m = chat_message(l->chat, i);
        bool user = !strcmp(m.role, "user");
        buf_addf(&text, "%s%s%s", l->turn.speaks ? user ? "You: " : "Answer: " : user ? "> " : "", m.text, m.stopped ? " [stopped]" : "");
        if (options_on(l->o, OPT_times) && m.time_s) {
            buf_adds(&text, " [");
            when_clock(&text, m.time_s, time(NULL));
            buf_addc(&text, ']');
        }
        buf_addc(&text, '\n');
    }
    turn_say(&l->turn, "%s", buf_str(&text));
    buf_free(&text);
}

/* Shows what a plain terminal has instead of a command of the full screen. */
static void do_without_screen(struct line *l, const char *command)
{
    struct buf text = {0};
    if (!strcmp(command, "keys") && !lineedit_edits(l->edit))
        buf_adds(&text, "Enter     sends; end a line with \\ to continue it, or put several lines between two \"\"\"\n"
                        "          Backspace, Ctrl-W and Ctrl-U delete a letter, a word, the line\n"
                        "Ctrl-C    stops the answer, which is kept; clears the line; Ctrl-D ends\n");
    else if (!strcmp(command, "keys"))
        buf_adds(&text, "Enter     sends; end a line with \\ to continue it, or put several lines between two \"\"\", or paste them\n"
                        "Tab       completes commands, options and files; Ctrl-R searches what was typed before\n"
                        "Ctrl-C    stops the answer, which is kept; clears the line; Ctrl-D ends\n");
    else if (!strcmp(command, "resume"))
        buf_adds(&text, "/resume needs a name; /sessions lists them, Tab completes them\n");
    else if (!strcmp(command, "theme"))
        buf_adds(&text, "/theme needs the full screen\n");
    else
        buf_addf(&text, "/%s needs the full screen\n", command);
    turn_say(&l->turn, "%s", text.data);
    buf_free(&text);
}

static bool say_refused(struct line *l, const struct err *e)
{
    turn_say(&l->turn, "%s\n", e->msg);
    return false;
}

/* Shows the answer to the message that was accepted. */
static void answer_message(struct line *l)
{
    lineedit_rest(l->edit);
    turn_run(&l->turn);
    lineedit_resume(l->edit);
    ask_about_summary(l);
}

/* Runs a command or sends a message.  False: the program ends. */
static bool take_message(struct line *l, const char *typed)
{
    struct buf out = {0};
    struct err e = {0};
    const char *message;
    enum command_result r = command_run(l->chat, l->o, typed, &message, &out);
    if (r == COMMAND_EDIT && !lineedit_edits(l->edit))
        say_again(l, &out);
    else if (r == COMMAND_EDIT)
        lineedit_put(l->edit, &out);
    else if (r == COMMAND_SCREEN)
        do_without_screen(l, message);
    else if (r == COMMAND_COPY)
        turn_say(&l->turn, "the clipboard needs the full screen; /copy FILE writes a file\n");
    else if (out.len)
        turn_say(&l->turn, "%s", out.data);
    if (r == COMMAND_EDIT)
        tell_edit(l);
    if (r == COMMAND_MOVED)
        show_end(l);
    buf_free(&out);
    if (r == COMMAND_TURN || (r == COMMAND_MESSAGE && (chat_submit(l->chat, message, strlen(message), &e) || say_refused(l, &e))))
        answer_message(l);
    return r != COMMAND_QUIT;
}

/* Prints the first lines of a chat: version, model, notices. */
static void banner(struct line *l)
{
    struct buf text = {0};
    const char *dir = chat_model_dir(l->chat), *slash = strrchr(dir, '/'), *name = slash && slash[1] ? slash + 1 : dir;
    buf_addf(&text, "q35chat " Q35_VERSION ", model %s.  /help lists the commands, Ctrl-D ends.\n", name);
    if (options_on(l->o, OPT_private))
        buf_adds(&text, "This chat is private: nothing is written to disk.\n");
    if (chat_notice(l->chat))
        buf_addf(&text, "%s\n", chat_notice(l->chat));
    turn_say(&l->turn, "%s", text.data);
    buf_free(&text);
}

/* Resumes the saved conversation and shows its end.  False, after the reason, if it cannot be read. */
static bool resume_session(struct line *l)
{
    struct buf text = {0};
    struct err e = {0};
    bool ok = chat_resume(l->chat, &text, &e);
    if (text.len)
        buf_addc(&text, '\n');
    if (!ok)
        buf_addf(&text, "%s\n", e.msg);
    else if (chat_saved_as(l->chat))
        buf_addf(&text, "%d messages in %s\n", chat_n_messages(l->chat), chat_saved_as(l->chat));
    turn_say(&l->turn, "%s", buf_str(&text));
    buf_free(&text);
    if (ok)
        show_end(l);
    return ok;
}

/* Sends the first message of the program.  A draft, or a message that was refused, becomes the line that is edited; where the terminal edits
 * its lines the files go with the message that is typed. */
static void begin(struct line *l, const struct opening *first)
{
    struct err e = {0};
    int n;
    const char *const *files = options_list(l->o, OPT_file, &n);
    if (first->sent) {
        turn_say(&l->turn, "%s%s\n", l->turn.speaks ? "You: " : "> ", buf_str(&first->text));
        lineedit_remember(l->edit, first->text.data);
    }
    if (first->sent && (prompt_submit(l->chat, first, &e) || say_refused(l, &e)))
        answer_message(l);
    else if (first->text.len && lineedit_edits(l->edit))
        lineedit_put(l->edit, &first->text);
    for (int i = 0; !first->sent && !lineedit_edits(l->edit) && i < n; i++)
        if (chat_attach(l->chat, files[i], &e) || say_refused(l, &e))
            turn_say(&l->turn, "%s goes with your first message\n", files[i]);
}

/* Takes messages until the user leaves. */
static void talk(struct line *l)
{
    struct buf text = {0};
    for (bool on = true; on;) {
        const bool typed = lineedit_message(l->edit, &text);
        if (lineedit_asks_model(l->edit)) {
            ask_model(l);
            on = !lineedit_gone(l->edit) && !interrupt_ending();
        } else if (!typed) {
            on = lineedit_interrupted(l->edit) && !lineedit_gone(l->edit) && !interrupt_ending();
            if (on)
                leave_edit(l);
        } else if (text.len) {
            lineedit_remember(l->edit, text.data);
            on = take_message(l, text.data) && !interrupt_ending();
        } else {
            leave_edit(l);
        }
    }
    buf_free(&text);
}

int line_run(struct options *o, const struct opening *first)
{
    static const struct chat_front front = {.can_ask = true, .keeps = true, .attaches = true, .reads_ahead = true,
                                            .tools = "all"};
    struct line l = {.o = o};
    struct buf text = {0};
    struct err e = {0};
    interrupt_open();
    l.chat = chat_open(ui_responder_of_chat(o, &e), o, &front, &e);
    if (!l.chat) {
        return process_fail(EXIT_MODEL, e.msg);
    }
    turn_init(&l.turn, l.chat, o);
    l.turn.ask = ask_approval;
    l.turn.choose = choose_in_turn;
    l.turn.wraps = isatty(1);
    l.edit = lineedit_open(&l.turn, o);
    banner(&l);
    const bool on = resume_session(&l);
    if (on && options_given(o, OPT_resume) && !*options_text(o, OPT_resume))
        take_message(&l, "/sessions");
    int status = on ? EXIT_ANSWERED : EXIT_FAILED;
    if (on)
        begin(&l, first);
    if (on && !interrupt_ending())
        talk(&l);
    if (l.turn.dead)
        status = EXIT_MODEL;
    if (interrupt_ending())
        status = EXIT_SIGNAL + interrupt_ending();
    if (!interrupt_ending() && isatty(1))
        goodbye_add(l.chat, o, &text);
    turn_say(&l.turn, "%s", buf_str(&text));
    lineedit_close(l.edit);
    buf_reset(&text);
    status = goodbye_status(l.chat, interrupt_ending(), status, &text);
    fputs(buf_str(&text), stderr);
    turn_free(&l.turn);
    buf_free(&text);
    waiter_status(status);
    chat_close(l.chat);
    return status;
}
