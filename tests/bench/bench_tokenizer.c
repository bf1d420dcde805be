/* Tokenizer: load time and encoding speed on one core.
 *   bench_tokenizer [DIR [FILE...]]    DIR holds tokenizer.json; the text is the FILEs, else what Debian has installed of
 *                                    licences and copyright notes, which is English and up to 16 MB
 * Without DIR: the model's vocabulary from tests/data.  Best of five. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "text/tokenizer.h"
#include "tests/golden/vocabulary.h"

/* The files one after the other, repeated to 8 MB at least. */
static void read_text(struct buf *text, int n, char **files)
{
    glob_t g = {0};
    if (!n && !glob("{/usr/share/common-licenses/*,/usr/share/doc/*/copyright}", GLOB_BRACE, NULL, &g)) {
        n = (int)g.gl_pathc;
        files = g.gl_pathv;
    }
    for (int i = 0; i < n && text->len < 16000000; i++)
        file_read(text, files[i], (size_t)64 << 20, NULL);
    globfree(&g);
    if (!text->len)
        buf_adds(text, "No text to measure with; here is one sentence in English instead, over and over again. ");
    for (size_t once = text->len; text->len < 8000000;) {
        buf_reserve(text, once);
        buf_add(text, text->data, once);
    }
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct buf text = {0};
    const char *dir = argc > 1 ? argv[1] : vocabulary_dir(&e);
    double best_load = 1e9, best = 1e9;
    struct tokenizer *t = NULL;
    for (int i = 0; dir && i < 5; i++) {
        tokenizer_close(t);
        int64_t start = clock_ns();
        t = tokenizer_open(dir, &e);
        if (!t)
            break;
        double ms = clock_ms_since(start);
        best_load = ms < best_load ? ms : best_load;
    }
    if (!t) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    read_text(&text, argc > 2 ? argc - 2 : 0, argv + 2);
    struct ids ids = {0};
    for (int i = 0; i < 5; i++) {
        ids.n = 0;
        int64_t start = clock_ns();
        tokenizer_encode(t, text.data, text.len, false, &ids);
        double ms = clock_ms_since(start);
        best = ms < best ? ms : best;
    }
    printf("tokenizer  load          %8.1f ms    %d ids\n", best_load, tokenizer_n_ids(t));
    printf("tokenizer  encode        %8.1f MB/s  %zu bytes, %d tokens\n", (double)text.len / best / 1e3, text.len, ids.n);

    struct buf out = {0};
    struct detok d = {0};
    int64_t start = clock_ns();
    for (int i = 0; i < ids.n; i++)
        detok_push(&d, t, ids.data[i], false, &out);
    detok_flush(&d, &out);
    printf("tokenizer  decode        %8.1f MB/s\n", (double)out.len / clock_ms_since(start) / 1e3);

    /* The worst word: one letter, a million times. */
    buf_reset(&out);
    buf_reserve(&out, 1000000);
    while (out.len < 1000000)
        buf_addc(&out, 'a');
    ids.n = 0;
    start = clock_ns();
    tokenizer_encode(t, out.data, out.len, false, &ids);
    printf("tokenizer  1 MB word     %8.1f ms\n", clock_ms_since(start));
    buf_free(&out);
    buf_free(&text);
    ids_free(&ids);
    tokenizer_close(t);
    return 0;
}
