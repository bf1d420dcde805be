#include "ui/model.h"

#include <stdio.h>
#include <string.h>

#include "debug/debug.h"
#include "ui/exits.h"

bool model_is_command(int argc, char **argv)
{
    return argc > 2 && !strcmp(argv[1], "model") && !strcmp(argv[2], "inspect");
}

int model_main(int argc, char **argv)
{
    if (argc == 4)
        return debug_inspect(argv[3], stdout) ? EXIT_FAILED : EXIT_ANSWERED;
    fputs("Usage: q35chat model inspect DIR\n", stderr);
    return EXIT_USAGE;
}
