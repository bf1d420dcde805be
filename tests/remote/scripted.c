/* The whole program over a scripted engine: `SCRIPT=FILE build/tests/remote/scripted serve start --model assets/demo ...` answers the requests in
 * turn with the texts of the file, which lines of "%%" separate, as the model would write them.  "%% WORD" says how the text before it ends
 * (answer/end.h): length, context, error; without a word the model ends it.  What an earlier prompt and its answer begin with counts as cached, as in
 * the real engine. */
#include "../unit/fake_engine.h"

#include "../../ui/main.c"

/* Reads the script before anything else runs.  A request after the last text gets that one again. */
__attribute__((constructor)) static void read_script(void)
{
    static char text[1 << 16];
    const char *path = getenv("SCRIPT");
    struct err e = {0};
    FILE *f = path ? fopen(path, "r") : NULL;
    if (!f)
        return;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    fake.tok = tokenizer_open("assets/demo", &e);
    CHECK(fake.tok);
    fake_reset();
    struct ids end = {0};
    tokenizer_encode(fake.tok, "<|im_end|>", 10, true, &end);
    fake.end = end.data[0];
    fake.remembers = true;
    for (char *at = text, *next; at && fake.n_answers < FAKE_MAX; at = next) {
        char word[16] = "stop";
        next = strstr(at, "\n%%");
        if (next) {
            *next = 0;
            sscanf(next + strlen("\n%%"), " %15[a-z]", word);
            next += strlen("\n%%");
            next += strcspn(next, "\n");
            next += *next == '\n';
        }
        fake_end(at, end_of_word(word), false);
    }
    while (fake.n_answers < FAKE_MAX)
        fake.answers[fake.n_answers++] = (struct fake_answer){fake.answers[fake.n_answers - 1].text, END_STOP, false};
}
