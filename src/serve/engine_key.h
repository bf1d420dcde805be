/* The options that shape an engine, as one text.  Engines of the same model with the same text give the same answers. */
#ifndef Q35_SERVE_ENGINE_KEY_H
#define Q35_SERVE_ENGINE_KEY_H

#include "base/buf.h"
#include "option/options.h"

void engine_key(const struct options *o, struct buf *out);

#endif
