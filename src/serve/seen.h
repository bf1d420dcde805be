/* The picture of a part of a message, as clients of many kinds send it: OpenAI's {"type": "image_url", "image_url": {"url": A}} and {"type":
 * "input_image", "image_url": A}, where A is a data: address; {"type": "image", "image": A}; Anthropic's {"type": "image", "source": {"type":
 * "base64", "data": B}}; and a bare B, base64, in ollama's "images".  Nothing is fetched: addresses of the network are refused. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/message.h"
#include "base/memory.h"
#include "text/pyjson.h"

/* Decodes and checks it: fills bytes, in `mem`, and sides of *to.  False with the reason.  Any thread. */
bool seen_read(const struct pyjson *part, struct media *to, struct arena *mem, struct err *e);
