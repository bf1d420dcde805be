#include "ui/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/run.h"
#include "ui/exits.h"

static const char *const usage =
    "Usage: q35chat bench COMMAND (--synthetic 122b|35b | --model DIR) [options]\n"
    "       q35chat bench --synthetic 122b|35b [--layers N] --write DIR      stores such a model\n\n";

const char bench_options_help[] =
    "\n  --synthetic 122b|35b (random weights)  --model DIR (a checkpoint)  --write DIR (stores the synthetic one)\n"
    "  --backend cuda|cpu  --head int8|bf16  --kv RECIPE   --layers N (of a synthetic model)  --seed N\n"
    "  --ctx N    --chunk N    --threads N   --rows N      --overlap N (experts that the rows of a step share)\n"
    "  --depth N (drafts a step)             --sms N (multiprocessors, of a GPU)\n"
    "  --long (the slow rows, too)           --json        --out FILE (JSON)\n";

static int help(FILE *f)
{
    fputs(usage, f);
    for (const struct bench_command *c = bench_commands; c->name; c++)
        fprintf(f, "  %-10s %s\n", c->name, c->help);
    fputs(bench_options_help, f);
    return f == stdout ? EXIT_ANSWERED : EXIT_USAGE;
}

static bool count(const char *flag, const char *text, int min, int max, int *out, struct err *e)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < min || n > max)
        return err_set(e, "%s is '%s', expected a number from %d to %d", flag, text, min, max);
    *out = (int)n;
    return true;
}

static bool read_options(int argc, char **argv, int at, struct bench_options *o, struct err *e)
{
    const struct { const char *flag; const char **text; int *number; int min, max; } known[] = {
        {"--synthetic", &o->synthetic, NULL, 0, 0}, {"--model", &o->model_dir, NULL, 0, 0}, {"--backend", &o->backend, NULL, 0, 0},
        {"--head", &o->head, NULL, 0, 0}, {"--kv", &o->kv, NULL, 0, 0}, {"--out", &o->out_file, NULL, 0, 0}, {"--write", &o->write_dir, NULL, 0, 0},
        {"--layers", NULL, &o->n_layers, 1, 256}, {"--depth", NULL, &o->draft, 0, 5}, {"--rows", NULL, &o->rows, 1, 8},
        {"--overlap", NULL, &o->overlap, 0, 16}, {"--ctx", NULL, &o->n_ctx, 1, 1 << 20}, {"--sms", NULL, &o->n_sms, 1, 1024},
        {"--threads", NULL, &o->n_threads, 1, 256}, {"--chunk", NULL, &o->chunk, 1, 8192}, {"--seed", NULL, &o->seed, 0, 1 << 30},
    };
    const struct { const char *flag; bool *on; } switches[] = {{"--json", &o->json}, {"--long", &o->full}};
    enum { N_KNOWN = sizeof known / sizeof *known, N_SWITCHES = sizeof switches / sizeof *switches };
    for (int i = at; i < argc; i++) {
        int k = 0, s = 0;
        while (s < N_SWITCHES && strcmp(argv[i], switches[s].flag))
            s++;
        if (s < N_SWITCHES) {
            *switches[s].on = true;
            continue;
        }
        while (k < N_KNOWN && strcmp(argv[i], known[k].flag))
            k++;
        if (k == N_KNOWN)
            return err_set(e, "there is no option %s; q35chat bench help lists them", argv[i]);
        if (i + 1 == argc)
            return err_set(e, "%s needs a value", argv[i]);
        const char *value = argv[++i];
        if (known[k].number && !count(argv[i - 1], value, known[k].min, known[k].max, known[k].number, e))
            return false;
        if (known[k].text)
            *known[k].text = value;
        if (known[k].number == &o->overlap)
            o->overlap++;               /* 0 stays "as routed" */
    }
    return true;
}

static int run(const struct bench_options *o, const char *name, struct err *e)
{
    const struct bench_command *c = bench_commands;
    if (o->write_dir) {
        if (o->synthetic && !o->model_dir)
            return bench_write(o);
        err_set(e, "--write needs --synthetic NAME");
        return EXIT_USAGE;
    }
    while (c->name && strcmp(c->name, name))
        c++;
    if (c->name && !o->synthetic == !o->model_dir) {
        err_set(e, "bench %s needs one of --synthetic NAME and --model DIR", name);
        return EXIT_USAGE;
    }
    return c->name ? c->run(o) : help(stderr);
}

int bench_main(int argc, char **argv)
{
    const char *name = argc > 2 ? argv[2] : "";
    struct bench_options o = {0};
    struct buf all = {0};
    struct err e = {0};
    int status = EXIT_USAGE;
    if (!strcmp(name, "help") || !strcmp(name, "--help"))
        return help(stdout);
    for (int i = 0; i < argc; i++)
        buf_addf(&all, "%s%s", i ? " " : "", i ? argv[i] : "q35chat");
    o.arguments = buf_str(&all);
    if (read_options(argc, argv, !strncmp(name, "--", 2) ? 2 : 3, &o, &e))
        status = run(&o, name, &e);
    if (e.msg[0])
        fprintf(stderr, "q35chat: %s\n", e.msg);
    buf_free(&all);
    return status;
}
