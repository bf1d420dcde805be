/* The picture of a part of a message, as clients of many kinds send it: OpenAI's {"type": "image_url", "image_url": {"url": A}} and {"type":
 * "input_image", "image_url": A}, where A is a data: address; {"type": "image", "image": A}; Anthropic's {"type": "image", "source": {"type":
 * "base64", "data": B}}; and a bare B, base64, in ollama's "images".  Nothing is fetched: addresses of the network are refused. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/message.h"
#include "base/memory.h"
#include "text/pyjson.h"

struct responder;

/* Reads the bytes of its file into `mem`.  False with the reason.  Any thread. */
bool seen_read(const struct pyjson *part, struct media *to, struct arena *mem, struct err *e);

/* Who looks at the pictures of a body. */
struct look {
    atomic_bool unwanted;               /* the client has gone, so that nothing is decoded any more */
    uint64_t client;                    /* as in struct image_wish */
    struct responder *r;                /* keeps what was decoded; NULL: none does yet */
    void (*begins)(void *arg);          /* called before the first picture is decoded, which may take long.  NULL: none may be, */
    void *arg;
    bool later;                         /* ... and there is one */
};
/* Decodes the pictures of the messages, which checks them, and fills their sides.  False with the reason, or because of *l. */
bool seen_look(const struct message *messages, int n, struct look *l, struct err *e);
