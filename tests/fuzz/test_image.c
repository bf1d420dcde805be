/* Each decoder's door with valid pictures that are changed at random: a picture with all its pixels, or one sentence. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "image/image.h"
#include "tests/fuzz/mutate.h"

#define DATA "tests/data/pictures/"
static const char *const pngs[] = {DATA "alpha.png", DATA "gray16.png", DATA "palette.png", DATA "tiny.png", DATA "wide.png"};
static const char *const jpegs[] = {DATA "exif6.jpg", DATA "photo.jpg"};
static const char *const webps[] = {DATA "still.webp", DATA "alpha.webp", DATA "moving.webp"};

static const char *const gifs[] = {DATA "moving.gif"};

static uint32_t crc_of(const uint8_t *p, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

/* Makes the checksums of a PNG file right again: else nothing but them is tried. */
static void mend_png(struct buf *b)
{
    uint8_t *p = (uint8_t *)b->data;
    for (size_t at = 8; at + 12 <= b->len;) {
        const size_t n = (size_t)p[at] << 24 | (size_t)p[at + 1] << 16 | (size_t)p[at + 2] << 8 | p[at + 3];
        if (n > b->len - at - 12)
            return;
        const uint32_t crc = crc_of(p + at + 4, n + 4);
        for (int i = 0; i < 4; i++)
            p[at + 8 + n + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += n + 12;
    }
}

static const char *check(const struct buf *input)
{
    struct image im;
    struct err e = {0};
    if (!image_decode(&im, buf_str(input), input->len, "it", NULL, &e))
        return im.rgb ? "a picture that was refused has pixels" : !*e.msg || !strncmp(e.msg, "it ", 3) ? NULL : "a refusal is no sentence";
    const bool right = im.w > 0 && im.h > 0 && (int64_t)im.w * im.h <= IMAGE_MAX_PIXELS && im.rgb;
    if (right)
        checksum(im.rgb, (size_t)im.w * (size_t)im.h * 3);
    image_free(&im);
    return right ? NULL : "a picture has wrong sides";
}

static void try_files(const char *const *paths, uint32_t n_paths, const char *what)
{
    static const char *const words[] = {"IHDR", "PLTE", "tRNS", "IDAT", "eXIf", "acTL", "iCCP", "\xff\xd8", "\xff\xda", "\xff\xc2", "\xff\xc4",
                                        "\xff\xe1", "Exif", "VP8X", "VP8L", "VP8 ", "ALPH", "ANIM", "ANMF", "EXIF", "\x21\xf9\4",
                                        "\x2c", "\xff\xff\xff\xff", "\x7f"};
    struct long_run r = long_run_begin(2, 100);
    struct buf input = {0};
    while (next_input(&r)) {
        struct err e = {0};
        buf_reset(&input);
        if (!file_read(&input, paths[rnd(n_paths)], 1 << 20, &e))
            fail_msg("%s", e.msg);
        mutate(&input, words, COUNT(words), "\x89PNG\r\n\x1a\n");
        if (rnd(8))
            mend_png(&input);
        const char *wrong = check(&input);
        if (wrong)
            fail_input(&r, wrong, buf_str(&input), input.len);
    }
    long_run_print(&r, r.n, what);
    buf_free(&input);
}

static void test_fuzz_image__changed_png_files_give_a_picture_or_a_sentence(void **state)
{
    (void)state;
    try_files(pngs, COUNT(pngs), "PNG files");
}

static void test_fuzz_image__changed_jpeg_files_give_a_picture_or_a_sentence(void **state)
{
    (void)state;
    try_files(jpegs, COUNT(jpegs), "JPEG files");
}

static void test_fuzz_image__changed_webp_files_give_a_picture_or_a_sentence(void **state)
{
    (void)state;
    try_files(webps, COUNT(webps), "WebP files");
}

static void test_fuzz_image__changed_gif_files_give_a_picture_or_a_sentence(void **state)
{
    (void)state;
    try_files(gifs, COUNT(gifs), "GIF files");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fuzz_image__changed_png_files_give_a_picture_or_a_sentence),
        cmocka_unit_test(test_fuzz_image__changed_jpeg_files_give_a_picture_or_a_sentence),
        cmocka_unit_test(test_fuzz_image__changed_webp_files_give_a_picture_or_a_sentence),
        cmocka_unit_test(test_fuzz_image__changed_gif_files_give_a_picture_or_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
