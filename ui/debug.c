#include "debug.h"

#include <stdio.h>
#include <string.h>

#include "debug/debug.h"
#include "exits.h"

int debug_run(int argc, char **argv)
{
    const char *name = argc > 2 ? argv[2] : "help", *model = NULL;
    for (int i = 3; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--model"))
            model = argv[i + 1];
    if (!strcmp(name, "parse"))
        return debug_parse(stdin, stdout);
    if (!strcmp(name, "tokenize"))
        return debug_tokenize(model, stdin, stdout);
    if (!strcmp(name, "render"))
        return debug_render(model, stdin, stdout);
    return EXIT_USAGE;
}

int model_run(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return EXIT_USAGE;
}
