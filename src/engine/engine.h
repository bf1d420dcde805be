/* The loaded model on its own thread: token ids in, token ids out.  All that chat may include of the engine.
 * Called from one owner thread; nothing here waits for the model except engine_close(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "answer/machine.h"
#include "base/err.h"
#include "engine/memplan.h"
#include "engine/request.h"

struct engine;

/* {0} is valid but for model_dir or synthetic: every 0 or NULL means the default. */
struct engine_options {
    const char *model_dir;              /* a checkpoint, or */
    const char *synthetic;              /* random weights, with a vision tower: as in struct load_options */
    int n_layers;                       /* of these; 0: all */
    const char *backend;                /* a name; the best one that is there */
    const char *kv;                     /* KV recipe; the first one that the device takes */
    const char *head;                   /* as in struct load_options */
    const char *mtp, *math;             /* as in struct load_options */
    const char *weights_in;             /* which memory a GPU reads the weights from: "device" (default), "host" or "auto" */
    const char *machine_dir;            /* folder for what was measured of this machine, to compare a GPU's reads with; NULL: not measured */
    bool no_vision;                     /* as in struct load_options */
    int picture_tokens;                 /* as in struct load_options */
    int n_threads;                      /* 0: one per usable core */
    int n_ctx;                          /* positions; 0: what fits, at most the model's; up to four times as many with YaRN */
    int chunk;                          /* most prompt rows a call */
    bool fixed_chunk;                   /* always so many, however long a call takes; also when `chunk` is given */
    int draft_depth;                    /* most MTP drafts a step, 0..ENGINE_MAX_DEPTH; -1: as many as a step can have; 0: no MTP rows either */
    int n_sequences;                    /* conversations resident at once; 0: as many as there is room for (engine/memplan.h) */
    int n_snapshots;                    /* states kept in memory, of all conversations */
    const char *moved_dir;              /* folder for files of long conversations without a name that give up their place; NULL: they are dropped */
    size_t moved_bytes;                 /* of these files together, at most */
};

/* Checks options, config.json and memory plan, starts the thread, returns while weights still load.
 * NULL on failure, with the reason in `e`.  What a GPU's memory holds is planned by the thread, before it reads weights: there a
 * plan that does not fit is EV_FATAL. */
struct engine *engine_open(const struct engine_options *o, struct err *e);
/* The plan that engine_open() would make now, without reading weights.  False with the reason when it does not fit. */
bool engine_fits(const struct engine_options *o, struct memory_plan *plan, struct err *e);
/* Queues a whole prompt and copies it; it is computed from the end of the longest prefix that is resident.
 *   sequence       names the conversation, with any number of the caller's: prompts of the same name take each other's place, those of
 *                  another name do not, as long as there is room for both.  0: not known; then the prompt continues a sequence without a
 *                  name, if there is one that it begins with
 *   snapshot_pos   the position worth a snapshot: the longest prefix that the next turn will share; 0: none
 * Returns the serial, > 0; exactly one EV_DONE carries it.  Answers of different conversations are under way at once where the device can do
 * that (model_info.at_once); others wait. */
uint32_t engine_submit(struct engine *g, uint64_t sequence, struct spans prompt, int snapshot_pos, const struct sampling *s);
/* While no request waits or runs: the beginning of a prompt that may come is computed, so that its submit finds it there.  Posts no event,
 * changes no answer, and ends at the next chunk when there is a submit, an interrupt, or another beginning, which takes its place.
 * The states at `snapshot_pos` are worth a snapshot.  No tokens: nothing is read ahead any more. */
void engine_read_ahead(struct engine *g, uint64_t sequence, struct spans prompt, int snapshot_pos);
/* The sequence's own file from now on; NULL: it has none.  The sequence is saved there when another one takes its place, and comes back
 * from there with its next prompt.  Nothing is written to a file `x.y` when there is no file `x` beside it. */
void engine_keep(struct engine *g, uint64_t sequence, const char *path);
/* Makes the sequence that of the file (engine/checkpoint.h), before anything that is submitted afterwards.  EV_RESTORED when tokens came back,
 * or with the reason why they did not; none if there is no such file, or what it has is resident already. */
void engine_restore(struct engine *g, uint64_t sequence, const char *path);
/* Saves the sequence of that name, or for 0 the one that was used last: while no request waits or runs, after what is to be read ahead of it now; or
 * when the engine closes.  It takes the place of an older save of the same that has not ended.  EV_SAVED when it is on the disk. */
void engine_save(struct engine *g, uint64_t sequence, const char *path);
/* Ends the submit `serial`, running or waiting: its EV_DONE with END_INTERRUPTED is there when this returns, however long
 * a step takes.  The engine notices at the end of the step or chunk; tokens that were not reported are not kept. */
void engine_interrupt(struct engine *g, uint32_t serial);
int  engine_fd(const struct engine *g);                         /* readable while events wait */
struct event_list engine_drain(struct engine *g);               /* valid until the next drain */
bool engine_wait(struct engine *g, int timeout_ms);             /* sleeps until events wait; true if they do */
const struct model_info *engine_info(const struct engine *g);  /* NULL before EV_READY was drained */
void engine_machine(struct engine *g, struct machine_figures *m);        /* cheap enough for once a second; memory alone before EV_READY */
void engine_close(struct engine *g);                            /* interrupts, waits for the thread */
