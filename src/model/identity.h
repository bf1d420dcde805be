/* A fingerprint of the model in a directory, made without reading all of it: names, sizes and 16 samples of 4 KiB each of config.json, the index and
 * the shards, their beginnings among them. Another training of the same geometry has other samples. */
#ifndef Q35_MODEL_IDENTITY_H
#define Q35_MODEL_IDENTITY_H

#include "base/checksum.h"

void identity_add_model(struct fingerprinter *f, const char *dir);

#endif
