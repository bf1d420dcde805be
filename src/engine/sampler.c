#include "engine/sampler.h"

#include <float.h>
#include <math.h>

#include "kernels/splitmix.h"

bool sampler_check(const struct sampling *how, int vocab, struct err *e)
{
    const struct { const char *name; double value, low, high; } numbers[] = {
#define SAMPLING_NUMBER(name, least, most, ...) {#name, how->name, least, most},
#include "config/sampling_numbers.def"
        {"top_k",              how->top_k,              0,         INT32_MAX},
        {"max_tokens",         how->max_tokens,         0,         INT32_MAX},
        {"draft_depth",        how->draft_depth,        -1,        ENGINE_MAX_DEPTH},
        {"n_ids",              how->n_ids,              0,         INT32_MAX},
        {"n_stop",             how->n_stop,             0,         ENGINE_MAX_STOP},
        {"n_bias",             how->n_bias,             0,         INT32_MAX},
        {"n_alternatives",     how->n_alternatives,     0,         ENGINE_MAX_ALTERNATIVES},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= numbers[i].low && numbers[i].value <= numbers[i].high))
            return err_set(e, "%s is %g, expected %g to %g", numbers[i].name, numbers[i].value, numbers[i].low, numbers[i].high);
    for (int i = 0; i < how->n_bias; i++) {
        if (how->bias_ids[i] < 0 || how->bias_ids[i] >= vocab)
            return err_set(e, "logit bias for id %d, expected 0 to %d", how->bias_ids[i], vocab - 1);
        if (!(how->bias[i] <= FLT_MAX))
            return err_set(e, "logit bias of id %d is %g, expected a number or -inf", how->bias_ids[i], (double)how->bias[i]);
    }
    return true;
}

int sampler_n_ids(const struct sampling *how, int vocab)
{
    return how->n_ids && how->n_ids < vocab ? how->n_ids : vocab;
}

uint64_t sampler_stream(const struct sampling *how)
{
    return how->seed + (how->temperature > 0 ? (uint64_t)how->n_answer_prefix * SPLITMIX_STEP : 0);
}

int32_t sampler_argmax(const float *logits, int vocab)
{
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

bool sampler_bad_logit(struct err *e, int id, float logit)
{
    return err_set(e, "the logit of id %d is %g, expected a finite number", id, (double)logit);
}

bool sampler_all_banned(struct err *e, int n_ids)
{
    return err_set(e, "no id is left to pick from: all %d are banned", n_ids);
}
