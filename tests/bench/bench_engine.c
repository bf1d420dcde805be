/* Speed of the engine on this machine with the demo model (or the checkpoint given): loading, prefill, and decoding at every
 * draft depth on the same prompt, greedy.  usage: bench_engine [DIR [THREADS]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

static const char *const prompts[] = {
    "<|im_start|>user\nHello, who are you?<|im_end|>\n<|im_start|>assistant\n<think>\n",
    "<|im_start|>user\nWhat is 4821 + 3799?<|im_end|>\n<|im_start|>assistant\n<think>\n",
    "<|im_start|>user\nGive me a JSON object with the name Ann, the age 31 and the city Oslo.<|im_end|>\n<|im_start|>assistant\n<think>\n",
    "<|im_start|>user\nMy name is Tom. Spell the word garden.<|im_end|>\n<|im_start|>assistant\n<think>\n",
};

/* Waits for the end of `serial` (0: for EV_READY). */
static bool wait_for(struct engine *g, uint32_t serial, struct stats *s)
{
    for (;;) {
        engine_wait(g, -1);
        struct event_list l = engine_drain(g);
        for (int i = 0; i < l.n; i++) {
            const struct event *ev = &l.events[i];
            if (ev->kind == EV_FATAL || (ev->kind == EV_DONE && ev->finish == END_FAILED)) {
                fprintf(stderr, "%s\n", ev->message);
                return false;
            }
            if (ev->kind == EV_DONE && ev->serial == serial) {
                *s = ev->stats;
                return true;
            }
            if (ev->kind == EV_READY && !serial)
                return true;
        }
    }
}

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : "assets/demo";
    struct err e = {0};
    struct stats s = {0};
    struct tokenizer *t = tokenizer_open(dir, &e);
    int64_t start = clock_ns();
    struct engine *g = t ? engine_open(&(struct engine_options){.model_dir = dir, .draft_depth = ENGINE_MAX_DEPTH,
                                                                .n_threads = argc > 2 ? atoi(argv[2]) : 0}, &e) : NULL;
    if (!g || !wait_for(g, 0, &s)) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    const struct model_info *info = engine_info(g);
    printf("%s: %s, %d threads, ready after %.0f ms\n", dir, info->formats, info->n_threads, clock_ms_since(start));

    struct ids ids = {0};
    srand(1);
    while (ids.n < 2048)
        ids_add(&ids, (int32_t)((unsigned)rand() % 256));
    for (int n = 128; n <= 2048; n *= 4) {
        ids.data[0] = n % 251;                  /* no common prefix with the last one */
        if (!wait_for(g, engine_submit(g, 0, spans_text(ids.data, n), 0, &(struct sampling){.max_tokens = 1, .draft_depth = 0}), &s))
            return 1;
        printf("prefill %5d tokens: %7.0f tok/s\n", n, (s.n_prompt - s.n_cached) / s.prefill_ms * 1e3);
    }
    printf("depth   tok/s  tokens/step  accepted of drafted, by position\n");
    for (int depth = 0; depth <= info->draft_depth; depth++) {
        struct stats sum = {0};
        for (size_t p = 0; p < sizeof prompts / sizeof *prompts; p++) {
            struct sampling how = {.max_tokens = 200, .draft_depth = depth, .n_stop = info->n_ends};
            memcpy(how.stop, info->ends, sizeof how.stop);
            ids.n = 0;
            tokenizer_encode(t, prompts[p], strlen(prompts[p]), true, &ids);
            if (!wait_for(g, engine_submit(g, 0, spans_text(ids.data, ids.n), 0, &how), &s))
                return 1;
            stats_add(&sum, &s, false);
        }
        printf("%5d %7.1f  %11.2f ", depth, stats_tok_s(&sum), sum.n_steps ? (double)sum.n_timed / sum.n_steps : 0);
        for (int i = 0; i < depth; i++)
            printf(" %d/%d", sum.drafts[DRAFT_MTP][i].accepted, sum.drafts[DRAFT_MTP][i].drafted);
        printf("\n");
    }
    engine_close(g);
    tokenizer_close(t);
    ids_free(&ids);
    return 0;
}
