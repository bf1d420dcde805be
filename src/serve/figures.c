#include "serve/figures.h"

void figures_add(struct figures *f, const struct stats *s)
{
    const struct draft_count all = stats_all_drafts(s);
    f->prompt_tokens += (unsigned long long)s->n_prompt;
    f->cached_tokens += (unsigned long long)s->n_cached;
    f->tokens += (unsigned long long)s->n_tokens;
    f->drafted += (unsigned long long)all.drafted;
    f->accepted += (unsigned long long)all.accepted;
    f->prefill_s += s->prefill_ms / 1000;
    f->decode_s += s->decode_ms / 1000;
}

static void add(struct buf *out, const char *name, const char *type, const char *help, double value)
{
    buf_addf(out, "# HELP q35chat_%s %s\n# TYPE q35chat_%s %s\nq35chat_%s %.15g\n", name, help, name, type, name, value);
}

void figures_write(const struct figures *f, int running, int waiting, int unread, int clients, struct buf *out)
{
    const struct { const char *name, *help; double value; } counters[] = {
        {"requests_total", "Requests for an answer.", (double)f->requests},
        {"requests_refused_total", "Requests that could not be answered as they were.", (double)f->refused},
        {"requests_overloaded_total", "Requests that were sent away since the queue was full.", (double)f->overloaded},
        {"requests_left_total", "Requests whose client went away before the end.", (double)f->left},
        {"requests_unread_total", "Requests whose client did not read its answer.", (double)f->unread},
        {"answers_total", "Answers that came to their end.", (double)f->answers},
        {"answers_failed_total", "Answers that the engine could not finish.", (double)f->failed},
        {"prompt_tokens_total", "Tokens of prompts.", (double)f->prompt_tokens},
        {"prompt_cached_tokens_total", "Those of them that were not read again.", (double)f->cached_tokens},
        {"tokens_total", "Tokens of answers.", (double)f->tokens},
        {"draft_tokens_total", "Tokens that were drafted.", (double)f->drafted},
        {"draft_accepted_tokens_total", "Drafts that were accepted.", (double)f->accepted},
        {"prefill_seconds_total", "Time from a request to its first token.", f->prefill_s},
        {"decode_seconds_total", "Time from the first token to the last.", f->decode_s},
    };
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        add(out, counters[i].name, "counter", counters[i].help, counters[i].value);
    add(out, "running", "gauge", "Answers under way.", running);
    add(out, "waiting", "gauge", "Requests that wait for the engine.", waiting);
    add(out, "unread", "gauge", "Answers that wait for their client to read.", unread);
    add(out, "clients", "gauge", "Open connections.", clients);
}
