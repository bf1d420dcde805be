/* A conversation with a model: a state machine over a responder's news (chat/responder.h), on one thread, shared by all front ends.
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

#include "base/buf.h"
#include "base/err.h"
#include "chat/options.h"

struct chat;
struct responder;

enum { CHAT_MAX_FDS = 6, CHAT_MAX_DEPTH = LIMIT_DRAFTS };

enum chat_event_kind {
    CHAT_LOADING,               /* done, total: bytes */
    CHAT_MODELS,                /* chat_models() are those that there are now.  Before CHAT_READY messages wait until chat_choose_model(); told again
                                 * when one does */
    CHAT_READY,                 /* chat_info() is filled */
    CHAT_PREFILL,               /* done, total, cached: tokens of the prompt */
    CHAT_REASONING,             /* text */
    CHAT_TEXT,                  /* text of the answer */
    CHAT_CALL,                  /* name; text: arguments; truncated: the answer ended inside, it will not be run */
    CHAT_APPROVE,               /* name, text: may it run?  chat_approve() answers */
    CHAT_TOOL_OUTPUT,           /* name; text: what a running tool has printed since; the result repeats it */
    CHAT_TOOL_RESULT,           /* name; text: what the model is told */
    CHAT_NOTE,                  /* text: a sentence for the user; nothing stops */
    CHAT_DONE,                  /* end, stats; text: why, if it failed; taken_back: the user's message, see below.  The shown path
                                 * may have changed: of another answer that got no word the older ones are back */
    CHAT_FATAL,                 /* text: the model is gone; only saving is left */
};

enum chat_end {
    CHAT_ANSWERED, CHAT_STOP_TEXT, CHAT_LENGTH, CHAT_CONTEXT,
    CHAT_LOOP,                  /* it repeated itself (chat/loop.h); text: what */
    CHAT_INTERRUPTED, CHAT_TOOL_ROUNDS, CHAT_FAILED,
    CHAT_TOO_LONG,              /* failed since the context cannot hold the prompt */
};
const char *chat_end_name(enum chat_end end);           /* "stop", "stop_text", "length", ... */
static inline bool chat_end_failed(enum chat_end end) { return end == CHAT_FAILED || end == CHAT_TOO_LONG; }

/* Why more of a prompt was read than what is new in it.  {0}: it was not. */
struct chat_refilled {
    bool happened;
    bool resident;                      /* the conversation was there, up to a position that is not reached any more; else it was not */
    bool from_file;                     /* the snapshot came back from a checkpoint */
    int  common;                        /* tokens that the prompt shares with what was there */
    int  pos;                           /* the nearest snapshot below; 0: none */
};

/* Of one request to a responder: sums, up to `bytes`, and `refilled`.  Of a turn: sums over all rounds of tool calls, and what follows from them. */
struct chat_stats {
    int    n_prompt, n_cached;          /* tokens of prompts; those of them that were not read again */
    int    n_ahead;                     /* of n_cached: what was read while nothing was asked; */
    int    n_typed;                     /* of those: the message itself, read while it was typed */
    int    n_tokens;                    /* sampled, those that end answers included */
    int    n_timed;                     /* of n_tokens: those that decode_ms is the time of, which is all but the first of each request */
    int    n_steps;
    int    drafted[CHAT_MAX_DEPTH], accepted[CHAT_MAX_DEPTH];   /* by draft position */
    int    looked_up[CHAT_MAX_DEPTH], looked_up_accepted[CHAT_MAX_DEPTH];      /* of these: found in the text; the others are the MTP block's */
    double prefill_ms, decode_ms;
    double bytes;                       /* that steps moved: weights, states, KV rows, drafts; 0: not known */
    struct chat_refilled refilled;      /* of the first request for an answer */
    int    n_rounds;
    double wall_ms;
    double tok_s;                       /* tokens after the first, over the time after the first */
    double acceptance;                  /* accepted / drafted; negative when nothing was drafted */
    int    ctx_used, ctx_total;         /* chat_context_used() when the turn had ended */
    double joules;                      /* of the device during the turn; 0: not known */
    uint64_t seed;
};
/* The first token of each round comes from the prompt, not from a step.  0 without steps. */
static inline double chat_tokens_per_step(const struct chat_stats *s) { return s->n_steps ? (double)(s->n_tokens - s->n_rounds) / s->n_steps : 0; }

/* What a token cost in memory traffic, in 10^9 bytes; 0: not known. */
static inline double chat_gb_per_token(const struct chat_stats *s)
{
    return s->n_tokens > s->n_rounds ? s->bytes * 1e-9 / (s->n_tokens - s->n_rounds) : 0;
}

struct chat_event {
    enum chat_event_kind kind;
    const char *text, *name;            /* NUL-terminated UTF-8; never NULL; valid until the next drain */
    size_t n;                           /* bytes of text */
    size_t done, total, cached;
    bool   truncated;
    bool   denied;                      /* tool result: the call was not allowed, nothing ran */
    bool   replayed;                    /* reasoning, text, call: of the beginning that was given, see chat_continue() */
    const char *taken_back;             /* nothing was answered: the turn is undone and this was its message; else NULL */
    enum chat_end end;
    struct chat_stats stats;
};

struct chat_info {
    char model[64], backend[16], formats[96];
    int  n_ctx;                         /* tokens that the context holds; 0: not known */
    int  draft_depth, n_threads;
    double load_ms;
    char kv[16];                        /* how keys and values are stored: the name of the recipe; "": nobody knows */
    size_t kv_token_bytes;              /* of a token, beyond what stays exact */
    char weights_in[240];               /* where a GPU's weights lie and why; "": nothing was measured */
    char reads[480];                    /* how fast memory was read at the start, and what to do when it is slow; "": not measured */
    bool slow;                          /* it is */
    char memory[600];                   /* how its memory was planned, in a line; "": nobody knows */
};

/* What a front end can and wants. */
struct chat_front {
    bool can_ask;                       /* CHAT_APPROVE will be answered, otherwise such calls are refused; and CHAT_MODELS, otherwise there is no
                                         * model */
    bool keeps;                         /* conversations go to disk (if the option save is on) */
    bool attaches;                      /* "@path" in a message attaches the file; otherwise messages are text throughout */
    const char *tools;                  /* what tools = auto stands for: "all", "none" */
    bool enter_continues;               /* Enter on an empty draft does what /continue does: sentences may say so */
    bool reads_ahead;                   /* somebody may say something next: the engine uses the time until then */
    bool inspects;                      /* chat_token() will be asked how likely tokens were, and what else was */
};

/* Takes the responder, also when it fails.  r NULL: that failed, and `e` has the reason already.  `o` is read at every turn and must
 * outlive the chat.  NULL with the reason. */
struct chat *chat_open(struct responder *r, struct options *o, const struct chat_front *front, struct err *e);
void chat_close(struct chat *c);

int  chat_fds(const struct chat *c, struct pollfd fds[CHAT_MAX_FDS]);
int  chat_timeout(const struct chat *c);                /* for poll(): ms, -1 for ever */
const struct chat_event *chat_drain(struct chat *c, int *n);
/* Sleeps until something happens here or on `fd` (-1: none), at most timeout_ms (-1: for ever). */
void chat_wait(const struct chat *c, int fd, int timeout_ms);

/* What the next message says so far, after each key; "": nothing.  When no key has come for a moment its whole words are read ahead, which
 * changes no answer. */
void chat_draft(struct chat *c, const char *text, size_t n);
/* False while one is being answered; or, the first time, if a file that it names cannot be attached or takes more than half of what is
 * free in the context. */
bool chat_submit(struct chat *c, const char *text, size_t n, struct err *e);
/* The next message takes this file along, as "@path" in it would. */
bool chat_attach(struct chat *c, const char *path, struct err *e);
/* A message of an earlier talk, which nobody answers now: role "user" or "assistant". */
bool chat_recall(struct chat *c, const char *role, const char *text, size_t n, struct err *e);
bool chat_regenerate(struct chat *c, struct err *e);    /* another answer to the last message, with another seed */
bool chat_regenerate_seed(struct chat *c, uint64_t seed, struct err *e);        /* ... with this one */
/* The last answer once more, with the seed that it had; a note says whether it is the same, or from which token on it is not. */
bool chat_replay(struct chat *c, struct err *e);
/* Ends the turn; what was said is kept.  A running tool gets SIGINT and two seconds; a second call kills it. */
void chat_interrupt(struct chat *c);
enum chat_answer { CHAT_NO, CHAT_YES, CHAT_ALWAYS };    /* always: this tool, until the program ends */
void chat_approve(struct chat *c, enum chat_answer answer);
void chat_refuse(struct chat *c, const char *why);      /* no, and the model is told why; "": chat_approve(c, CHAT_NO) */
/* Yes, but with these arguments; the model is told that they are others.  False if they are no JSON object: the question stands. */
bool chat_approve_edited(struct chat *c, const char *arguments, size_t n, struct err *e);
/* What the call that waits for a word would run, and where, a line each; nothing for a built-in tool. */
void chat_asked_command(const struct chat *c, struct buf *out);
bool chat_busy(const struct chat *c);
bool chat_ready(const struct chat *c);

bool chat_new(struct chat *c, struct err *e);           /* an empty conversation; the old one stays on disk */

/* --- the tree: going back loses nothing; what is not on the shown path stays beside it --- */
bool chat_undo(struct chat *c, struct buf *taken_back, struct err *e);  /* the last message and its answer leave the path */
bool chat_redo(struct chat *c, struct err *e);          /* back down the way that was shown last */
/* Marks user message `i` (index of chat_message()); its text, for an editor.  Nothing else changes until the next submit: what it
 * says stands beside that message, which leaves the path with all that follows.  Another path or another turn ends the mark; a
 * submit that nothing came of brings path and mark back. */
bool chat_edit(struct chat *c, int i, struct buf *text, struct err *e);
int  chat_edited(const struct chat *c);                 /* the marked message, or -1 */
void chat_edit_end(struct chat *c);                     /* nothing is marked any more */
bool chat_cut(struct chat *c, int i, struct err *e);    /* message i and what follows leave the path */
/* How many stand beside message i, itself counted; which one it is, from 0. */
int  chat_siblings(const struct chat *c, int i, int *which);
/* The path goes through that one, and on as it was shown last. */
bool chat_show_sibling(struct chat *c, int i, int which, struct err *e);
struct chat_node {
    int parent;                         /* -1: a root */
    const char *role, *text;
    const char *call, *arguments;       /* of its first tool call; NULL: it has none */
    bool on_path;
};
int  chat_n_nodes(const struct chat *c);                /* in the order in which they were made: parents before children */
struct chat_node chat_node(const struct chat *c, int k);
bool chat_go(struct chat *c, int node, struct err *e);  /* the path ends there */

/* --- an answer's tokens: of an assistant message, or (i = -1) of the answer under way, of its last request --- */
enum chat_token_how { CHAT_SAMPLED, CHAT_DRAFTED, CHAT_LOOKED_UP, CHAT_FORCED };
enum { CHAT_ALTERNATIVES = LIMIT_ALTERNATIVES };
struct chat_token {
    const char *text;           /* the piece; may be part of a character.  Valid until the conversation changes */
    size_t n;
    bool   reasoning;           /* which of the message's two texts it belongs to */
    size_t at;                  /* byte of that text where it begins */
    enum chat_token_how how;
    float  prob;                /* of the token, before penalties and cuts; negative: not known (a loaded session) */
    int    n_alternatives;      /* by falling probability; the token itself is among them if it is that likely */
    struct { const char *text; size_t n; float prob; } alternatives[CHAT_ALTERNATIVES];
};
int  chat_n_tokens(struct chat *c, int i);
bool chat_token(struct chat *c, int i, int k, struct chat_token *out);
/* Another answer beside message i: its first k tokens, then that alternative of token k, then the model goes on. */
bool chat_branch_token(struct chat *c, int i, int k, int alternative, struct err *e);
/* What the shown path ends with, and chat_continue() does about it: */
enum chat_rest {
    CHAT_WHOLE,                 /* an answer, or nothing; there is nothing to do */
    CHAT_STOPPED,               /* an answer that the user or a limit stopped: goes on, and stays one message */
    CHAT_CUT,                   /* likewise, but that the program ended in the middle of it */
    CHAT_UNANSWERED,            /* a message, or tools' results, without any answer: answers it */
    CHAT_UNRUN,                 /* calls without all their results: another answer instead */
};
enum chat_rest chat_rest(const struct chat *c);
bool chat_continue(struct chat *c, struct err *e);
/* While the model reasons: the reasoning ends here, the answer begins.  False: it does not reason. */
bool chat_answer_now(struct chat *c);

/* --- what fills the context, and the machine --- */
/* what: "system", "tools", "user", "file", "answer", "tool", "summary" */
enum chat_mark {
    CHAT_PLAIN,
    CHAT_DROPPED,               /* the next prompts hold a line instead of it, and neither its files nor results of its calls */
    CHAT_PINNED,                /* it is not dropped */
};
struct chat_part {
    const char *what;
    char label[64];
    int  number;                /* for chat_mark(); 0: system prompt, tools */
    int  message, file;         /* file -1: the message itself */
    int  tokens;                /* in the next prompt */
    int  whole;                 /* if it were not dropped: whole - tokens is what that frees */
    enum chat_mark mark;
    bool estimated;
};
/* Of the next prompt, in its order; to within a few tokens a message, estimates before CHAT_READY.  Valid until the next call. */
int  chat_context(struct chat *c, const struct chat_part **parts);
/* Numbers are those of chat_context(). */
bool chat_mark(struct chat *c, int number, enum chat_mark mark, struct err *e);
/* How much of the context is taken: while an answer is made, its prompt and what there is of it; else the next prompt, which is
 * the sum of the parts.  Every front end and command tells this figure. */
struct chat_count { int tokens; bool estimated; };
struct chat_count chat_context_used(struct chat *c);
/* An answer to a question that does not become part of the conversation: a turn like others, of which nothing is kept. */
bool chat_aside(struct chat *c, const char *question, struct err *e);
const char *chat_asked_aside(const struct chat *c);     /* the question while that turn is under way, else NULL */
/* The model writes a summary of the conversation: a turn like others, of which nothing is kept.  If it comes to an end the summary
 * waits for chat_decide(), and nothing else can be done before.  Taken, it stands at the path's end, prompts begin with it and what is
 * pinned, and chat_undo() goes back before it. */
bool chat_compact(struct chat *c, const char *hint, struct err *e);
bool chat_sums_up(const struct chat *c);                /* that turn is under way */
bool chat_proposes(struct chat *c, struct buf *out);      /* a summary waits; `out` (or NULL): "in place of 12 messages: ..." */
void chat_decide(struct chat *c, bool take);
int  chat_not_counted(const struct chat *c);            /* tokens of reasoning that no prompt will hold again; an estimate likewise */
int  chat_count_tokens(const struct chat *c, const char *text, size_t n);       /* of a draft; an estimate before CHAT_READY */
struct chat_machine {
    double memory_used, memory_total;   /* bytes; of the device, or of this process and the host; 0: not known */
    int    celsius;                     /* 0: not known */
    double watts;                       /* 0: not known */
    const char *throttled;              /* why clocks are lowered, in a word or two; NULL: they are not, or not known */
    int    snapshots, snapshots_max;    /* states that the engine keeps for going back; how many there is room for */
    int    resident, resident_max;      /* conversations that it goes on with without computing them again; likewise */
    double joules;                      /* used so far; differences mean something */
};
void chat_machine(const struct chat *c, struct chat_machine *m);        /* cheap enough for once a second */
bool chat_offer_tools(struct chat *c, const char *list, struct err *e);         /* the option tools, from now on */
bool chat_set_approval(struct chat *c, const char *who, struct err *e);         /* the option tools_approve, likewise */
void chat_describe_sampling(const struct chat *c, struct buf *out);     /* a line: the values in force, and where they come from */
/* Of an option of sampling that was not set: a line with the value in force; else nothing. */
void chat_describe_value(const struct chat *c, enum option_id id, struct buf *out);
void chat_sampling_name(const struct chat *c, struct buf *out);         /* "temperature 0.6"; "" while it is not known */
void chat_list_tools(const struct chat *c, struct buf *out);

/* --- sessions (chat/sessions.h lists them) --- */
bool chat_save(struct chat *c, const char *name, struct err *e);
/* `note` gets what the user should know: what was damaged, and what the conversation ends with if that is no whole answer. */
bool chat_load(struct chat *c, const char *name, struct buf *note, struct err *e);
/* At the start: what the options resume and continue ask for, if they do. */
bool chat_resume(struct chat *c, struct buf *note, struct err *e);
/* What -r takes to go on with it; false: it is not kept, or nothing was said. */
bool chat_saved_name(const struct chat *c, struct buf *name);
bool chat_rename(struct chat *c, const char *title, struct err *e);
/* Moves a kept conversation to the trash (chat/trash.h).  Asked for the first time it only says in `told` what would happen. */
bool chat_delete(struct chat *c, const char *name, struct buf *told, struct err *e);
/* As given, else the first line of the first message; "" before that.  Valid until the next call. */
const char *chat_title(struct chat *c);
/* The disk failed, the file lacks something: tried again at the end of every turn. */
bool chat_unsaved(const struct chat *c);
/* Tries it now.  False: it is not saved, and why. */
bool chat_keep(struct chat *c, struct err *e);
/* False, once until something more is said: it is not saved, and leaving would lose it. */
bool chat_may_quit(struct chat *c, struct err *e);
bool chat_export(const struct chat *c, const char *format, struct buf *out, struct err *e);    /* "md", "json", "txt" */

/* The checkpoint of the conversation: what a resume need not compute again. */
struct chat_checkpoint {
    bool   on;                          /* there is one, or will be */
    size_t bytes, written;              /* of the file, 0: not known; written since the start */
    int    restored;                    /* tokens that came back when it was loaded */
};
void chat_checkpoint(const struct chat *c, struct chat_checkpoint *k);

/* --- a server with several models --- */
/* Their names as they were told last; 0: there is nothing to choose.  Valid until the next drain. */
int  chat_models(const struct chat *c, const char *const **names);
/* The one that a word means: its name, or its number from 1 as chat_models() has it; NULL: none. */
const char *chat_model_meant(const struct chat *c, const char *word);
/* The answers that follow come from that model; CHAT_READY, or CHAT_MODELS if the server does not have it.  False: an answer is under way, or there
 * is nothing to choose. */
bool chat_choose_model(struct chat *c, const char *name, struct err *e);
bool chat_list_models(struct chat *c, struct err *e);   /* asks for them anew: CHAT_MODELS, or a note.  False likewise */

int chat_others(const struct chat *c);                  /* programs that use the model of this chat, too: they may go on when it ends */
const struct chat_info *chat_info(const struct chat *c);                /* NULL before CHAT_READY */
const char *chat_model_dir(const struct chat *c);
const char *chat_notice(const struct chat *c);          /* the first line of notice.txt in the model's directory, or NULL */
const char *chat_saved_as(const struct chat *c);        /* path, or NULL */
int  chat_n_messages(const struct chat *c);
const struct chat_stats *chat_last_stats(const struct chat *c);         /* of the turn that ended last */
const char *chat_refill(const struct chat *c);          /* why more of its prompt was read than what was new in it; "": it was not */
void chat_stats_now(const struct chat *c, struct chat_stats *s);        /* of the turn under way, so far, but for its joules; else that */
/* The conversation so far, a message after the other, for a front end that shows a loaded one.  Valid until it changes. */
struct chat_message {
    const char *role, *text, *reasoning, *name;         /* role: "user", "assistant", "tool", "summary" (of what stands before) */
    int  n_calls;                                       /* of an assistant's */
    bool stopped;
};
struct chat_message chat_message(const struct chat *c, int i);
struct chat_call { const char *name, *arguments; };
struct chat_call chat_message_call(const struct chat *c, int i, int k);
/* Files of a user message, "@path" in its text when it was sent: the model reads their text, the screen shows the message. */
struct chat_file { const char *path, *text; size_t bytes; int tokens; bool estimated; };      /* text: NULL from chat_check_file() */
int  chat_n_files(const struct chat *c, int i);
struct chat_file chat_file(struct chat *c, int i, int k);
/* Would "@path" attach?  Fills bytes and tokens; else says why not. */
bool chat_check_file(const struct chat *c, const char *path, struct chat_file *out, struct err *e);

#endif
