/* Growable list of token ids.  Plain value, valid as {0}; the caller owns it and calls ids_free(). */
#ifndef Q35_BASE_IDS_H
#define Q35_BASE_IDS_H

#include <stdint.h>

struct ids {
    int32_t *data;
    int      n, cap;
};

void ids_add(struct ids *l, int32_t id);
void ids_append(struct ids *l, const int32_t *ids, int n);
void ids_free(struct ids *l);

#endif
