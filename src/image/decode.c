#include "image/decode.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"

enum { WHITE = 255, ORIENTATION_TAG = 0x0112 };

/* ---- turns ---- */

/* Pictures of up to IMAGE_LARGE pixels are decoded beside each other while all have at most TOGETHER; of larger ones, one at a time.  They are
 * decoded in rounds: in each, one picture of every client, first come, first served.  They share the memory of the machine, so this state is the
 * program's. */
enum { TOGETHER = 32 << 20, CHECK_NS = 20000000 };

struct waiting {
    struct waiting *next;
    uint64_t client, round;
};

static struct {
    struct waiting *first;              /* ordered by round */
    size_t pixels;                      /* of those whose turn it is */
    uint64_t client, round;             /* of the picture whose turn came last */
} lines[2];                             /* of the small pictures, of the large ones */
static pthread_mutex_t turns_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_ended = PTHREAD_COND_INITIALIZER;

/* Sleeps until a turn has ended, but not for long: nothing wakes a thread whose picture nobody wants any more. */
static void await_change(void)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += CHECK_NS;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&turn_ended, &turns_lock, &at);
}

/* Puts a picture into its line: its round is the one after those of its client's other pictures. */
static void join(struct waiting *own, int line)
{
    struct waiting **at = &lines[line].first;
    own->round = lines[line].round + (own->client && own->client == lines[line].client);
    for (const struct waiting *w = lines[line].first; w; w = w->next)
        if (own->client && w->client == own->client)
            own->round = w->round + 1;
    while (*at && (*at)->round <= own->round)
        at = &(*at)->next;
    own->next = *at;
    *at = own;
}

/* Waits until so many pixels may be decoded.  False: nobody wants them any more. */
static bool take_turn(struct decode *d, size_t pixels)
{
    const int line = pixels > IMAGE_LARGE;
    struct waiting own = {.client = d->wish.client}, **at;
    pthread_mutex_lock(&turns_lock);
    join(&own, line);
    while (!decode_stopped(d) && (lines[line].first != &own || (lines[line].pixels && (line || lines[line].pixels + pixels > TOGETHER))))
        await_change();
    for (at = &lines[line].first; *at != &own; at = &(*at)->next)
        ;
    *at = own.next;
    if (!decode_stopped(d)) {
        d->im->turn = pixels;
        lines[line].client = own.client;
        lines[line].round = own.round;
    }
    lines[line].pixels += d->im->turn;
    pthread_cond_broadcast(&turn_ended);
    pthread_mutex_unlock(&turns_lock);
    return d->im->turn;
}

void decode_end_turn(struct image *im)
{
    if (!im->turn)
        return;
    pthread_mutex_lock(&turns_lock);
    lines[im->turn > IMAGE_LARGE].pixels -= im->turn;
    im->turn = 0;
    pthread_cond_broadcast(&turn_ended);
    pthread_mutex_unlock(&turns_lock);
}

bool decode_stopped(const struct decode *d)
{
    return d->wish.stop && atomic_load_explicit(d->wish.stop, memory_order_relaxed);
}

/* ---- pixels ---- */

bool decode_room(struct decode *d, uint32_t w, uint32_t h, int channels, struct err *e)
{
    struct image *im = d->im;
    const uint64_t longer = w > h ? w : h, shorter = w > h ? h : w;
    if (!shorter)
        return err_set(e, "is a picture without pixels");
    if (longer > shorter * IMAGE_MAX_RATIO)
        return err_set(e, "has %u x %u pixels; one side may be at most %d times the other", w, h, IMAGE_MAX_RATIO);
    if (longer * shorter > IMAGE_MAX_PIXELS)
        return err_set(e, "has %u x %u pixels; at most %d million are read", w, h, IMAGE_MAX_PIXELS / 1000000);
    if (!take_turn(d, longer * shorter))
        return err_set(e, DECODE_STOPPED);
    const size_t bytes = (size_t)(longer * shorter) * (size_t)channels;
    *im = (struct image){.w = (int)w, .h = (int)h, .rgb = calloc(bytes, 1), .turn = im->turn, .plain = true};
    return im->rgb || err_set(e, "has %u x %u pixels, for which there is too little memory", w, h);
}

/* The nearest integer to (s a + 255 (255 - a)) / 255, in place: a pixel is written before or where it is read. */
void decode_flatten(struct image *im)
{
    const size_t n = (size_t)im->w * (size_t)im->h;
    for (size_t i = 0; i < n; i++) {
        const uint32_t a = im->rgb[4 * i + 3];
        for (size_t c = 0; c < 3; c++)
            im->rgb[3 * i + c] = (uint8_t)((im->rgb[4 * i + c] * a + WHITE * (WHITE - a) + WHITE / 2) / WHITE);
    }
    im->plain = false;
    uint8_t *less = realloc(im->rgb, 3 * n);
    im->rgb = less ? less : im->rgb;
}

static uint32_t number_at(const uint8_t *p, int bytes, bool little)
{
    uint32_t x = 0;
    for (int i = 0; i < bytes; i++)
        x = x << 8 | p[little ? bytes - 1 - i : i];
    return x;
}

/* Reads the orientation from the first directory, which is a count and entries of 12 bytes: tag, type (3: 16 bits), count, value. */
int decode_orientation(const uint8_t *exif, size_t n)
{
    const bool little = n >= 8 && !memcmp(exif, "II*\0", 4);
    if (n < 8 || (!little && memcmp(exif, "MM\0*", 4)))
        return 0;
    const size_t at = number_at(exif + 4, 4, little);
    if (at > n - 2)
        return 0;
    const size_t count = number_at(exif + at, 2, little);
    for (size_t i = 0, p = at + 2; i < count && p + 12 <= n; i++, p += 12)
        if (number_at(exif + p, 2, little) == ORIENTATION_TAG && number_at(exif + p + 2, 2, little) == 3) {
            const uint32_t value = number_at(exif + p + 8, 2, little);
            return value <= 8 ? (int)value : 0;
        }
    return 0;
}
