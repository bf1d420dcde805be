/* While nothing is asked, the responder reads what the next prompt begins with: system prompt and tools when the model is there, the
 * last answer (as the next prompt will have it, without its reasoning) when a turn has ended. */
#include <string.h>

#include "chat/sent.h"
#include "chat/state.h"

static uint64_t mix(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;        /* FNV-1a */
    return h;
}

/* Of everything that the beginning is made of.  Entries do not change once they are said. */
static uint64_t fingerprint(const struct chat *c, const char *system, const struct text *tools, int n_tools)
{
    uint64_t h = mix(0xcbf29ce484222325u, system, strlen(system));
    for (int i = 0; i < n_tools; i++)
        h = mix(h, tools[i].p, tools[i].n);
    for (int i = 0; i < c->t.n; i++) {
        const struct entry *m = c->t.entries[i];
        h = mix(h, &m, sizeof m);
        h = mix(h, &m->m.content.n, sizeof m->m.content.n);
        h = mix(h, &m->mark, sizeof m->mark);
        h = mix(h, &m->skipped, sizeof m->skipped);
        for (int k = 0; k < m->n_files; k++)
            h = mix(h, &m->files[k].dropped, sizeof m->files[k].dropped);
    }
    return h;
}

void ahead_step(struct chat *c)
{
    if (!c->responder->can.read_ahead || !c->front.reads_ahead || !options_on(c->o, OPT_read_ahead) || !c->ready || c->turn.state != TURN_IDLE || chat_rest(c) != CHAT_WHOLE)
        return;
    int n_tools;
    const struct text *tools = tools_schemas(c->calls.tools, &n_tools);
    const char *system = options_text(c->o, OPT_system);
    uint64_t print = fingerprint(c, system, tools, n_tools);
    if (print == c->ahead_print)
        return;
    c->ahead_print = print;
    struct transcript t = c->t;         /* as persist_system() will make it */
    struct arena mem = {0};
    struct request q = {.tools = tools, .n_tools = n_tools};
    t.system = *system ? (char *)system : NULL;
    q.messages = sent_messages(&t, "", &mem, &q.n_messages);
    c->responder->ops->read_ahead(c->responder, &q);
    arena_free(&mem);
}
