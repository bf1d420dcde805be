#include "remote/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/memory.h"

static json_t *string_of(struct text t)
{
    return memory_got(json_stringn_nocheck(t.p ? t.p : "", t.n));
}

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new_nocheck(object, key, memory_got(value));
}

/* ---- messages ---- */

static json_t *call_id(int message, int call)
{
    return memory_got(json_sprintf("call_%d_%d", message, call));
}

static json_t *calls_of(const struct message *m, int at)
{
    json_t *list = memory_got(json_array());
    for (int i = 0; i < m->n_calls; i++) {
        json_t *call = memory_got(json_object()), *function = memory_got(json_object());
        set(function, "name", string_of(m->calls[i].name));
        set(function, "arguments", string_of(m->calls[i].arguments.n ? m->calls[i].arguments : text_of("{}")));
        set(call, "id", call_id(at, i));
        set(call, "type", json_string("function"));
        set(call, "function", function);
        json_array_append_new(list, call);
    }
    return list;
}

/* Results of tools come in the order of the calls in the answer before them. */
struct asked {
    int message, n_results;
};

static json_t *message_of(const struct body *b, int at, struct asked *asked)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool", "user"};
    const struct message *m = &b->messages[at];
    json_t *o = memory_got(json_object());
    set(o, "role", json_string(roles[m->role]));
    set(o, "content", string_of(m->content));
    if (m->role == ROLE_ASSISTANT && m->has_reasoning && m->reasoning.n && b->reasoning_name)
        set(o, b->reasoning_name, string_of(m->reasoning));
    if (m->n_calls)
        set(o, "tool_calls", calls_of(m, at));
    if (m->role == ROLE_TOOL)
        set(o, "tool_call_id", call_id(asked->message, asked->n_results++));
    else
        *asked = (struct asked){.message = at};
    return o;
}

static json_t *messages_of(const struct body *b)
{
    json_t *list = memory_got(json_array());
    struct asked asked = {0};
    for (int i = 0; i < b->n_messages; i++)
        json_array_append_new(list, message_of(b, i, &asked));
    return list;
}

static json_t *tools_of(const struct body *b, struct err *e)
{
    json_t *list = memory_got(json_array());
    for (int i = 0; i < b->n_tools; i++) {
        json_t *tool = json_loadb(b->tools[i].p, b->tools[i].n, JSON_ALLOW_NUL, NULL);
        if (!json_is_object(tool)) {
            err_set(e, "tool %d is not a JSON object: %.*s", i + 1, (int)(b->tools[i].n < 80 ? b->tools[i].n : 80), b->tools[i].p);
            json_decref(tool);
            json_decref(list);
            return NULL;
        }
        if (!json_object_get(tool, "function")) {
            json_t *whole = memory_got(json_object());
            set(whole, "type", json_string("function"));
            set(whole, "function", tool);
            tool = whole;
        }
        json_array_append_new(list, tool);
    }
    return list;
}

/* ---- the rest ---- */

/* What a field is called in this dialect; NULL: the dialect has none, or this body leaves it out. */
static const char *field_name(const struct body *b, enum body_field f)
{
    const struct dialect *d = b->dialect;
    const struct { const char *name; bool wanted; } rows[BODY_N_FIELDS] = {
        [BODY_TOP_K] = {"top_k", d->extended && b->top_k > 0},
        [BODY_MIN_P] = {"min_p", d->extended && b->min_p > 0},
        [BODY_PRESENCE] = {"presence_penalty", b->presence_penalty != 0},
        [BODY_REPETITION] = {d->repetition, d->repetition && b->repetition_penalty > 0 && b->repetition_penalty != 1},
        [BODY_SEED] = {"seed", b->temperature > 0},
        [BODY_THINKING] = {d->thinking == THINKING_EFFORT ? "reasoning_effort" : "chat_template_kwargs", d->thinking == THINKING_TEMPLATE || (d->thinking == THINKING_EFFORT && !b->thinking)},
        [BODY_PROGRESS] = {"return_progress", d->progress},
        [BODY_USAGE] = {"stream_options", true},
        [BODY_TEMPERATURE] = {"temperature", true},
        [BODY_TOP_P] = {"top_p", b->top_p > 0 && b->top_p < 1},
    };
    return rows[f].wanted && !(b->without >> f & 1) ? rows[f].name : NULL;
}

static json_t *value_of(const struct body *b, enum body_field f)
{
    switch (f) {
    case BODY_TOP_K:       return json_integer(b->top_k);
    case BODY_MIN_P:       return json_real((double)b->min_p);
    case BODY_PRESENCE:    return json_real((double)b->presence_penalty);
    case BODY_REPETITION:  return json_real((double)b->repetition_penalty);
    case BODY_SEED:        return json_integer((json_int_t)(b->seed & INT64_MAX));
    case BODY_THINKING:    return b->dialect->thinking == THINKING_EFFORT ? json_string("none") : json_pack("{s:b}", "enable_thinking", b->thinking);
    case BODY_USAGE:       return json_pack("{s:b}", "include_usage", 1);
    case BODY_TEMPERATURE: return json_real((double)b->temperature);
    case BODY_TOP_P:       return json_real((double)b->top_p);
    default:               return json_true();
    }
}

bool body_write(const struct body *b, struct buf *out, struct err *e)
{
    json_t *tools = tools_of(b, e), *o = memory_got(json_object());
    if (!tools) {
        json_decref(o);
        return false;
    }
    set(o, "model", json_string(b->model));
    set(o, "stream", json_true());
    for (int f = 0; f < BODY_N_FIELDS; f++)
        if (field_name(b, (enum body_field)f))
            set(o, field_name(b, (enum body_field)f), value_of(b, (enum body_field)f));
    if (b->max_tokens > 0)
        set(o, b->dialect->max_tokens, json_integer(b->max_tokens));
    if (b->continues) {
        set(o, "add_generation_prompt", json_false());
        set(o, "continue_final_message", json_true());
    }
    if (b->n_tools)
        json_object_set_nocheck(o, "tools", tools);
    json_decref(tools);
    set(o, "messages", messages_of(b));
    char *text = memory_got(json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(7)));
    buf_adds(out, text);
    free(text);
    json_decref(o);
    return true;
}

int body_refused(const struct body *b, const char *message)
{
    for (int f = 0; f < BODY_N_FIELDS; f++) {
        const char *name = field_name(b, (enum body_field)f);
        if (name && strstr(message, name))
            return f;
    }
    return -1;
}
