/* The context: what the next prompt holds, and how many tokens each part has. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"

struct chat;
struct entry_file;
struct thumb;

enum chat_mark {
    CHAT_PLAIN,
    CHAT_DROPPED,               /* the next prompts hold one line in place of the message, without its files and the results of its calls */
    CHAT_PINNED,                /* no summary replaces the message, and it is not dropped */
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
int  chat_not_counted(const struct chat *c);            /* tokens of reasoning that later prompts leave out; an estimate before CHAT_READY */
int  chat_count_tokens(const struct chat *c, const char *text, size_t n);       /* tokens of this text; an estimate before CHAT_READY */

/* Files of a user message, which appear as "@path" in its text: prompts hold the text of the files, the screen shows the message alone. */
struct chat_file {
    const char *path, *text;            /* text: NULL from chat_check_file() */
    size_t bytes;
    int  tokens;
    bool estimated;
    int  w, h;                          /* pixels of a picture; 0: it is a text */
};
int  chat_n_files(const struct chat *c, int i);
struct chat_file chat_file(struct chat *c, int i, int k);
/* Returns the number of a small copy of the picture, which chat_thumb_find() has; 0: the file is no picture, or the copy is being made: CHAT_THUMB
 * follows when it is there. */
uint32_t chat_thumb(struct chat *c, int i, int k);
const struct thumb *chat_thumb_find(struct chat *c, uint32_t number);   /* valid until the next chat_thumb(); NULL: no longer kept */
/* Appends the path of the file: the one that was attached, or where the picture is kept.  False with the reason: neither is there. */
bool chat_file_path(const struct chat *c, int i, int k, struct buf *out, struct err *e);
/* True if "@path" could be attached: fills bytes and tokens of *out.  False with the reason. */
bool chat_check_file(const struct chat *c, const char *path, struct chat_file *out, struct err *e);
bool chat_is_text_file(const char *path);       /* it can be attached, and is no picture or PDF; reads its beginning alone */

/* --- inside --- */
int  context_entry_frees(struct chat *c, int i);        /* tokens that prompts save when one line replaces entry i */
int  context_if_summed(struct chat *c, const struct buf *summary);      /* tokens of the next prompt if this summary replaced the messages so far */
int  context_file_tokens(const struct chat *c, const struct entry_file *f);
bool context_counts(const struct chat *c, const struct entry_file *f);  /* false: context_file_tokens() is an estimate */
