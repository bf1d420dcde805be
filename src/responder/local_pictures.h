/* The pictures of a prompt.  A prompt is made with one <|image_pad|> for each picture, and all positions of the responder count these; the engine
 * gets as many as the picture has tokens, and the pixels as its vision tower sees them.  Threads decode and resize files, each once while there is
 * room, so that no call here takes long. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/ids.h"
#include "base/message.h"
#include "base/worker.h"
#include "engine/engine.h"
#include "image/image.h"

/* Decoded pictures, by the hash of their files, and those that wait for the thread.  Valid as {0}, until views_open(). */
struct views {
    struct image_limits limits;
    struct worker worker;               /* its lock guards all that follows */
    int      fd;                        /* eventfd: readable when a picture has been decoded */
    struct view **all;
    int      n, cap;
    size_t   bytes;                     /* of all pixels */
    uint64_t clock;                     /* counts uses: the least recently used one goes */
    uint64_t round;                     /* of the picture that was decoded last */
};
/* Starts the threads.  False with the reason.  Where another program decodes the files there is none: *v is {0} with limits, and counts alone. */
bool views_open(struct views *v, struct image_limits limits, struct err *e);
void views_close(struct views *v);      /* does nothing if it was not opened */
/* True, once, if a picture has been decoded since the last call, or there was a views_notice(). */
bool views_changed(struct views *v);
void views_notice(struct views *v);
/* Decodes a picture on the calling thread, which fills its sides, and keeps it for a prompt that comes soon, while there is room.  False with the
 * reason: it cannot be seen, or nobody wants it any more.  Any thread, while *v is open; wish->stop must be there. */
bool views_look(struct views *v, struct media *m, const struct image_wish *wish, struct err *e);

/* The pictures of a prompt, in order.  Valid as {0}. */
struct sights {
    struct view **views;                /* NULL: another program decodes it */
    struct picture *pictures;           /* without their places; before the picture is decoded, with the tokens that its sides make */
    struct pixels **pixels;             /* NULL: not decoded yet */
    int n, cap;
};
/* Makes *s the pictures of these messages, and has those decoded that are not yet.  False with the reason: there is one without bytes. */
bool sights_take(struct sights *s, struct views *v, const struct message *messages, int n, struct err *e);
enum sights_state {
    SIGHTS_THERE,
    SIGHTS_AWAITED,                     /* the thread still works: see views_changed() */
    SIGHTS_FAILED,                      /* a file cannot be decoded: the reason names it */
};
/* Takes what was decoded meanwhile. */
enum sights_state sights_update(struct sights *s, struct views *v, struct err *e);
/* Gives up those that are not decoded yet, and stops their decoding unless others wait for them.  No sights_update() may follow. */
void sights_abandon(struct sights *s, struct views *v);
void sights_free(struct sights *s, struct views *v);

/* Return how many tokens the pictures have beyond their pads: those of the messages, by their sides; those among the first n ids. */
int  sights_measure(const struct image_limits *limits, const struct message *messages, int n);
int  sights_extra(const struct sights *s, const int32_t *ids, int n, int32_t pad);
/* The tokens as the engine gets them: placed_free() frees them; the pixels stay those of the sights. */
struct placed { struct ids ids; struct picture *pictures; struct spans spans; };
/* Puts the pictures into the place of their pads.  False with the reason if there are not as many pads as pictures; with `head`, there may be
 * fewer. */
bool sights_place(const struct sights *s, const struct ids *ids, int32_t pad, bool head, struct placed *out, struct err *e);
void placed_free(struct placed *p);
