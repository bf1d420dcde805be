/* Large pictures in tests, and the turn to decode them. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "image/image.h"

enum { SIDE = 5000, MOST_MS = 60000 };  /* of a large one; that a test waits */

/* A GIF file with a large screen, and a picture of one pixel on it.  Another `more` makes another file. */
static inline struct buf gif_of(int side, int more)
{
    const int h = side + more;
    const uint8_t bytes[] = {'G', 'I', 'F', '8', '9', 'a', side & 255, (uint8_t)(side >> 8), h & 255, (uint8_t)(h >> 8), 0x80, 0, 0,
                             9, 9, 9, 200, 200, 200, 0x2C, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0, 0x3B};
    struct buf gif = {0};
    buf_add(&gif, bytes, sizeof bytes);
    return gif;
}

/* Takes the turn of large pictures until image_free(). */
static inline struct image hold(void)
{
    struct image im;
    struct buf gif = gif_of(SIDE, 0);
    assert_true(image_decode(&im, gif.data, gif.len, "it", NULL, NULL));
    buf_free(&gif);
    return im;
}
