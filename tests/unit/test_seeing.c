/* Large pictures of clients, while another thread holds the turn of large ones: nobody else waits for them, and those of clients that have left are
 * given up.  And forms of clients, which are compiled while the server serves others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/base64.h"
#include "chat/picture.h"
#include "guide/form.h"
#include "responder/local.h"
#include "serve/server.h"
#include "serve/server_state.h"
#include "serve/socket.h"
#include "tests/tmpdir.h"
#include "tests/unit/large.h"

enum { N_CLIENTS = 6, LONG_BODY = 40000, WORDS = 128 };

/* ---- forms are compiled ---- */

static pthread_t serving;
static atomic_int n_compiled, n_here;           /* forms that were compiled; on the thread that serves */

struct grammar *__real_form_grammar(const struct form *f, struct err *e);
struct grammar *__wrap_form_grammar(const struct form *f, struct err *e);
struct grammar *__real_grammar_of_calls(const struct grammar_calls *c, struct err *e);
struct grammar *__wrap_grammar_of_calls(const struct grammar_calls *c, struct err *e);

static atomic_int n_decoded;            /* pictures */

bool __real_image_decode(struct image *im, const void *bytes, size_t n, const char *name, const struct image_wish *wish, struct err *e);
bool __wrap_image_decode(struct image *im, const void *bytes, size_t n, const char *name, const struct image_wish *wish, struct err *e);

bool __wrap_image_decode(struct image *im, const void *bytes, size_t n, const char *name, const struct image_wish *wish, struct err *e)
{
    n_decoded++;
    return __real_image_decode(im, bytes, n, name, wish, e);
}

static void count_compiled(void)
{
    n_compiled++;
    n_here += pthread_equal(pthread_self(), serving) != 0;
}

struct grammar *__wrap_form_grammar(const struct form *f, struct err *e)
{
    count_compiled();
    return __real_form_grammar(f, e);
}

struct grammar *__wrap_grammar_of_calls(const struct grammar_calls *c, struct err *e)
{
    count_compiled();
    return __real_grammar_of_calls(c, e);
}

/* ---- the server and its clients ---- */

static struct tmpdir dir;
static char path[96];
static struct options *o;
static struct server *s;
static int lock;

static void run(void)
{
    struct pollfd fds[SERVER_MAX_FDS];
    struct err e = {0};
    poll(fds, (nfds_t)server_fds(s, fds), 5);
    if (server_run(s, &e) != SERVER_RUNS)
        fail_msg("%s", e.msg);
}

static int open_server(void **state)
{
    (void)state;
    struct err e = {0};
    serving = pthread_self();
    n_compiled = n_here = 0;
    if (!tmpdir_make(&dir))
        return 1;
    snprintf(path, sizeof path, "%s/socket", dir.path);
    o = options_open();
    if (!options_set(o, OPT_model, "tests/data/vision/v0", FROM_SET, &e) || !options_set(o, OPT_threads, "1", FROM_SET, &e))
        fail_msg("%s", e.msg);
    struct responder *all[2] = {local_open(o, &e)};
    all[1] = all[0] ? local_guest(all[0]) : NULL;
    s = server_open(all, 2, &(struct server_options){.o = o, .n_waiting = 20}, &e);
    const int fd = s ? socket_listen_unix(path, &lock, &e) : -1;
    if (fd < 0 || !server_listen(s, fd, &e))
        fail_msg("%s", e.msg);
    while (!server_is_ready(s))
        run();
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    server_close(s);
    options_close(o);
    close(lock);
    tmpdir_drop(&dir, "socket");
    tmpdir_drop(&dir, "socket.lock");
    tmpdir_remove(&dir);
    return 0;
}

/* Sends a request; returns its socket. */
static int ask(const char *where, const struct buf *body)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct buf out = {0};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    buf_addf(&out, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", where, body->len, body->data);
    assert_int_equal(send(fd, out.data, out.len, 0), out.len);
    buf_free(&out);
    return fd;
}

/* field: another one of the request, with its comma. */
static int ask_picture_with(const char *field, int side, int more, int n_padding)
{
    struct buf body = {0}, gif = gif_of(side, more);
    buf_addf(&body, "{\"max_tokens\": 1, %s\"messages\": [{\"role\": \"user\", \"content\": [{\"image_url\": \"data:image/gif;base64,", field);
    base64_add(&body, (struct text){gif.data, gif.len});
    buf_addf(&body, "\"}, {\"text\": \"What?\"}]}]%*s}", n_padding, "");
    const int fd = ask("/v1/chat/completions", &body);
    buf_free(&body);
    buf_free(&gif);
    return fd;
}

static int ask_picture(int side, int more, int n_padding) { return ask_picture_with("", side, more, n_padding); }

/* Runs the server until the reply has begun, and closes the socket; false if none comes. */
static bool is_answered(int fd)
{
    char reply[100] = "";
    const int64_t begun = clock_ns();
    ssize_t n = -1;
    while (n < 0 && clock_ms_since(begun) < MOST_MS) {
        run();
        n = recv(fd, reply, sizeof reply - 1, MSG_DONTWAIT);
    }
    close(fd);
    return strstr(reply, " 200 OK") != NULL;
}

static void ask_all(int fds[N_CLIENTS])
{
    for (int i = 0; i < N_CLIENTS; i++)
        fds[i] = ask_picture(SIDE, i, i % 2 ? LONG_BODY : 0);
}

static void test_seeing__nobody_waits_for_the_large_pictures_of_others(void **state)
{
    (void)state;
    struct image im = hold();
    struct buf text = {0}, asked = {0};
    int fds[N_CLIENTS];
    buf_addf(&text, "{\"prompt\": \"%*s\"}", 3600, "a");
    buf_addf(&asked, "{\"max_tokens\": 1, \"messages\": [{\"role\": \"user\", \"content\": \"a\"}]%*s}", LONG_BODY, "");
    ask_all(fds);
    assert_true(is_answered(ask("/tokenize", &text)));
    assert_true(is_answered(ask("/v1/chat/completions", &asked)));
    assert_true(is_answered(ask_picture(64, 0, 0)));
    image_free(&im);
    for (int i = 0; i < N_CLIENTS; i++)
        assert_true(is_answered(fds[i]));
    buf_free(&text);
    buf_free(&asked);
}

static void test_seeing__a_picture_of_a_request_is_decoded_once(void **state)
{
    (void)state;
    n_decoded = 0;
    for (int i = 0; i < 2; i++) {       /* again in the next turn of its conversation */
        assert_true(is_answered(ask_picture(SIDE, 1, 0)));
        assert_true(is_answered(ask_picture(64, 1, LONG_BODY)));
    }
    assert_int_equal(n_decoded, 2);
}

static void test_seeing__tokens_of_a_picture_are_known_before_the_model_is_loaded(void **state)
{
    (void)state;
    const struct entry_picture small = {.w = 40, .h = 40}, large = {.w = 4000, .h = 3000};
    struct err e = {0};
    struct responder *early = local_open(o, &e);
    if (!early)
        fail_msg("%s", e.msg);
    assert_true(!early->can.pictures && s->r->can.pictures);
    assert_int_equal(picture_tokens(&small, early), 4);
    assert_int_equal(picture_tokens(&small, early), picture_tokens(&small, s->r));
    assert_int_equal(picture_tokens(&large, early), picture_tokens(&large, s->r));
    early->ops->close(early);
}

static int n_readings(void)
{
    int n = 0;
    for (const struct reading *rd = s->readings.first; rd; rd = rd->next)
        n++;
    return n;
}

static void test_seeing__pictures_of_clients_that_have_left_are_not_decoded(void **state)
{
    (void)state;
    struct image im = hold();
    int fds[N_CLIENTS];
    const int64_t begun = clock_ns();
    ask_all(fds);
    while (n_readings() < N_CLIENTS && clock_ms_since(begun) < MOST_MS)
        run();
    assert_int_equal(n_readings(), N_CLIENTS);
    for (int i = 0; i < N_CLIENTS; i++)
        close(fds[i]);
    while (n_readings() && clock_ms_since(begun) < MOST_MS)
        run();
    assert_int_equal(n_readings(), 0);
    image_free(&im);
}

/* Sends a request with that field, however long it is, and waits for the reply. */
static bool is_answered_with(const char *where, const char *field, int n_padding)
{
    struct buf body = {0};
    buf_addf(&body, "{\"max_tokens\": 1, \"prompt\": \"a\", \"messages\": [{\"role\": \"user\", \"content\": \"a\"}], %s%*s}", field,
             n_padding, "");
    const int fd = ask(where, &body);
    buf_free(&body);
    return is_answered(fd);
}

static void test_seeing__forms_are_compiled_beside_the_thread_that_serves(void **state)
{
    (void)state;
    static const char chat[] = "/v1/chat/completions", schema[] = "{\"type\": \"object\", \"properties\": {\"a\": {\"pattern\": \"x+\"}}}";
    const char *pattern = "\"guided_regex\": \"a|b\"";
    struct buf format = {0}, tools = {0};
    buf_addf(&format, "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", \"schema\": %s}}", schema);
    buf_addf(&tools, "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": %s}}]", schema);
    assert_true(is_answered_with(chat, format.data, 0));
    assert_true(is_answered_with(chat, tools.data, 0));
    assert_true(is_answered_with("/v1/completions", pattern, 0));
    assert_int_equal(n_compiled, 3);
    assert_true(is_answered_with(chat, tools.data, LONG_BODY));         /* it is known by then */
    assert_true(is_answered_with(chat, format.data, 0));
    assert_true(is_answered_with(chat, pattern, LONG_BODY));
    assert_int_equal(n_compiled, 3);
    assert_false(is_answered_with(chat, "\"guided_regex\": \"(\"", 0));
    assert_int_equal(n_compiled, 4);
    n_decoded = 0;                      /* nothing of a refused form's request is */
    assert_false(is_answered(ask_picture_with("\"guided_regex\": \"[\", ", 64, 2, LONG_BODY)));
    assert_int_equal(n_decoded, 0);
    assert_int_equal(n_here, 0);
    buf_free(&format);
    buf_free(&tools);
}

/* ---- an attached chat ---- */

/* News of a responder. */
struct reported { bool ready, done; int n_ahead; };

static void report(const struct news *it, void *arg)
{
    struct reported *to = arg;
    to->ready = to->ready || it->kind == NEWS_READY;
    if (it->kind == NEWS_DONE) {
        to->done = true;
        to->n_ahead = it->stats->n_ahead;
    }
}

static void run_both(struct responder *attached, const bool *until, int ms)
{
    const int64_t begun = clock_ns();
    while (!*until && clock_ms_since(begun) < ms) {
        run();
        attached->ops->drain(attached);
    }
}

/* Has a message, a picture before words, read ahead for so long, then asks.  Returns the tokens of the prompt that were read ahead. */
static int ask_after(struct responder *attached, struct reported *to, int side, int ms)
{
    static const bool never;
    size_t at = 0;
    struct buf gif = gif_of(side, 0), words = {0};
    const struct media m = {text_of("it"), {gif.data, gif.len}, side, side};
    buf_adds(&words, MEDIA_IMAGE "What is");
    for (int i = 0; i < WORDS; i++)
        buf_adds(&words, " this");
    struct message typed = {.role = ROLE_USER, .content = text_of("")};
    struct request q = {.conversation = (uint64_t)side, .messages = &typed, .n_messages = 1, .sampling = {.max_tokens = 1}};
    struct err e = {0};
    attached->ops->read_ahead(attached, &q);
    typed = (struct message){.role = ROLE_USER, .content = {words.data, words.len}, .media = &at, .pictures = &m, .n_media = 1};
    attached->ops->read_ahead(attached, &q);
    run_both(attached, &never, ms);
    to->done = false;
    if (attached->ops->request(attached, &q, &e) != REQUEST_TAKEN)
        fail_msg("%s", e.msg);
    run_both(attached, &to->done, MOST_MS);
    assert_true(to->done);
    buf_free(&words);
    buf_free(&gif);
    return to->n_ahead;
}

static void test_seeing__pictures_of_an_attached_chat_are_read_ahead_and_decoded_once(void **state)
{
    (void)state;
    enum { TRIES = 7 };
    struct reported got = {0};
    struct err e = {0};
    struct responder *attached = local_attach(path, "tests/data/vision/v0", false, &e);
    if (!attached)
        fail_msg("%s", e.msg);
    attached->fn = report;
    attached->arg = &got;
    run_both(attached, &got.ready, MOST_MS);
    assert_true(attached->can.pictures);
    n_decoded = 0;
    int tries = 0, n = 0;
    for (; tries < TRIES && n < WORDS; tries++)
        n = ask_after(attached, &got, 512 + 32 * tries, 50 << tries);
    assert_true(n >= WORDS);
    assert_int_equal(n_decoded, tries);
    attached->ops->close(attached);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_seeing__nobody_waits_for_the_large_pictures_of_others, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_seeing__a_picture_of_a_request_is_decoded_once, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_seeing__tokens_of_a_picture_are_known_before_the_model_is_loaded, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_seeing__pictures_of_clients_that_have_left_are_not_decoded, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_seeing__pictures_of_an_attached_chat_are_read_ahead_and_decoded_once, open_server, close_server),
        cmocka_unit_test_setup_teardown(test_seeing__forms_are_compiled_beside_the_thread_that_serves, open_server, close_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
