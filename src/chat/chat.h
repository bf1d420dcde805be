/* A conversation with a model: a state machine over a responder's news (responder/responder.h), on one thread, shared by all front ends.
 *
 *     chat_open(local_open());  chat_submit();
 *     for (;;) { poll(chat_fds(), chat_timeout());  for each event of chat_drain(): show it }
 *
 * The model and the tokenizer load beside each other; a message submitted before they are there waits for them.
 * Every submit and every regenerate ends in exactly one CHAT_DONE or in CHAT_FATAL. */
#ifndef Q35_CHAT_CHAT_H
#define Q35_CHAT_CHAT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "answer/end.h"
#include "answer/machine.h"
#include "answer/stats.h"
#include "base/buf.h"
#include "base/err.h"
#include "option/options.h"

struct chat;
struct responder;

enum { CHAT_MAX_FDS = 7 };

enum chat_event_kind {
    CHAT_LOADING,               /* done, total: bytes */
    CHAT_MODELS,                /* the list of chat_models() has changed.  Before CHAT_READY one of them must be chosen (chat_choose_model()):
                                 * messages wait until then, and each of them causes another CHAT_MODELS */
    CHAT_READY,                 /* chat_info() is filled */
    CHAT_PREFILL,               /* done, total, cached: tokens of the prompt that is being read */
    CHAT_REASONING,             /* text */
    CHAT_TEXT,                  /* text of the answer */
    CHAT_CALL,                  /* name: the tool; text: its arguments; truncated: the answer ended within the call, which will not be run */
    CHAT_APPROVE,               /* name, text: may this call run?  chat_approve() answers */
    CHAT_RUNS,                  /* name: this tool begins to run, after a yes if one was needed */
    CHAT_TOOL_OUTPUT,           /* name; text: what a running tool has printed since the last such event; the result repeats it */
    CHAT_TOOL_RESULT,           /* name; text: the result that the model reads */
    CHAT_NOTE,                  /* text: a sentence for the user; the turn goes on */
    CHAT_TITLED,                /* text: the title that the model has written */
    CHAT_DONE,                  /* the turn has ended.  end, stats; text: the reason, if it failed; taken_back: the user's message, see below.
                                 * The shown path may be another one: if a second answer to a message got no word, the first one is shown again */
    CHAT_FATAL,                 /* text: why the model is gone; the conversation can only be saved */
};

struct chat_event {
    enum chat_event_kind kind;
    const char *text, *name;            /* NUL-terminated UTF-8; never NULL; valid until the next drain */
    size_t n;                           /* bytes of text */
    size_t done, total, cached;
    bool   truncated;
    bool   denied;                      /* tool result: the user did not allow the call, nothing ran */
    bool   replayed;                    /* reasoning, text, call: a part of the stopped answer that the new one goes on from (chat_continue()) */
    const char *taken_back;             /* the message of a turn that was undone because it got no word of an answer; else NULL */
    enum end end;
    struct stats stats;
};

/* What a front end can and wants. */
struct chat_front {
    bool can_ask;                       /* it answers CHAT_APPROVE and CHAT_MODELS.  Otherwise calls that need approval are refused, and a server
                                         * with several models is an error */
    bool keeps;                         /* conversations go to disk (if the option save is on) */
    bool attaches;                      /* "@path" in a message attaches the file; otherwise it is text like the rest */
    const char *tools;                  /* what tools = auto stands for: "all", "none" */
    bool screen;                        /* it is the full screen: Enter on an empty draft does what /continue does, all commands are there */
    bool reads_ahead;                   /* more messages may follow: between turns the engine reads ahead what the next prompt will hold */
    bool inspects;                      /* it will ask chat_token() for probabilities and alternatives of tokens, which must then be recorded */
};

/* Owns `r` from now on, also when it fails.  r NULL: opening the responder failed, and `e` has the reason already.  The chat reads `o` at every
 * turn; `o` must outlive it.  NULL with the reason. */
struct chat *chat_open(struct responder *r, struct options *o, const struct chat_front *front, struct err *e);
void chat_close(struct chat *c);

int  chat_fds(const struct chat *c, struct pollfd fds[CHAT_MAX_FDS]);
int  chat_timeout(const struct chat *c);                /* for poll(): ms, -1 for ever */
/* The *n events since the last call, which end when the next one begins. */
const struct chat_event *chat_drain(struct chat *c, int *n);
/* Sleeps until the chat has something to do or `fd` (-1: none) can be read, at most timeout_ms (-1: for ever). */
void chat_wait(const struct chat *c, int fd, int timeout_ms);

/* The text of the message that is being typed, after each key; "": it is empty.  When no key has come for a moment its whole words are read
 * ahead, which changes no answer. */
void chat_draft(struct chat *c, const char *text, size_t n);
/* Sends a message.  False with the reason while another one is being answered.  Also false, but only the first time, if a file that the message
 * names cannot be attached or takes more than half of the free context: the same message again is sent. */
bool chat_submit(struct chat *c, const char *text, size_t n, struct err *e);
/* Attaches this file to the next message, as "@path" in it would. */
bool chat_attach(struct chat *c, const char *path, struct err *e);
/* Adds a message of an earlier conversation, which is not answered: role "user" or "assistant". */
bool chat_recall(struct chat *c, const char *role, const char *text, size_t n, struct err *e);
bool chat_regenerate(struct chat *c, struct err *e);    /* another answer to the last message, with a new seed */
bool chat_regenerate_seed(struct chat *c, uint64_t seed, struct err *e);        /* ... with the given seed */
/* Makes the last answer once more with the same seed; a note says whether both are equal, or at which token they differ first. */
bool chat_replay(struct chat *c, struct err *e);
/* Ends the turn and keeps the text of the answer so far.  A running tool gets SIGINT and two seconds; a second call kills it. */
void chat_interrupt(struct chat *c);
enum chat_answer { CHAT_NO, CHAT_YES, CHAT_ALWAYS };    /* always: every call of this tool, until the program ends */
void chat_approve(struct chat *c, enum chat_answer answer);
void chat_refuse(struct chat *c, const char *why);      /* no, and the model reads why; "": chat_approve(c, CHAT_NO) */
/* Yes, but with these arguments; the model is told that the user changed them.  False if they are no JSON object: the question stays open. */
bool chat_approve_edited(struct chat *c, const char *arguments, size_t n, struct err *e);
/* The command that the call awaiting approval would run, and its folder, one line each; nothing for a built-in tool. */
void chat_asked_command(const struct chat *c, struct buf *out);
bool chat_has_screen(const struct chat *c);             /* the front end is the full screen */
bool chat_busy(const struct chat *c);                   /* a turn is under way */
bool chat_ready(const struct chat *c);                  /* the model is loaded */

bool chat_new(struct chat *c, struct err *e);           /* an empty conversation; the old one stays on disk */

/* --- the tree: messages are never lost; the front end shows one path from a root to a leaf, the other messages stay beside it --- */
bool chat_undo(struct chat *c, struct buf *taken_back, struct err *e);  /* takes the last message and its answer off the path; the message's text */
bool chat_redo(struct chat *c, struct err *e);          /* puts the message and answer that were shown last behind the path's end back on it */
/* Marks user message `i` (index of chat_message()) as being edited and gives its text.  The next chat_submit() then makes a sibling of that
 * message, and the path goes through the new one.  A change of the path or another turn ends the mark.  A submit that gets no word of an answer
 * restores path and mark. */
bool chat_edit(struct chat *c, int i, struct buf *text, struct err *e);
int  chat_edited(const struct chat *c);                 /* index of the marked message, or -1 */
void chat_edit_end(struct chat *c);                     /* removes the mark */
bool chat_cut(struct chat *c, int i, struct err *e);    /* takes message i and all behind it off the path */
/* The number of siblings of message i, itself included; *which: its own number among them, from 0. */
int  chat_siblings(const struct chat *c, int i, int *which);
/* Leads the path through sibling `which` of message i, and on as it was when that one was shown last. */
bool chat_show_sibling(struct chat *c, int i, int which, struct err *e);
struct chat_node {
    int parent;                         /* -1: a root */
    const char *role, *text;
    const char *call, *arguments;       /* of its first tool call; NULL: it has none */
    const char *answer;                 /* the text that the model wrote after its calls; "" if there is none */
    bool on_path;
};
int  chat_n_nodes(const struct chat *c);                /* all messages of the tree, in the order in which they were made: parents before children */
struct chat_node chat_node(const struct chat *c, int k);
/* Appends a line: the message; else the answer after its calls, and the first call; else in brackets what it is. */
void chat_node_title(const struct chat_node *n, struct buf *out);
bool chat_go(struct chat *c, int node, struct err *e);  /* makes this node the end of the path */

/* --- tokens of assistant message i, or (i = -1) of the last request of the answer under way --- */
struct chat_token {
    const char *text;           /* the piece; may be part of a character.  Valid until the conversation changes */
    size_t n;
    bool   reasoning;           /* the token belongs to the reasoning, not to the text of the answer */
    size_t at;                  /* its first byte in that text */
    enum token_source source;
    float  prob;                /* probability of the token, before penalties and cuts; negative: not known (a loaded session) */
    int    n_alternatives;      /* by falling probability; the token itself is among them if it is that likely */
    struct { const char *text; size_t n; float prob; } alternatives[LIMIT_ALTERNATIVES];
};
int  chat_n_tokens(struct chat *c, int i);
bool chat_token(struct chat *c, int i, int k, struct chat_token *out);
/* Makes a sibling of answer i: its first k tokens, then the given alternative of token k, then what the model writes behind these. */
bool chat_branch_token(struct chat *c, int i, int k, int alternative, struct err *e);
/* What the shown path ends with; chat_continue() acts accordingly. */
enum chat_rest {
    CHAT_WHOLE,                 /* a whole answer, or the path is empty: nothing to continue */
    CHAT_STOPPED,               /* an answer that the user or a limit stopped: the model goes on with it, and it stays one message */
    CHAT_CUT,                   /* an answer in whose middle the program ended: likewise */
    CHAT_UNANSWERED,            /* a message, or results of tools, without an answer: the model answers */
    CHAT_UNRUN,                 /* calls of which some have no result: the model makes another answer instead */
};
enum chat_rest chat_rest(const struct chat *c);
bool chat_continue(struct chat *c, struct err *e);
/* Ends the reasoning that is under way: the model begins its answer.  False: it is not reasoning. */
bool chat_answer_now(struct chat *c);

/* --- what fills the context, and the machine --- */
enum chat_mark {
    CHAT_PLAIN,
    CHAT_DROPPED,               /* the next prompts hold one line in place of the message, without its files and the results of its calls */
    CHAT_PINNED,                /* no summary takes the place of the message, and it is not dropped */
};
/* A part of the next prompt. */
struct chat_part {
    const char *what;           /* "system", "tools", "user", "file", "answer", "tool", "summary" */
    char label[64];
    int  number;                /* for chat_mark(); 0: system prompt, tools */
    int  message, file;         /* index of the message; of a file of it, -1: the message itself */
    int  tokens;                /* its tokens in the next prompt */
    int  whole;                 /* ... if it were not dropped: dropping it frees whole - tokens */
    enum chat_mark mark;
    bool estimated;             /* the tokens are not counted yet */
};
/* The parts of the next prompt in their order; returns how many.  Token counts are right to within a few per message, estimates before CHAT_READY.
 * Valid until the next call. */
int  chat_context(struct chat *c, const struct chat_part **parts);
/* Marks the part of this number (struct chat_part). */
bool chat_mark(struct chat *c, int number, enum chat_mark mark, struct err *e);
/* How much of the context is used: during an answer its prompt and the tokens so far, otherwise the next prompt, which is the sum of the parts.
 * Every front end and command shows this figure. */
struct chat_count { int tokens; bool estimated; };
struct chat_count chat_context_used(struct chat *c);
/* Asks a question beside the conversation: a turn like others, but neither question nor answer are kept. */
bool chat_aside(struct chat *c, const char *question, struct err *e);
const char *chat_asked_aside(const struct chat *c);     /* the question while its turn is under way, else NULL */
/* Lets the model write a summary of the conversation: a turn like others, but it adds no messages.  If the turn succeeds the summary waits for
 * chat_decide(), and until then nothing else can be done.  If taken, it becomes the end of the path: prompts then begin with it and the pinned
 * messages, and chat_undo() goes back before it. */
bool chat_compact(struct chat *c, const char *hint, struct err *e);
bool chat_sums_up(const struct chat *c);                /* the turn of chat_compact() is under way */
bool chat_proposes(struct chat *c, struct buf *out);    /* a summary waits for chat_decide(); `out` (or NULL): "in place of 12 messages: ..." */
void chat_decide(struct chat *c, bool take);
int  chat_not_counted(const struct chat *c);            /* tokens of reasoning that later prompts leave out; an estimate before CHAT_READY */
int  chat_count_tokens(const struct chat *c, const char *text, size_t n);       /* tokens of this text; an estimate before CHAT_READY */
void chat_machine(const struct chat *c, struct machine_figures *m);        /* cheap enough for once a second */
bool chat_offer_tools(struct chat *c, const char *list, struct err *e);         /* sets the option tools for the next turns */
bool chat_check_bias(const struct chat *c, const char *item, struct err *e);    /* whether the model, if it is ready, can have a bias "TOKEN=X" */
bool chat_set_approval(struct chat *c, const char *who, struct err *e);         /* sets the option tools_approve for the next turns */
void chat_describe_sampling(const struct chat *c, struct buf *out);     /* a line: the sampling values in force, and where they come from */
/* For a sampling option that the user has not set: a line with the value in force; for others nothing. */
void chat_explain(const struct chat *c, enum option_id id, struct buf *out);
void chat_sampling_name(const struct chat *c, struct buf *out);         /* "temperature 0.6"; "" while it is not known */
void chat_list_tools(const struct chat *c, struct buf *out);

/* --- sessions (session/sessions.h lists them) --- */
bool chat_save(struct chat *c, const char *name, struct err *e);
/* `note` gets what the user should know: what of the file was damaged, that it cannot be written, that the last answer is not whole. */
bool chat_load(struct chat *c, const char *name, struct buf *note, struct err *e);
/* At the start of the program: loads the conversation that the options resume and continue ask for, if any. */
bool chat_resume(struct chat *c, struct buf *note, struct err *e);
/* The name under which -r finds this conversation; false: it is not kept on disk, or has no messages. */
bool chat_saved_name(const struct chat *c, struct buf *name);
bool chat_rename(struct chat *c, const char *title, struct err *e);
/* Moves a kept conversation to the trash (session/trash.h).  The first call only says in `told` what would happen, the second one does it. */
bool chat_delete(struct chat *c, const char *name, struct buf *told, struct err *e);
/* The title that the user gave, else the first line of the first message, else "".  Valid until the next call. */
const char *chat_title(struct chat *c);
/* The disk failed and the file lacks messages; the chat writes them again at the end of every turn. */
bool chat_unsaved(const struct chat *c);
/* Writes the messages that the file lacks now.  False with the reason. */
bool chat_keep(struct chat *c, struct err *e);
/* False with a warning if messages are not saved and leaving would lose them; the next call gives true, unless the conversation has grown. */
bool chat_may_quit(struct chat *c, struct err *e);
bool chat_export(const struct chat *c, const char *format, struct buf *out, struct err *e);    /* "md", "json", "txt" */

/* The checkpoint of the conversation (engine/checkpoint.h): its tokens need not be computed again on a resume. */
struct chat_checkpoint {
    bool   on;                          /* the conversation has a checkpoint, or will have one */
    size_t bytes, written;              /* bytes: size of the file, 0: not known; written to it since the start of the program */
    int    restored;                    /* tokens that the checkpoint gave back when the conversation was loaded */
};
void chat_checkpoint(const struct chat *c, struct chat_checkpoint *k);

/* --- a server with several models --- */
/* The names of its models, as the server told them last, and how many; 0: there is nothing to choose.  Valid until the next drain. */
int  chat_models(const struct chat *c, const char *const **names);
/* The name of the model that the user means by `word`: a name, or a number from 1 in the order of chat_models(); NULL: there is no such model. */
const char *chat_model_meant(const struct chat *c, const char *word);
/* Uses this model for the answers that follow.  CHAT_READY comes, or CHAT_MODELS if the server does not have it.  False with the reason: an answer
 * is under way, or there is nothing to choose. */
bool chat_choose_model(struct chat *c, const char *name, struct err *e);
/* Asks the server for its models: CHAT_MODELS comes, or a note.  False with the reason, as chat_choose_model(). */
bool chat_list_models(struct chat *c, struct err *e);

int chat_others(const struct chat *c);                  /* the number of other programs that use the model of this chat; they may outlive it */
const struct model_info *chat_info(const struct chat *c);                /* NULL before CHAT_READY */
const char *chat_model_dir(const struct chat *c);
const char *chat_notice(const struct chat *c);          /* notice.txt of the model's directory, or NULL; its first line is a sentence of its own */
const char *chat_held_with(const struct chat *c);       /* the model as session/held.h describes it */
const char *chat_saved_as(const struct chat *c);        /* path, or NULL */
int  chat_n_messages(const struct chat *c);
const struct stats *chat_last_stats(const struct chat *c);         /* of the turn that ended last */
const char *chat_refill(const struct chat *c);          /* struct refill of that turn in a sentence; "": nothing was read again */
/* The figures so far of the turn under way, without joules; while there is none, those of the last turn. */
void chat_stats_now(const struct chat *c, struct stats *s);
/* Message i of the shown path.  Valid until the conversation changes. */
struct chat_message {
    const char *role, *text, *reasoning, *name;         /* role: "user", "assistant", "tool", "summary" (of the messages before it); name: the tool */
    int64_t time_s;                                     /* when it was sent, or the answer ended, Unix time; 0: not known */
    int  n_calls;                                       /* tool calls of an assistant message */
    bool stopped;                                       /* the user or a limit stopped the answer */
};
struct chat_message chat_message(const struct chat *c, int i);
struct chat_call { const char *name, *arguments; };
struct chat_call chat_message_call(const struct chat *c, int i, int k);
/* Files of a user message, which stand as "@path" in its text: prompts hold the text of the files, the screen shows the message alone. */
struct chat_file { const char *path, *text; size_t bytes; int tokens; bool estimated; };      /* text: NULL from chat_check_file() */
int  chat_n_files(const struct chat *c, int i);
struct chat_file chat_file(struct chat *c, int i, int k);
/* Whether "@path" could be attached: fills bytes and tokens of *out.  False with the reason. */
bool chat_check_file(const struct chat *c, const char *path, struct chat_file *out, struct err *e);

#endif
