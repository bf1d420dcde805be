#include "serve/selfcheck.h"

#include <math.h>
#include <stdio.h>
#include <string.h>


/* The question as the family's template renders it, without reasoning. */
static const char question[] = "<|im_start|>user\nWhat is 6*7?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

static const struct { const char *fingerprint, *answer; } known[] = {
#define KNOWN(fingerprint, answer) {fingerprint, answer},
#include "config/selfcheck.def"
#undef KNOWN
};

bool selfcheck_begin(struct selfcheck *c, struct responder *r)
{
    struct err e = {{0}};
    r->ops->encode(r, text_of(question), true, &c->prompt);
    const struct request q = {
        .plain = &c->prompt,
        .sampling = {.temperature = 0, .top_p = 1, .max_tokens = SELFCHECK_TOKENS, .n_alternatives = LIMIT_ALTERNATIVES, .draft_depth = -1,
                     .repetition_penalty = 1},
    };
    c->runs = r->ops->request(r, &q, &e) == REQUEST_TAKEN;
    return c->runs || !err_set(&c->why, "the self-check could not be asked: %s", e.msg);
}

/* Checks an id and its probabilities.  A distribution without any likely id is that of logits that are all the same. */
static void check_token(struct selfcheck *c, const struct news *it, int vocab)
{
    const struct logprobs *p = it->alternatives;
    double sum = 0;
    bool possible = it->token.id >= 0 && it->token.id < vocab;
    for (int i = 0; p && i < p->n; i++) {
        possible &= p->probs[i] >= 0 && p->probs[i] <= 1.001f && (!i || p->probs[i] <= p->probs[i - 1]);
        sum += (double)p->probs[i];
    }
    possible &= !p || (p->n > 0 && sum <= 1.01 && (double)p->probs[0] > 2.0 / vocab);
    if (!possible && !*c->why.msg)
        err_set(&c->why, "token %d of the self-check has probabilities that no model has (the likeliest of %d ids %g, in all %g): the weights or "
                "the device are damaged; `q35chat model verify --full` reads all of the weights", c->n, vocab,
                p && p->n ? (double)p->probs[0] : NAN, sum);
}

/* Returns the answer that a model with this fingerprint gives; NULL: not known. */
static const char *known_answer(const struct model_info *info)
{
    for (size_t i = 0; info && i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].fingerprint, info->fingerprint))
            return known[i].answer;
    return NULL;
}

/* Compares the answer of the self-check with the known one; c->why says what is wrong. */
static void check_end(struct selfcheck *c, struct responder *r, const struct news *it)
{
    const char *want = known_answer(r->ops->info(r));
    if (*c->why.msg)
        return;
    if (end_failed(it->end))
        err_set(&c->why, "the self-check failed: %.*s", (int)it->text.n, it->text.p);
    else if (want && strcmp(want, buf_str(&c->text)))
        err_set(&c->why, "the model answers the self-check with '%s', expected '%s': the weights or the device are damaged; `q35chat model verify "
                "--full` reads all of the weights", buf_str(&c->text), want);
}

bool selfcheck_take(struct selfcheck *c, struct responder *r, const struct news *it)
{
    const struct model_info *info = r->ops->info(r);
    if (it->kind == NEWS_TOKEN) {
        c->n++;
        check_token(c, it, info ? info->n_vocab : 0);
    } else if (it->kind == NEWS_TEXT) {
        buf_add(&c->text, it->text.p, it->text.n);
    } else if (it->kind == NEWS_DONE) {
        check_end(c, r, it);
        c->runs = false;
    }
    return !c->runs;
}

void selfcheck_free(struct selfcheck *c)
{
    ids_free(&c->prompt);
    buf_free(&c->text);
    *c = (struct selfcheck){0};
}
