/* The rows of config/dialects.def, and what a server's list of models says. */
#ifndef Q35_REMOTE_DIALECT_H
#define Q35_REMOTE_DIALECT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum dialect_thinking { THINKING_NOT, THINKING_TEMPLATE, THINKING_EFFORT };
enum dialect_context { CONTEXT_NOWHERE, CONTEXT_MODELS, CONTEXT_PROPS };

struct dialect {
    const char *name, *owner;
    enum dialect_thinking thinking;
    const char *repetition, *max_tokens;
    bool extended, says_off, continues, progress, interrupts;
    enum dialect_context context;
    bool own;
};

/* By its name; NULL with those that there are. */
const struct dialect *dialect_find(const char *name, struct err *e);

struct remote_model {
    struct buf id;
    bool unlisted;                      /* the list does not have it, and that of such a server may lack some */
    int n_ctx;                          /* 0: not said */
    const struct dialect *dialect;
    bool loading;                       /* it cannot answer yet */
    size_t loaded, to_load;             /* bytes */
};

/* The body of /v1/models.  `wanted` NULL: the only model that it lists; none or several: refused, with their names.  One that is wanted and not
 * listed is refused if the server is of a known kind, which lists all that it has.  *m must be freed either way.  `names` gets the names of all that
 * answer, each ended by a zero byte; it stays as it is where there are none.  Models that the server marks as made for embeddings alone do not
 * answer. */
bool models_choose(const char *body, size_t n, const char *wanted, struct remote_model *m, struct buf *names, struct err *e);
/* Such names in a sentence: that --model is to name one of them. */
void models_ask(const struct buf *names, struct err *e);
/* Without a list: the wanted one, of a server of unknown kind. */
void models_assume(const char *wanted, struct remote_model *m);
void remote_model_free(struct remote_model *m);
/* The context's length in the body of /props; 0: not said. */
int  props_context(const char *body, size_t n);

#endif
