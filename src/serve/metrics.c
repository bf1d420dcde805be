#include "serve/metrics.h"

#include <math.h>

static const struct {
    const char *name, *help;
    double      bounds[HISTOGRAM_BOUNDS];       /* bounds[0] is not used; ends with 0 */
} histograms[N_HISTOGRAMS] = {
#define HISTOGRAM(id, name, help, ...) [HISTOGRAM_##id] = {name, help, {0 __VA_ARGS__}},
#include "config/histograms.def"
#undef HISTOGRAM
};

void metrics_observe(struct metrics *m, enum histogram_id id, double value, int n)
{
    struct histogram *h = &m->histograms[id];
    const double *bounds = histograms[id].bounds + 1;
    int i = 0;
    while (bounds[i] && value > bounds[i])
        i++;
    h->n[i] += (unsigned long long)n;
    h->count += (unsigned long long)n;
    h->sum += value * n;
}

void metrics_answer(struct metrics *m, const struct stats *s, struct key *key)
{
    const struct draft_count all = stats_all_drafts(s);
    m->prompt_tokens += (unsigned long long)s->n_prompt;
    m->cached_tokens += (unsigned long long)s->n_cached;
    m->tokens += (unsigned long long)s->n_tokens;
    m->drafted += (unsigned long long)all.drafted;
    m->accepted += (unsigned long long)all.accepted;
    m->prefill_s += s->prefill_ms / 1000;
    m->decode_s += s->decode_ms / 1000;
    metrics_observe(m, HISTOGRAM_PROMPT, s->n_prompt, 1);
    metrics_observe(m, HISTOGRAM_ANSWER, s->n_tokens, 1);
    if (!key)
        return;
    key->use.prompt_tokens += (unsigned long long)s->n_prompt;
    key->use.cached_tokens += (unsigned long long)s->n_cached;
    key->use.tokens += (unsigned long long)s->n_tokens;
}

static void add_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_plain(struct buf *out, const char *name, const char *type, const char *help, double value)
{
    add_head(out, name, type, help);
    buf_addf(out, "%s %.15g\n", name, value);
}

/* Appends the counters. */
static void add_counters(const struct metrics *m, struct buf *out)
{
    const struct { const char *name, *help; double value; } counters[] = {
        {"q35chat_requests_total", "Requests for an answer.", (double)m->requests},
        {"q35chat_requests_refused_total", "Requests that could not be answered as they were.", (double)m->refused},
        {"q35chat_requests_overloaded_total", "Requests that were sent away since the queue was full.", (double)m->overloaded},
        {"q35chat_requests_left_total", "Requests whose client went away before the end.", (double)m->left},
        {"q35chat_requests_unread_total", "Requests whose client did not read its answer.", (double)m->unread},
        {"q35chat_answers_total", "Answers that came to their end.", (double)m->answers},
        {"q35chat_answers_failed_total", "Answers that the engine could not finish.", (double)m->failed},
        {"q35chat_prompt_tokens_total", "Tokens of prompts.", (double)m->prompt_tokens},
        {"q35chat_prompt_cached_tokens_total", "Those of them that were not read again.", (double)m->cached_tokens},
        {"q35chat_tokens_total", "Tokens of answers.", (double)m->tokens},
        {"q35chat_draft_tokens_total", "Tokens that were drafted.", (double)m->drafted},
        {"q35chat_draft_accepted_tokens_total", "Drafts that were accepted.", (double)m->accepted},
        {"q35chat_prefill_seconds_total", "Time from a request to its first token.", m->prefill_s},
        {"q35chat_decode_seconds_total", "Time from the first token to the last.", m->decode_s},
    };
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        add_plain(out, counters[i].name, "counter", counters[i].help, counters[i].value);
}

/* A value in a label: quotes, backslashes and line ends are escaped. */
static void add_label(struct buf *out, const char *value)
{
    for (; *value; value++)
        if (*value == '\n')
            buf_adds(out, "\\n");
        else if (*value == '"' || *value == '\\')
            buf_addf(out, "\\%c", *value);
        else
            buf_addc(out, *value);
}

/* Appends a histogram. */
static void add_histogram(struct buf *out, int id, const struct histogram *h, const char *model)
{
    const double *bounds = histograms[id].bounds + 1;
    const char *name = histograms[id].name;
    unsigned long long below = 0;
    add_head(out, name, "histogram", histograms[id].help);
    for (int i = 0; bounds[i]; i++) {
        below += h->n[i];
        buf_addf(out, "%s_bucket{model_name=\"%s\",le=\"%.15g\"} %llu\n", name, model, bounds[i], below);
    }
    buf_addf(out, "%s_bucket{model_name=\"%s\",le=\"+Inf\"} %llu\n", name, model, h->count);
    buf_addf(out, "%s_count{model_name=\"%s\"} %llu\n%s_sum{model_name=\"%s\"} %.15g\n", name, model, h->count, name, model, h->sum);
}

/* Appends what dashboards of vLLM show besides its histograms. */
static void add_vllm(const struct metrics *m, const struct metrics_now *now, const char *model, struct buf *out)
{
    const struct { const char *name, *type, *help; double value; } rows[] = {
        {"vllm:num_requests_running", "gauge", "Answers under way.", now->running},
        {"vllm:num_requests_waiting", "gauge", "Requests that wait for the engine.", now->waiting},
        {"vllm:prompt_tokens_total", "counter", "Tokens of prompts.", (double)m->prompt_tokens},
        {"vllm:generation_tokens_total", "counter", "Tokens of answers.", (double)m->tokens},
        {"vllm:prefix_cache_queries_total", "counter", "Tokens of prompts.", (double)m->prompt_tokens},
        {"vllm:prefix_cache_hits_total", "counter", "Tokens of prompts that were not read again.", (double)m->cached_tokens},
        {"vllm:spec_decode_num_draft_tokens_total", "counter", "Tokens that were drafted.", (double)m->drafted},
        {"vllm:spec_decode_num_accepted_tokens_total", "counter", "Drafts that were accepted.", (double)m->accepted},
    };
    const struct { const char *reason; unsigned long long n; } ends[] = {
        {"stop", m->stopped}, {"length", m->length}, {"abort", m->aborted}, {"error", m->failed},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        add_head(out, rows[i].name, rows[i].type, rows[i].help);
        buf_addf(out, "%s{model_name=\"%s\"} %.15g\n", rows[i].name, model, rows[i].value);
    }
    add_head(out, "vllm:request_success_total", "counter", "Answers by their end.");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        buf_addf(out, "vllm:request_success_total{model_name=\"%s\",finished_reason=\"%s\"} %llu\n", model, ends[i].reason, ends[i].n);
    for (int i = 0; i < N_HISTOGRAMS; i++)
        add_histogram(out, i, &m->histograms[i], model);
}

static unsigned long long use_of(const struct key_use *u, int which)
{
    const unsigned long long values[] = {u->requests, u->prompt_tokens, u->cached_tokens, u->tokens};
    return values[which];
}

/* Appends the counters of each key. */
static void add_keys(const struct keys *keys, struct buf *out)
{
    static const char *const names[] = {"requests_total", "prompt_tokens_total", "prompt_cached_tokens_total", "tokens_total"};
    static const char *const helps[] = {"Requests for an answer, by the key's name.", "Tokens of prompts, by the key's name.",
                                        "Those of them that were not read again.", "Tokens of answers, by the key's name."};
    for (int f = 0; keys->n && f < 4; f++) {
        char name[64];
        snprintf(name, sizeof name, "q35chat_key_%s", names[f]);
        add_head(out, name, "counter", helps[f]);
        for (int i = 0; i < keys->n; i++)
            buf_addf(out, "%s{key=\"%s\"} %llu\n", name, keys->list[i].name, use_of(&keys->list[i].use, f));
        if (keys->n == KEYS_NAMES)
            buf_addf(out, "%s{key=\"(others)\"} %llu\n", name, use_of(&keys->forgotten, f));
    }
}

void metrics_print(const struct metrics *m, const struct metrics_now *now, const struct keys *keys, struct buf *out)
{
    struct buf model = {0};
    add_label(&model, now->model);
    add_counters(m, out);
    add_plain(out, "q35chat_running", "gauge", "Answers under way.", now->running);
    add_plain(out, "q35chat_waiting", "gauge", "Requests that wait for the engine.", now->waiting);
    add_plain(out, "q35chat_unread", "gauge", "Answers that wait for their client to read.", now->unread);
    add_plain(out, "q35chat_clients", "gauge", "Open connections.", now->clients);
    add_plain(out, "q35chat_resident", "gauge", "Conversations in memory.", now->resident);
    add_plain(out, "q35chat_resident_max", "gauge", "Conversations that there is room for in memory.", now->resident_max);
    add_plain(out, "q35chat_evicted_total", "counter", "Conversations that gave up their place in memory.", now->evicted);
    add_plain(out, "q35chat_moved_out_total", "counter", "Those of them that were written to a file.", now->moved_out);
    add_plain(out, "q35chat_moved_in_total", "counter", "Conversations that came back from a file.", now->moved_in);
    add_keys(keys, out);
    add_vllm(m, now, buf_str(&model), out);
    buf_free(&model);
}
