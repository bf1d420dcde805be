/* Which model lies in a directory, without reading all of it: config.json, the index, and of each of these files and each shard its name, its size
 * and 16 samples of 4 KiB, its beginning among them.  Another training of the same geometry has other samples. */
#ifndef Q35_MODEL_IDENTITY_H
#define Q35_MODEL_IDENTITY_H

#include "base/checksum.h"

void identity_add_model(struct fingerprinter *f, const char *dir);

#endif
