/* The names of config/repos.def. */
#ifndef Q35_PREPARE_REPOS_H
#define Q35_PREPARE_REPOS_H

#include <stdbool.h>

struct repos_row {
    const char *name, *repo;
    bool        small;                  /* without the weights */
};

extern const struct repos_row repos_rows[];             /* ends with a NULL name */
bool repos_is_name(const char *word);
bool repos_is_weight(const char *path);                 /* a file that `small` leaves out */

#endif
