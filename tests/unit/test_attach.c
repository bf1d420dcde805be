#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "chat/chat.h"
#include "chat/command.h"
#include "chat/dropped.h"
#include "chat/sent.h"
#include "session/kept.h"
#include "session/list.h"
#include "session/trash.h"
#include "responder/local.h"
#include "fake_engine.h"

static char dir[64];

static void put(const char *name, const char *text, size_t n)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

/* A directory with some files, and us in it. */
static int setup(void **state)
{
    static char home[512];
    if (!*home)
        assert_non_null(getcwd(home, sizeof home));
    *state = home;
    snprintf(dir, sizeof dir, "/tmp/q35chat-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    setenv("HOME", dir, 1);
    setenv("XDG_STATE_HOME", dir, 1);
    assert_int_equal(chdir(dir), 0);
    put("main.c", "int main(void);\n", 16);
    put("with blanks.txt", "no line feed", 12);
    put("fences.md", "```\ncode\n`````\n", 15);
    put("empty", "", 0);
    put("binary", "a\0b", 3);
    put("latin1", "caf\xe9\n", 5);
    assert_int_equal(mkdir("folder", 0700), 0);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    assert_int_equal(chdir(*state), 0);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static void test_attach__many_files_take_memory_as_their_number(void **state)
{
    enum { N = 500 };
    struct attached a = {0};
    struct buf message = {0};
    struct err e = {0};
    (void)state;
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        put(name, "x", 1);
        buf_addf(&message, "@%s ", name);
    }
    assert_true(attach_read(&a, message.data, message.len, false, &e));
    assert_int_equal(a.n, N);
    assert_string_equal(a.files[N - 1].path.p, "f499");
    assert_true(a.mem.total < N * 5 * sizeof *a.files);
    attach_free(&a);
    buf_free(&message);
}

static void test_attach__words_that_name_files_are_found(void **state)
{
    static const struct { const char *message, *paths; } rows[] = {
        {"look at @main.c", "main.c|"},
        {"@main.c, (@fences.md) and @empty.", "main.c|fences.md|empty|"},
        {"@\"with blanks.txt\" twice: @\"with blanks.txt\" @main.c @main.c", "with blanks.txt|main.c|"},
        {"line\n@main.c\tand\n@./main.c", "main.c|./main.c|"},
        {"@~/main.c", "~/main.c|"},
        {"@alice me@main.c @ @\" @\"\" @folder @folder/ @nothere.c @main.cc", ""},
        {"@@main.c @\"main.c", ""},
        {"**@main.c** '@main.c'", ""},
        {"", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct attached a = {0};
        struct buf paths = {0};
        struct err e = {0};
        if (!attach_read(&a, rows[i].message, strlen(rows[i].message), true, &e))
            fail_msg("%s: %s", rows[i].message, e.msg);
        for (int k = 0; k < a.n; k++)
            buf_addf(&paths, "%s|", a.files[k].path.p);
        assert_string_equal(buf_str(&paths), rows[i].paths);
        buf_free(&paths);
        attach_free(&a);
    }
}

static void test_attach__what_is_there_and_cannot_be_sent_refuses_the_message(void **state)
{
    static const struct { const char *message, *why; } rows[] = {
        {"@binary", "binary looks binary: it holds a zero byte; only text and pictures (PNG, JPEG, WebP, GIF) are attached"},
        {"@main.c @large", "large is 16.0 MiB; the limit is 16"},
        {"@folder", "folder is a directory"},
        {"see (@main.c) and (@nothere.c).", "cannot open nothere.c: No such file or directory"},
        {"@\"no such\"", "cannot open no such: No such file or directory"},
        {"@secret", "cannot open secret: Permission denied"},
    };
    (void)state;
    put("secret", "x", 1);
    put("large", "x", 1);
    assert_int_equal(truncate("large", (off_t)ATTACH_MAX + 1), 0);
    chmod("secret", 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct attached a = {0};
        struct err e = {0};
        if (!strcmp(rows[i].message, "@secret") && geteuid() == 0)
            continue;                   /* root reads everything */
        assert_false(attach_read(&a, rows[i].message, strlen(rows[i].message), false, &e));
        assert_string_equal(e.msg, rows[i].why);
        assert_int_equal(a.n, 0);
    }
}

static void test_attach__the_model_reads_them_behind_the_message(void **state)
{
    struct transcript t = {0};
    struct arena mem = {0};
    struct attached a = {0};
    struct err e = {0};
    const char *message = "@main.c @fences.md @\"with blanks.txt\" @empty @latin1 ?";
    (void)state;
    assert_true(attach_read(&a, message, strlen(message), false, &e));
    struct entry *m = transcript_add(&t, ROLE_USER, "What?", 5);
    for (int i = 0; i < a.n; i++)
        entry_attach(m, &a.files[i]);
    struct message sent = {0};
    attach_content(&sent, m, &mem);
    const struct text content = sent.content;
    assert_int_equal(content.n, strlen(content.p));
    assert_string_equal(content.p,
        "What?\n\n"
        "File: main.c\n```\nint main(void);\n```\n\n"
        "File: fences.md\n``````\n```\ncode\n`````\n``````\n\n"
        "File: with blanks.txt\n```\nno line feed\n```\n\n"
        "File: empty\n```\n```\n\n"
        "File: latin1\n```\ncaf\xef\xbf\xbd\n```");
    assert_int_equal(m->files[4].bytes, 5);
    attach_free(&a);
    arena_free(&mem);
    transcript_free(&t);
}

/* --- in a conversation ----------------------------------------------------------------------------------------------- */

static struct options *o;
static struct chat *c;

static void open_chat(const char *home, bool attaches)
{
    struct chat_front front = {.tools = "none", .keeps = true, .attaches = attaches};
    struct err e = {0};
    struct buf model = {0};
    buf_addf(&model, "%s/tests/data/chat", home);
    assert_true(options_set(o, OPT_model, model.data, FROM_COMMAND_LINE, &e));
    c = chat_open(local_open(o, &e), o, &front, &e);
    if (!c)
        fail_msg("%s", e.msg);
    buf_free(&model);
}

static int setup_chat(void **state)
{
    struct err e = {0};
    fake_reset();
    setup(state);
    o = options_open();
    assert_true(options_set(o, OPT_think, "off", FROM_COMMAND_LINE, &e));
    open_chat(*state, true);
    return 0;
}

static int teardown_chat(void **state)
{
    chat_close(c);
    options_close(o);
    for (int i = 0; i < FAKE_MAX; i++)
        ids_free(&fake.prompts[i]);
    return teardown(state);
}

static void finish_turn(void)
{
    int n;
    while (chat_busy(c)) {
        chat_wait(c, -1, 5000);
        chat_drain(c, &n);
    }
}

static void ask(const char *text)
{
    struct err e = {0};
    fake_say("yes");
    if (!chat_submit(c, text, strlen(text), &e))
        fail_msg("%s", e.msg);
    finish_turn();
}

static const char *prompt(int k)
{
    static struct buf text;
    struct detok d = {0};
    buf_reset(&text);
    for (int i = 0; i < fake.prompts[k].n; i++)
        detok_push(&d, fake.tok, fake.prompts[k].data[i], false, &text);
    detok_flush(&d, &text);
    return buf_str(&text);
}

static void test_attach__a_message_is_kept_as_typed_and_its_files_go_to_the_model(void **state)
{
    (void)state;
    ask("see @main.c");
    assert_non_null(strstr(prompt(0), "<|im_start|>user\nsee @main.c\n\nFile: main.c\n```\nint main(void);\n```<|im_end|>\n"));
    assert_string_equal(chat_message(c, 0).text, "see @main.c");
    assert_int_equal(chat_n_files(c, 0), 1);
    assert_string_equal(chat_file(c, 0, 0).path, "main.c");
    assert_int_equal(chat_file(c, 0, 0).bytes, 16);
    assert_int_equal(chat_file(c, 0, 0).tokens, 16);    /* the tests' tokens are bytes */
    assert_int_equal(chat_n_files(c, 1), 0);
}

static void test_attach__a_resumed_session_sends_the_same_bytes(void **state)
{
    struct err e = {0};
    struct buf path = {0}, note = {0};
    ask("see @main.c");
    ask("and?");
    buf_adds(&path, chat_saved_as(c));
    chat_close(c);
    put("main.c", "changed", 7);
    open_chat(*state, true);
    assert_true(chat_load(c, path.data, &note, &e));
    struct buf back = {0};
    assert_true(chat_undo(c, &back, &e));
    ask("and?");
    assert_int_equal(fake.prompts[1].n, fake.prompts[2].n);
    assert_memory_equal(fake.prompts[1].data, fake.prompts[2].data, (size_t)fake.prompts[1].n * sizeof(int32_t));
    assert_string_equal(chat_file(c, 0, 0).path, "main.c");
    assert_int_equal(chat_file(c, 0, 0).bytes, 16);
    buf_free(&path);
    buf_free(&note);
    buf_free(&back);
}

static void test_attach__a_refused_message_changes_nothing(void **state)
{
    struct err e = {0};
    (void)state;
    ask("hello");
    assert_false(chat_submit(c, "@binary", 7, &e));
    assert_non_null(strstr(e.msg, "binary"));
    assert_false(chat_busy(c));
    assert_int_equal(chat_n_messages(c), 2);
    assert_int_equal(chat_n_nodes(c), 2);
}

static void test_attach__a_message_that_names_no_file_goes_when_it_is_sent_again(void **state)
{
    struct err e = {0};
    (void)state;
    assert_false(chat_submit(c, "see @nothere", 12, &e));
    assert_string_equal(e.msg, "cannot open nothere: No such file or directory; not sent; press Enter again to send it without the file");
    assert_int_equal(chat_n_messages(c), 0);
    assert_false(chat_submit(c, "see @nothere.c", 14, &e));     /* another message is asked about anew */
    ask("see @nothere.c");
    assert_string_equal(chat_message(c, 0).text, "see @nothere.c");
    assert_false(chat_submit(c, "see @nothere.c", 14, &e));     /* said and done: a later one may be a slip again */
    ask("@ and @@ and me@home are words");
}

/* A chat with a context of 550 tokens, and a file of so many. */
static void open_small(void *state, const char *name, int n_tokens)
{
    char text[1000];
    int n;
    memset(text, 'x', sizeof text);
    put(name, text, (size_t)n_tokens);
    chat_close(c);
    fake.n_ctx = 550;
    open_chat(state, true);
    while (!chat_ready(c)) {
        chat_wait(c, -1, 1000);
        chat_drain(c, &n);
    }
}

static void test_attach__a_file_that_takes_half_of_the_context_asks_first(void **state)
{
    struct err e = {0};
    open_small(*state, "half.txt", 300);
    assert_false(chat_submit(c, "@half.txt", 9, &e));
    assert_non_null(strstr(e.msg, "half.txt has 300 tokens; only 550 still fit"));
    assert_non_null(strstr(e.msg, "press Enter again to send it anyway"));
    assert_false(chat_submit(c, "@half.txt @nothere", 18, &e));
    assert_non_null(strstr(e.msg, "without the file"));
    assert_false(chat_submit(c, "@half.txt @nothere", 18, &e)); /* the one thing was told, now the other */
    assert_non_null(strstr(e.msg, "300 tokens"));
    ask("@half.txt @nothere");
    assert_int_equal(chat_n_files(c, 0), 1);
}

static void test_attach__a_file_that_cannot_fit_is_refused_each_time_with_advice(void **state)
{
    struct err e = {0};
    open_small(*state, "long.txt", 600);
    for (int i = 0; i < 2; i++) {
        assert_false(chat_submit(c, "@long.txt", 9, &e));
        assert_non_null(strstr(e.msg, "long.txt has 600 tokens; only 550 still fit; "));
        assert_null(strstr(e.msg, "once more"));
    }
    assert_int_equal(chat_n_messages(c), 0);
}

/* --- pictures -------------------------------------------------------------------------------------------------------- */

static void put_picture(const char *from, const char *name)
{
    struct buf bytes = {0};
    struct err e = {0};
    if (!file_read(&bytes, from, 1 << 20, &e))
        fail_msg("%s", e.msg);
    put(name, bytes.data, bytes.len);
    buf_free(&bytes);
}

static const char *picture(const char *home, const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/tests/data/pictures/%s", home, name);
    return path;
}

static void test_attach__pictures_come_before_the_message_and_keep_their_bytes(void **state)
{
    struct transcript t = {0};
    struct arena mem = {0};
    struct attached a = {0};
    struct err e = {0};
    struct message one = {0}, two = {0};
    put_picture(picture(*state, "page.png"), "page");       /* a name says nothing */
    put_picture(picture(*state, "exif6.jpg"), "turned.png");
    assert_true(attach_read(&a, "@page and @turned.png", 21, false, &e));
    assert_int_equal(a.n, 2);
    const struct entry_picture *page = a.files[0].picture, *turned = a.files[1].picture;
    assert_true(page->w == 440 && page->h == 300 && a.files[0].bytes == page->bytes.n);
    assert_true(turned->w == 90 && turned->h == 120 && text_starts(turned->bytes, "\x89PNG"));     /* upright for everybody */
    struct entry *m = transcript_add(&t, ROLE_USER, "What?", 5);
    entry_attach(m, &a.files[0]);
    attach_content(&one, m, &mem);
    assert_string_equal(one.content.p, MEDIA_IMAGE "What?");
    assert_true(one.n_media == 1 && one.media[0] == 0 && text_same(one.pictures[0].bytes, page->bytes));
    static const struct { const char *said, *sent; } row[] = {
        {"@page What?", MEDIA_IMAGE "What?"}, {"@\"page\"\nWhat?", MEDIA_IMAGE "What?"}, {"@page", MEDIA_IMAGE "@page"},
        {"@pages What?", MEDIA_IMAGE "@pages What?"}, {"What is @page?", MEDIA_IMAGE "What is @page?"},
        {"@\"page What?", MEDIA_IMAGE "@\"page What?"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct entry *said = transcript_add(&t, ROLE_USER, row[i].said, strlen(row[i].said));
        entry_attach(said, &a.files[0]);
        attach_content(&one, said, &mem);
        assert_string_equal(one.content.p, row[i].sent);
    }
    entry_attach(m, &a.files[1]);
    attach_content(&two, m, &mem);
    assert_string_equal(two.content.p, "page: " MEDIA_IMAGE "\nturned.png: " MEDIA_IMAGE "\nWhat?");
    assert_true(two.n_media == 2 && !strncmp(two.content.p + two.media[1], MEDIA_IMAGE, strlen(MEDIA_IMAGE)));
    entry_mark(m, 0, ENTRY_DROPPED);
    attach_content(&two, m, &mem);
    assert_string_equal(two.content.p, "page: (left out)\nturned.png: " MEDIA_IMAGE "\nWhat?");
    assert_int_equal(two.n_media, 1);
    attach_free(&a);
    arena_free(&mem);
    transcript_free(&t);
}

static void test_attach__a_damaged_picture_is_refused_in_one_sentence(void **state)
{
    struct attached a = {0};
    struct err e = {0};
    put("half.png", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
    put("moves.gif", "GIF89a\1\0\1\0\0\0\0;", 14);
    put("old.bmp", "BM\x3a\0\0\0", 6);
    (void)state;
    assert_false(attach_read(&a, "@half.png", 9, false, &e));
    assert_string_equal(e.msg, "half.png is a damaged PNG file: it ends too early");
    assert_false(attach_read(&a, "@moves.gif", 10, false, &e));
    assert_string_equal(e.msg, "moves.gif is a damaged GIF file: it ends too early");
    assert_false(attach_read(&a, "@old.bmp", 8, false, &e));
    assert_string_equal(e.msg, "old.bmp is a BMP file, which is not read as a picture; convert it to PNG or JPEG");
}

static void test_attach__a_model_without_a_vision_tower_gets_no_picture(void **state)
{
    struct err e = {0};
    ask("hello");
    put_picture(picture(*state, "tiny.png"), "tiny.png");
    assert_false(chat_submit(c, "see @tiny.png", 13, &e));
    assert_string_equal(e.msg, "the model has no vision tower: it cannot see tiny.png");
    assert_int_equal(chat_n_messages(c), 2);
}

static void test_attach__dropped_files_become_words_and_other_pastes_stay(void **state)
{
    put_picture(picture(*state, "tiny.png"), "a b.png");
    put_picture(picture(*state, "photo.jpg"), "p.jpg");
    put("doc.pdf", "%PDF-1.4\n", 9);
    static const struct { const char *paste, *words; } rows[] = {
        {"D/p.jpg", "@D/p.jpg "}, {"D/p.jpg \n", "@D/p.jpg "}, {"'D/a b.png'", "@\"D/a b.png\" "}, {"D/a\\ b.png", "@\"D/a b.png\" "},
        {"D/a b.png", "@\"D/a b.png\" "}, {"file://D/a%20b.png\r\n", "@\"D/a b.png\" "}, {"~/p.jpg", "@~/p.jpg "},
        {"D/p.jpg 'D/a b.png' D/doc.pdf", "@D/p.jpg @\"D/a b.png\" @D/doc.pdf "}, {"D/p.jpg and text", NULL}, {"p.jpg", NULL}, {"D/main.c", NULL},
        {"D/none.png", NULL}, {"look at D/p.jpg", NULL}, {"", NULL}, {"'D/p.jpg", "@D/p.jpg "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf paste = {0}, words = {0}, out = {0};
        for (const char *s = rows[i].paste; *s; s++)
            buf_adds(&paste, *s == 'D' ? dir : (char[]){*s, 0});
        for (const char *s = rows[i].words ? rows[i].words : ""; *s; s++)
            buf_adds(&words, *s == 'D' ? dir : (char[]){*s, 0});
        assert_int_equal(dropped_words(buf_str(&paste), paste.len, &out), rows[i].words != NULL);
        if (rows[i].words)
            assert_string_equal(buf_str(&out), buf_str(&words));
        buf_free(&paste);
        buf_free(&words);
        buf_free(&out);
    }
}

static void test_attach__paste_adds_the_picture_of_the_clipboard(void **state)
{
    struct buf out = {0}, script = {0};
    const char *message;
    char *path = strdup(getenv("PATH")), programs[128];
    put_picture(picture(*state, "tiny.png"), "clip.png");
    snprintf(programs, sizeof programs, "%s/bin", dir);
    setenv("PATH", programs, 1);
    assert_int_equal(command_run(c, o, "/paste", &message, &out), COMMAND_DONE);
    assert_non_null(strstr(buf_str(&out), "/paste needs wl-paste (wl-clipboard) or xclip"));
    assert_int_equal(mkdir(programs, 0700), 0);
    buf_addf(&script, "#!/bin/sh\ntest \"$*\" = '-selection clipboard -target image/png -out' && exec %s '%s/clip.png'\n", "/bin/cat", dir);
    put("bin/xclip", script.data, script.len);
    assert_int_equal(chmod("bin/xclip", 0700), 0);
    buf_reset(&out);
    assert_int_equal(command_run(c, o, "/paste", &message, &out), COMMAND_EDIT);
    assert_true(!strncmp(out.data, "@", 1) && strstr(out.data, "/pastes/") && strstr(out.data, ".png "));
    put("clip.png", "no picture", 10);
    buf_reset(&out);
    assert_int_equal(command_run(c, o, "/paste", &message, &out), COMMAND_DONE);
    assert_non_null(strstr(buf_str(&out), "the clipboard has no picture"));
    setenv("PATH", path, 1);
    free(path);
    buf_free(&out);
    buf_free(&script);
}

/* A chat whose model sees. */
static void sees(void *state)
{
    int n;
    chat_close(c);
    fake.picture_tokens = 200;
    open_chat(state, true);
    while (!chat_ready(c)) {
        chat_wait(c, -1, 1000);
        chat_drain(c, &n);
    }
}

/* Returns the tokens of a prompt that stand for pictures. */
static int n_pads(int k)
{
    int n = 0;
    for (int i = 0; i < fake.prompts[k].n; i++)
        n += fake.prompts[k].data[i] == tokenizer_special(fake.tok, "<|image_pad|>");
    return n;
}

static void check_picture(int k, int i, int h, int w)
{
    const struct picture *p = &fake.pictures[k].all[i];
    const int32_t *before = &fake.prompts[k].data[p->first - 1];
    assert_true(fake.pictures[k].n > i && p->h == h && p->w == w && p->n == h * w);
    assert_int_equal(before[0], tokenizer_special(fake.tok, "<|vision_start|>"));
    assert_int_equal(before[1], tokenizer_special(fake.tok, "<|image_pad|>"));
    assert_int_equal(before[p->n], tokenizer_special(fake.tok, "<|image_pad|>"));
    assert_int_equal(before[p->n + 1], tokenizer_special(fake.tok, "<|vision_end|>"));
}

static void test_attach__a_model_that_sees_gets_tokens_and_pixels_of_each_picture(void **state)
{
    put_picture(picture(*state, "page.png"), "page.png");
    put_picture(picture(*state, "photo.jpg"), "photo.jpg");
    sees(*state);
    ask("see @page.png @photo.jpg");
    assert_int_equal(fake.pictures[0].n, 2);
    check_picture(0, 0, 9, 14);         /* 300 x 440 pixels */
    check_picture(0, 1, 7, 11);         /* 200 x 320, made larger to have 65,536 */
    assert_int_equal(n_pads(0), 9 * 14 + 7 * 11);
    assert_true(chat_file(c, 0, 0).tokens == 9 * 14 && chat_file(c, 0, 1).tokens == 7 * 11);
    assert_int_equal(chat_context_used(c).tokens, chat_last_stats(c)->ctx_used);
    ask("and again?");
    assert_int_equal(fake.pictures[1].n, 2);
    assert_memory_equal(fake.pictures[0].all, fake.pictures[1].all, 2 * sizeof(struct picture));
    assert_true(fake.snapshot_pos[1] > fake.snapshot_pos[0] && fake.snapshot_pos[0] > n_pads(0));
    ask("the text <|image_pad|> is none");
    assert_int_equal(n_pads(2), n_pads(0));
}

static void test_attach__a_picture_larger_than_the_model_takes_is_shrunk(void **state)
{
    put_picture(picture(*state, "page.png"), "page.png");
    sees(*state);
    chat_close(c);
    fake.picture_tokens = 60;
    open_chat(*state, true);
    ask("see @page.png");
    check_picture(0, 0, 6, 9);
    assert_int_equal(chat_file(c, 0, 0).tokens, 54);
}

/* Returns the number of files in the folder beside the session. */
static int n_kept(const char *session)
{
    struct buf path = {0};
    int n = 0;
    buf_addf(&path, "%s.pictures", session);
    DIR *d = opendir(path.data);
    for (struct dirent *f; d && (f = readdir(d));)
        n += *f->d_name != '.';
    if (d)
        closedir(d);
    buf_free(&path);
    return n;
}

static void test_attach__pictures_are_kept_once_beside_the_session_and_go_with_it(void **state)
{
    struct err e = {0};
    struct buf note = {0}, name = {0}, path = {0}, trashed = {0};
    struct transcript t = {0};
    put_picture(picture(*state, "page.png"), "page.png");
    sees(*state);
    ask("hello");
    ask("see @page.png");
    ask("again @page.png");
    buf_adds(&path, chat_saved_as(c));
    assert_int_equal(n_kept(path.data), 1);
    chat_close(c);
    put("page.png", "changed", 7);
    assert_true(session_read(path.data, &t, &note, &e));
    assert_int_equal(note.len, 0);
    assert_int_equal(t.n, 6);
    const struct entry_picture *first = t.entries[2]->files[0].picture, *second = t.entries[4]->files[0].picture;
    assert_true(first->w == 440 && first->h == 300 && first->bytes.n > 20000 && text_same(first->bytes, second->bytes));
    const char *slash = strrchr(path.data, '/');
    buf_add(&name, slash + 1, strlen(slash + 1) - strlen(".jsonl"));
    assert_true(trash_put(&name, &trashed, &e));
    assert_int_equal(n_kept(path.data), 0);
    assert_int_equal(n_kept(trashed.data), 1);
    assert_true(trash_take(name.data, &e));
    assert_int_equal(n_kept(path.data), 1);
    assert_true(sessions_delete(name.data, &e));
    assert_int_equal(n_kept(path.data), 0);
    transcript_free(&t);
    buf_free(&note);
    buf_free(&name);
    buf_free(&path);
    buf_free(&trashed);
    open_chat(*state, true);
}

static void test_attach__a_lost_picture_is_left_out_and_reported(void **state)
{
    struct err e = {0};
    struct buf note = {0}, path = {0};
    struct transcript t = {0};
    struct arena mem = {0};
    put_picture(picture(*state, "page.png"), "page.png");
    sees(*state);
    ask("hello");
    ask("see @page.png");
    buf_adds(&path, chat_saved_as(c));
    kept_delete(path.data);
    assert_true(session_read(path.data, &t, &note, &e));
    assert_non_null(strstr(buf_str(&note), "1 of the pictures cannot be read"));
    struct message m = {0};
    attach_content(&m, t.entries[2], &mem);
    assert_string_equal(m.content.p, "page.png: (left out)\nsee @page.png");
    assert_int_equal(m.n_media, 0);
    transcript_free(&t);
    arena_free(&mem);
    buf_free(&note);
    buf_free(&path);
}

static void test_attach__other_front_ends_send_text(void **state)
{
    chat_close(c);
    open_chat(*state, false);
    ask("@main.c @binary");
    assert_non_null(strstr(prompt(0), "<|im_start|>user\n@main.c @binary<|im_end|>\n"));
    assert_int_equal(chat_n_files(c, 0), 0);
}

static void test_attach__a_file_can_be_looked_at_before(void **state)
{
    struct err e = {0};
    struct chat_file f;
    int n;
    (void)state;
    assert_true(chat_check_file(c, "main.c", &f, &e));
    assert_string_equal(f.path, "main.c");
    assert_int_equal(f.bytes, 16);
    assert_int_equal(f.tokens, 5);      /* no tokenizer yet: bytes / 3.5 */
    while (!chat_ready(c)) {
        chat_wait(c, -1, 1000);
        chat_drain(c, &n);
    }
    assert_true(chat_check_file(c, "main.c", &f, &e));
    assert_int_equal(f.tokens, 16);
    assert_false(chat_check_file(c, "folder", &f, &e));
    assert_string_equal(e.msg, "folder is a directory");
    assert_false(chat_check_file(c, "nothere", &f, &e));
    assert_string_equal(e.msg, "cannot open nothere: No such file or directory");
    assert_false(chat_check_file(c, "/dev/null", &f, &e));
    assert_string_equal(e.msg, "/dev/null is not a regular file");
}

static void test_attach__the_parts_of_the_context_add_up(void **state)
{
    static const char *const what[] = {"system", "tools", "user", "file", "answer", "user", "answer"};
    const struct chat_part *parts;
    struct err e = {0};
    int sum = 0;
    (void)state;
    assert_true(options_set(o, OPT_system, "Be brief.", FROM_SET, &e) && chat_offer_tools(c, "clock", &e));
    ask("see @main.c");
    ask("and?");
    fake_say("no");
    int n = chat_context(c, &parts);
    assert_int_equal(n, 7);
    for (int i = 0; i < n; i++) {
        assert_string_equal(parts[i].what, what[i]);
        assert_true(parts[i].tokens > 0);
        sum += parts[i].tokens;
    }
    assert_string_equal(parts[1].label, "clock");
    assert_string_equal(parts[3].label, "main.c");
    assert_int_equal(parts[3].message, 0);
    assert_int_equal(parts[3].tokens, 16);
    assert_true(chat_submit(c, "?", 1, &e));
    finish_turn();
    int real = fake.prompts[2].n;       /* with bytes as tokens, "<|im_start|>assistant" alone is ten */
    assert_true(sum >= real * 9 / 10 && sum <= real * 11 / 10);
}

static void test_attach__estimates_of_a_resumed_session_are_counted_again(void **state)
{
    static const char digits[] = "12345678901234567890123456789012345678901234567890";
    const struct chat_front front = {.keeps = true, .attaches = true, .tools = "none"};
    struct buf note = {0};
    struct err e = {0};
    int n;
    (void)state;
    ask(digits);
    int exact = chat_context_used(c).tokens;
    assert_false(chat_context_used(c).estimated);
    char *path = strdup(chat_saved_as(c));
    chat_close(c);
    c = chat_open(local_open(o, &e), o, &front, &e);
    assert_non_null(c);
    assert_true(chat_load(c, path, &note, &e));
    assert_true(chat_context_used(c).estimated);        /* the tokenizer is not there yet */
    assert_true(chat_context_used(c).tokens < exact);
    while (!chat_ready(c)) {
        chat_wait(c, -1, 1000);
        chat_drain(c, &n);
    }
    assert_int_equal(chat_context_used(c).tokens, exact);
    assert_false(chat_context_used(c).estimated);
    buf_free(&note);
    free(path);
}

/* Asks a question that a tool answers; returns the prompt after its result. */
static const char *ask_tool(const char *home, const char *pictures)
{
    struct err e = {0};
    chat_close(c);
    fake.picture_tokens = 64;
    assert_true(options_section(o, "tool shot"));
    assert_true(options_set_section(o, "tool shot", "command", "printf 'taken\\nimage/png: page.png\\nimage/png: none.png\\n'", &e));
    assert_true(options_set_section(o, "tool shot", "pictures", pictures, &e));
    assert_true(options_set(o, OPT_tools_approve, "always", FROM_SET, &e));
    open_chat(home, true);
    assert_true(chat_offer_tools(c, "shot", &e));
    fake_say("<tool_call>\n<function=shot>\n</function>\n</tool_call>");
    ask("look");
    assert_string_equal(chat_message(c, 2).role, "tool");
    return prompt(1);
}

static void test_attach__a_tool_that_may_shows_a_picture(void **state)
{
    put_picture(picture(*state, "page.png"), "page.png");
    assert_non_null(strstr(ask_tool(*state, "on"), "<tool_response>\n<|vision_start|><|image_pad|>"));
    assert_int_equal(chat_n_files(c, 2), 1);
    const struct chat_file f = chat_file(c, 2, 0);
    assert_true(f.w == 440 && f.h == 300);
    assert_non_null(strstr(chat_message(c, 2).text, "taken\nimage/png: page.png"));
}

static void test_attach__a_tool_that_may_not_shows_a_path(void **state)
{
    put_picture(picture(*state, "page.png"), "page.png");
    const char *after = ask_tool(*state, "off");
    assert_null(strstr(after, "<|vision_start|>"));
    assert_non_null(strstr(after, "image/png: page.png"));
    assert_int_equal(chat_n_files(c, 2), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_attach__##name, setup, teardown)
#define CHAT(name) cmocka_unit_test_setup_teardown(test_attach__##name, setup_chat, teardown_chat)
    const struct CMUnitTest tests[] = {
        TEST(words_that_name_files_are_found),
        TEST(many_files_take_memory_as_their_number),
        TEST(what_is_there_and_cannot_be_sent_refuses_the_message),
        TEST(the_model_reads_them_behind_the_message),
        CHAT(a_message_is_kept_as_typed_and_its_files_go_to_the_model),
        CHAT(a_resumed_session_sends_the_same_bytes),
        CHAT(a_refused_message_changes_nothing),
        CHAT(a_message_that_names_no_file_goes_when_it_is_sent_again),
        CHAT(a_file_that_takes_half_of_the_context_asks_first),
        CHAT(a_file_that_cannot_fit_is_refused_each_time_with_advice),
        TEST(pictures_come_before_the_message_and_keep_their_bytes),
        TEST(dropped_files_become_words_and_other_pastes_stay),
        TEST(a_damaged_picture_is_refused_in_one_sentence),
        CHAT(paste_adds_the_picture_of_the_clipboard),
        CHAT(a_model_without_a_vision_tower_gets_no_picture),
        CHAT(a_model_that_sees_gets_tokens_and_pixels_of_each_picture),
        CHAT(a_picture_larger_than_the_model_takes_is_shrunk),
        CHAT(pictures_are_kept_once_beside_the_session_and_go_with_it),
        CHAT(a_lost_picture_is_left_out_and_reported),
        CHAT(other_front_ends_send_text),
        CHAT(a_file_can_be_looked_at_before),
        CHAT(the_parts_of_the_context_add_up),
        CHAT(estimates_of_a_resumed_session_are_counted_again),
        CHAT(a_tool_that_may_shows_a_picture),
        CHAT(a_tool_that_may_not_shows_a_path),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tokenizer_close(fake.tok);
    return failed;
}
