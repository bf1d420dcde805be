#include "ui/debug.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "debug/run.h"
#include "ui/exits.h"

static const char *const usage =
    "Usage: q35chat debug COMMAND [options]     JSON lines on stdin, JSON lines on stdout\n\n";

const char debug_options_help[] =
    "\n  --model DIR    --out FILE    --backend cpu|cuda    --head bf16|int8    --kv RECIPE\n"
    "  --chunk N      --threads N   --step (one token at a time)    --rows N (of them in a step)\n";

static int help(FILE *f)
{
    fputs(usage, f);
    for (const struct debug_command *c = debug_commands; c->name; c++)
        fprintf(f, "  %-10s %s\n", c->name, c->help);
    fputs(debug_options_help, f);
    return f == stdout ? EXIT_ANSWERED : EXIT_USAGE;
}

static bool count(const char *flag, const char *text, int *out, struct err *e)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 1 || n > 1 << 20)
        return err_set(e, "%s is '%s', expected a number from 1 to %d", flag, text, 1 << 20);
    *out = (int)n;
    return true;
}

static bool read_options(int argc, char **argv, struct debug_options *o, struct err *e)
{
    const struct { const char *flag; const char **text; int *number; } known[] = {
        {"--model", &o->model_dir, NULL}, {"--out", &o->out_file, NULL}, {"--backend", &o->backend, NULL},
        {"--head", &o->head, NULL}, {"--kv", &o->kv, NULL}, {"--chunk", NULL, &o->chunk}, {"--threads", NULL, &o->n_threads},
        {"--rows", NULL, &o->rows},
    };
    enum { N_KNOWN = sizeof known / sizeof *known };
    for (int i = 3; i < argc; i++) {
        int k = 0;
        if (!strcmp(argv[i], "--step")) {
            o->step = true;
            continue;
        }
        while (k < N_KNOWN && strcmp(argv[i], known[k].flag))
            k++;
        if (k == N_KNOWN)
            return err_set(e, "there is no option %s; q35chat debug help lists them", argv[i]);
        if (i + 1 == argc)
            return err_set(e, "%s needs a value", argv[i]);
        const char *value = argv[++i];
        if (known[k].number && !count(argv[i - 1], value, known[k].number, e))
            return false;
        if (known[k].text)
            *known[k].text = value;
    }
    return true;
}

int debug_main(int argc, char **argv)
{
    const char *name = argc > 2 ? argv[2] : "";
    const struct debug_command *c = debug_commands;
    struct debug_options o = {0};
    struct err e = {0};
    if (!strcmp(name, "help") || !strcmp(name, "--help"))
        return help(stdout);
    while (c->name && strcmp(c->name, name))
        c++;
    if (!c->name)
        return help(stderr);
    if (!read_options(argc, argv, &o, &e))
        ;
    else if (c->needs_model && !o.model_dir)
        err_set(&e, "debug %s needs --model DIR", name);
    else if (c->needs_out && !o.out_file)
        err_set(&e, "debug %s needs --out FILE", name);
    else
        return c->run(&o, stdin, stdout);
    fprintf(stderr, "q35chat: %s\n", e.msg);
    return EXIT_USAGE;
}
