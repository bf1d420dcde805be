/* The instruments of development, as one program:  build/tests/bench/measure head|kv|drafts|prompts|guide|write [--OPTION VALUE ...] */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/measure.h"

static struct measure_options o;

/* An option and where its value goes; all NULL: a switch without a value. */
static const struct row {
    const char *name;
    const char **text;
    int *number;
    double *real;
    bool *on;
    const char *help;
} rows[] = {
    {"synthetic", .text = &o.b.synthetic, .help = "random weights in the geometry of 122b or 35b"},
    {"model", .text = &o.b.model_dir, .help = "a checkpoint's directory"},
    {"quality", .on = &o.b.quality, .help = "of a synthetic model: attention and out projections in FP8"},
    {"layers", .number = &o.b.n_layers, .help = "layers of a synthetic model"},
    {"seed", .number = &o.b.seed, .help = "seed of the synthetic weights, or of random numbers"},
    {"backend", .text = &o.b.backend, .help = "cpu or cuda"},
    {"head", .text = &o.b.head, .help = "format of the output head"},
    {"mtp", .text = &o.b.mtp, .help = "format of the MTP block"},
    {"kv", .text = &o.b.kv, .help = "recipe of the KV cache"},
    {"ctx", .number = &o.b.n_ctx, .help = "longest context"},
    {"chunk", .number = &o.b.chunk, .help = "prompt tokens computed at a time"},
    {"threads", .number = &o.b.n_threads, .help = "CPU threads"},
    {"sms", .number = &o.b.n_sms, .help = "use only so many multiprocessors of the GPU"},
    {"weights-in", .text = &o.b.weights_in, .help = "auto, device or host"},
    {"kv-in", .text = NULL, .help = "device or host"},
    {"depth", .number = &o.b.draft, .help = "drafts: at most so many a step"},
    {"alternatives", .number = &o.b.n_alternatives, .help = "drafts: likely tokens returned with each token"},
    {"overlap", .number = &o.b.overlap, .help = "experts that the rows of a step share (default: as routed)"},
    {"answers", .number = &o.answers, .help = "drafts, prompts: one to so many at once"},
    {"chance", .real = &o.chance, .help = "drafts: only drafts that are right with this probability"},
    {"then", .real = &o.then, .help = "drafts: ... which changes to this one and back every 200 tokens"},
    {"bandwidth", .real = &o.b.bandwidth, .help = "drafts: project onto a plain read of so many GB/s"},
    {"text", .text = &o.text_file, .help = "head, kv: a text that the model reads"},
    {"positions", .number = &o.n_positions, .help = "head: positions of each kind of random numbers (20000)"},
    {"long", .on = &o.b.full, .help = "the slow rows, too"},
    {"json", .on = &o.b.json, .help = "print one JSON object"},
    {"out", .text = &o.b.out_file, .help = "also write the JSON object to this file"},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static int usage(void)
{
    fprintf(stderr, "measure head | kv | drafts | prompts | guide | write DIR, with options:\n");
    for (int i = 0; i < N_ROWS; i++)
        fprintf(stderr, "  --%-13s %s\n", rows[i].name, rows[i].help);
    return 2;
}

int main(int argc, char **argv)
{
    struct option options[N_ROWS + 1] = {0};
    struct buf line = {0};
    int c, at;
    if (argc < 2)
        return usage();
    for (int i = 0; i < N_ROWS; i++)
        options[i] = (struct option){rows[i].name, rows[i].on ? no_argument : required_argument, NULL, 'o'};
    for (int i = 1; i < argc; i++)
        buf_addf(&line, "%s%s", i > 1 ? " " : "", argv[i]);
    o.n_positions = 20000;
    o.b.overlap = -1;
    o.b.arguments = buf_str(&line);
    while ((c = getopt_long(argc, argv, "", options, &at)) == 'o') {
        const struct row *r = &rows[at];
        if (r->on)
            *r->on = true;
        else if (r->text)
            *r->text = optarg;
        else if (r->number)
            *r->number = atoi(optarg);
        else if (r->real)
            *r->real = atof(optarg);
        else
            o.b.kv_in_host = !strcmp(optarg, "host");
    }
    o.b.overlap++;
    if (c != -1 || optind == argc)
        return usage();
    const char *what = argv[optind];
    o.write_dir = argv[optind + 1];
    int status = !strcmp(what, "head") ? measure_head(&o) : !strcmp(what, "kv") ? measure_kv(&o) : !strcmp(what, "drafts") ? measure_drafts(&o)
               : !strcmp(what, "prompts") ? measure_prompts(&o) : !strcmp(what, "guide") ? measure_guide(&o)
               : !strcmp(what, "write") && o.write_dir && o.b.synthetic ? measure_write(&o) : usage();
    buf_free(&line);
    return status;
}
