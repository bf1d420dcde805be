#include "serve/respond.h"

#include "serve/choice.h"

static const char json[] = "application/json";

void respond_json(struct exchange *x, int status, const struct buf *body)
{
    exchange_reply(x, status, json, (struct text){buf_str(body), body->len}, 0);
}

void respond_ok(struct exchange *x, const char *body)
{
    exchange_reply(x, 200, json, text_of(body), 0);
}

void respond_error_with(struct exchange *x, int status, const char *message, const char *code, int retry_s)
{
    struct buf body = {0};
    choice_error(&body, status, message, code);
    exchange_reply(x, status, json, (struct text){body.data, body.len}, retry_s);
    buf_free(&body);
}

void respond_error(struct exchange *x, int status, const char *message)
{
    respond_error_with(x, status, message, NULL, 0);
}
