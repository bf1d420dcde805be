/* `q35chat model ...`. */
#include "debug/debug.h"
#include "ui/exits.h"
#include "ui/subcommand.h"

int model_inspect(const struct args *a)
{
    return debug_inspect(args_word(a, 0), stdout) ? EXIT_FAILED : EXIT_ANSWERED;
}
