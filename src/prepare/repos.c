#include "prepare/repos.h"

#include <stddef.h>
#include <string.h>

#define WHOLE false
#define SMALL true
const struct repos_row repos_rows[] = {
#define REPO(name, repo, files) {name, repo, files},
#include "config/repos.def"
    {NULL, NULL, false},
};

bool repos_is_name(const char *word)
{
    for (const struct repos_row *r = repos_rows; r->name; r++)
        if (!strcmp(r->name, word))
            return true;
    return false;
}

bool repos_is_weight(const char *path)
{
    static const char end[] = ".safetensors";
    size_t n = strlen(path), m = sizeof end - 1;
    return n >= m && !strcmp(path + n - m, end);
}
