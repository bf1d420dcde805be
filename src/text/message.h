/* A conversation as the input of the chat template: parsed from an OpenAI-style message list in JSON, or built by chat.
 * All text is UTF-8 and owned by the caller (usually an arena). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/message.h"

struct conversation {
    struct message *messages;
    int             n_messages;
    struct text    *tools;              /* JSON text of each tool object, as the client wrote it */
    int             n_tools;
    bool            thinking;           /* enable_thinking is not the boolean false */
    bool            generation_prompt;  /* add_generation_prompt */
    bool            vision_ids;         /* add_vision_id */
};

/* Reads {"messages": [...], "tools": [...], "kwargs": {...}} (extra keys ignored) into `a`.  False with a reason
 * if the JSON has another shape.  template_render() reports what the template itself refuses, in its words. */
bool conversation_parse(struct conversation *c, const char *json, size_t len, struct arena *a, struct err *e);
