/* Lines of --batch, changed at random.  Each line that is not blank gives one line of JSON in its place: the answer to one request, which has the
 * line's prompt and sampling and nothing of another line's, or an error.  A function stands in for the responder that the options would open, and
 * answers with what it was asked. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/unicode.h"
#include "responder/responder.h"
#include "tests/fuzz/mutate.h"
#include "ui/front.h"
#include "ui/process.h"
#include "ui/responder.h"

/* ---- the responder ---- */

enum { MOST_ASKED = 64 };

static struct {
    struct buf prompts[MOST_ASKED];     /* the last message of each request */
    struct sampling samplings[MOST_ASKED];
    int n;
} asked;

struct echo {
    struct responder base;
    int  fd;
    bool ready, busy, stops;
};

static enum request_result request(struct responder *r, const struct request *q, struct err *e)
{
    struct echo *b = (struct echo *)r;
    const struct text last = q->messages[q->n_messages - 1].content;
    if (asked.n && one_in(20))         /* the first one shows the usual values */
        return err_set(e, "the server refuses it") ? REQUEST_TAKEN : REQUEST_REFUSED;
    if (asked.n < MOST_ASKED) {
        buf_reset(&asked.prompts[asked.n]);
        buf_add(&asked.prompts[asked.n], last.p ? last.p : "", last.n);
        asked.samplings[asked.n++] = q->sampling;
    }
    b->busy = true;
    b->stops = false;
    eventfd_write(b->fd, 1);
    return REQUEST_TAKEN;
}

static void interrupt(struct responder *r)
{
    ((struct echo *)r)->stops = true;
}

static void drain(struct responder *r)
{
    struct echo *b = (struct echo *)r;
    const struct stats stats = {.n_prompt = 5, .n_tokens = 3, .n_steps = 2};
    eventfd_t n;
    eventfd_read(b->fd, &n);
    if (!b->ready) {
        b->ready = true;
        responder_tell(r, &(struct news){.kind = NEWS_READY});
    }
    if (!b->busy)
        return;
    const struct buf *p = &asked.prompts[asked.n - 1];
    b->busy = false;
    responder_tell(r, &(struct news){.kind = NEWS_TEXT, .text = text_of("Echo: "), .stats = &stats});
    responder_tell(r, &(struct news){.kind = NEWS_TEXT, .text = {buf_str(p), p->len}, .from = 6, .stats = &stats});
    responder_tell(r, &(struct news){.kind = NEWS_DONE, .end = b->stops ? END_INTERRUPTED : END_STOP, .stats = &stats});
}

static int fds(const struct responder *r, struct pollfd f[RESPONDER_MAX_FDS])
{
    f[0] = (struct pollfd){.fd = ((const struct echo *)r)->fd, .events = POLLIN};
    return 1;
}

static const struct model_info *info(const struct responder *r)
{
    static const struct model_info it = {.model = "m", .backend = "b", .n_ctx = 100000, .temperature = -1, .top_p = -1, .top_k = -1};
    return ((const struct echo *)r)->ready ? &it : NULL;
}

static void machine(struct responder *r, struct machine_figures *m) { (void)r, (void)m; }
static int  used(const struct responder *r) { (void)r; return -1; }

static void close_echo(struct responder *r)
{
    close(((struct echo *)r)->fd);
    free(r);
}

static const struct responder_ops ops = {
    .request = request, .interrupt = interrupt, .fds = fds, .drain = drain, .info = info, .machine = machine, .used = used, .close = close_echo,
};

struct responder *__wrap_ui_responder(const struct options *o, struct err *e);
struct responder *__wrap_ui_responder(const struct options *o, struct err *e)
{
    struct echo *b = memory_zeroed(1, sizeof *b);
    (void)o, (void)e;
    b->base = (struct responder){.ops = &ops, .model = "m"};
    b->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    return &b->base;
}

/* ---- lines ---- */

static const char talk[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"one\"}, {\"role\": \"assistant\", \"content\": "
    "\"two\"}, {\"role\": \"user\", \"content\": \"three\"}], \"stop\": [\"a\", \"b\"], \"id\": {\"x\": [1]}}";
static const char *const lines[] = {
    "an ordinary line", "  spaces and {} braces  ", "@/etc/hostname", "\xe6\x97\xa5\xe6\x9c\xac \xff", "a\r", "[\"no object\"]",
    "{\"prompt\": \"hello\", \"id\": 5}", "{\"prompt\": \"x\", \"temperature\": 0.25, \"top_k\": 7, \"seed\": 11, \"max_tokens\": 9, \"id\": \"a\"}",
    talk,
    "{\"prompt\": \"two\\nlines \\u00e9\", \"system\": \"be brief\", \"think\": false, \"top_p\": 1, \"id\": null}",
    "{\"prompt\": \"x\", \"files\": [\"/etc/hostname\"], \"logit_bias\": [\"a=1\"], \"id\": 1.5}", "{\"prompt\": \"\"}", "{}",
    "{\"prompt\": \"x\", \"id\": 1732612345.123456}", "{\"temprature\": 1, \"prompt\": \"x\"}",
};
static const char *const line_words[] = {
    "\"prompt\":", "\"messages\":", "\"id\":", "\"files\":", "\"temperature\":", "\"top_k\":", "\"seed\":", "\"max_tokens\":", "\"stop\":",
    "\"preset\":", "\"think\":",
    "\"system\":", "\"role\":", "\"content\":", "\"user\"", "\"assistant\"", "{", "}", "[", "]", "null", "true", "\"\"", "\\u0000", "\\u009b", "{}",
    ",", "\n", "\r\n",
};

struct line {
    struct buf text;                    /* without its line end */
    json_t    *object;                  /* NULL: it is none */
};

static const char *string_of(const json_t *v)
{
    return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v) ? json_string_value(v) : NULL;
}

/* The prompt that the line has; NULL: this test does not know. */
static const char *prompt_of(const struct line *l)
{
    const json_t *messages = json_object_get(l->object, "messages");
    if (!l->object)
        return *buf_str(&l->text) == '{' ? NULL : buf_str(&l->text);
    if (json_object_get(l->object, "files"))
        return NULL;                    /* their text comes, too */
    if (messages)
        return string_of(json_object_get(json_array_get(messages, json_array_size(messages) - 1), "content"));
    return string_of(json_object_get(l->object, "prompt"));
}

static bool is_number(const json_t *v, double *x)
{
    *x = json_number_value(v);
    return json_is_number(v);
}

/* A value of the line holds for its own request, and for no other one. */
static const char *check_sampling(const json_t *object, const struct sampling *is, const struct sampling *usual)
{
    double x;
    if (json_object_get(object, "preset") || json_object_get(object, "think"))          /* which bring values of their own */
        return NULL;
    const json_t *temperature = json_object_get(object, "temperature"), *top_k = json_object_get(object, "top_k");
    const json_t *max_tokens = json_object_get(object, "max_tokens"), *seed = json_object_get(object, "seed");
    if (temperature ? is_number(temperature, &x) && is->temperature != (float)x : memcmp(&is->temperature, &usual->temperature, sizeof(float)))
        return "a request has another temperature than its line";
    if (top_k ? is_number(top_k, &x) && is->top_k != (int)x : is->top_k != usual->top_k)
        return "a request has another top_k than its line";
    if (max_tokens ? is_number(max_tokens, &x) && is->max_tokens != (int)x : is->max_tokens != usual->max_tokens)
        return "a request has another max_tokens than its line";
    if (json_is_integer(seed) && is->seed != (uint64_t)json_integer_value(seed))
        return "a request has another seed than its line";
    return NULL;
}

/* A line that is no UTF-8 is made so on its way. */
static bool is_same_text(const struct buf *prompt, const char *wanted)
{
    struct buf a = {0}, b = {0};
    unicode_replace(&a, buf_str(prompt), prompt->len);
    unicode_replace(&b, wanted, strlen(wanted));
    const bool same = a.len == b.len && !memcmp(buf_str(&a), buf_str(&b), a.len);
    buf_free(&a);
    buf_free(&b);
    return same;
}

/* One line of what was printed. */
static const char *check_output(const struct line *l, int number, const json_t *out, int *n_seen)
{
    const json_t *error = json_object_get(out, "error"), *answer = json_object_get(out, "answer"), *id = json_object_get(l->object, "id");
    const char *wanted = prompt_of(l);
    if (json_integer_value(json_object_get(out, "line")) != number)
        return "the lines of the output are not in the order of the input";
    if (!json_is_integer(json_object_get(out, "exit")) || (!error && json_integer_value(json_object_get(out, "exit"))))
        return "a line of the output has no status, or a wrong one";
    if (error ? !json_is_string(error) || !json_string_length(error) || !json_integer_value(json_object_get(out, "exit")) : !json_is_string(answer))
        return "a line of the output has neither an answer nor an error";
    if (id && !json_equal(id, json_object_get(out, "id")))
        return "an id does not come back as it was";
    if (!answer || (error && !json_string_length(answer)))
        return NULL;                    /* no request, or one that the responder refused; a stop string may leave an empty answer without an error */
    if (*n_seen >= asked.n)
        return "there is an answer without a request";
    const struct buf *prompt = &asked.prompts[*n_seen];
    struct buf echo = {0};
    buf_adds(&echo, "Echo: ");
    unicode_replace(&echo, buf_str(prompt), prompt->len);
    const size_t n = json_string_length(answer);        /* a stop string may end it early */
    const bool all_of_it = n == echo.len || (n < echo.len && json_object_get(l->object, "stop"));
    const bool same = all_of_it && !memcmp(json_string_value(answer), buf_str(&echo), n);
    buf_free(&echo);
    const struct sampling *is = &asked.samplings[(*n_seen)++];
    if (!same)
        return "an answer is not that of the line's request";
    if (wanted && !is_same_text(prompt, wanted))
        return "a request has another prompt than its line";
    return check_sampling(l->object, is, &asked.samplings[0]);
}

/* ---- a run ---- */

/* Runs the input and returns what it printed on stdout. */
static void run_batch(const struct buf *input, struct buf *out, int *status)
{
    static const struct buf no_words;
    FILE *const was[] = {stdin, stdout, stderr};
    struct options *o = options_open();
    char *printed = NULL, *said = NULL;
    size_t n = 0, n_said = 0;
    const int fd = memfd_create("input", MFD_CLOEXEC);
    assert_true(fd >= 0 && file_write(fd, buf_str(input), input->len) && !lseek(fd, 0, SEEK_SET));
    for (int i = 0; i < asked.n; i++)
        buf_reset(&asked.prompts[i]);
    asked.n = 0;
    stdin = fdopen(fd, "r");
    stdout = open_memstream(&printed, &n);
    stderr = open_memstream(&said, &n_said);
    *status = batch_run(o, &no_words);
    fclose(stdin);
    fclose(stdout);
    fclose(stderr);
    stdin = was[0];
    stdout = was[1];
    stderr = was[2];
    buf_reset(out);
    buf_add(out, printed, n);
    free(printed);
    free(said);
    close(interrupt_fd());
    options_close(o);
}

static bool is_blank_line(const struct buf *b)
{
    return strspn(buf_str(b), " \t\r\n") == b->len;
}

static struct line all[MOST_ASKED];
static int n_lines;                     /* that are not blank */
static int numbers[MOST_ASKED];

/* Cuts the input into its lines. */
static void read_input(const struct buf *input)
{
    int number = 0;
    n_lines = 0;
    for (size_t at = 0, n; at < input->len; at += n + 1) {
        const char *from = input->data + at, *end = memchr(from, '\n', input->len - at);
        struct line *l = &all[n_lines];
        n = end ? (size_t)(end - from) : input->len - at;
        buf_reset(&l->text);
        buf_add(&l->text, from, n);
        while (l->text.len && strchr("\r\n", l->text.data[l->text.len - 1]))
            l->text.data[--l->text.len] = 0;
        number++;
        if (is_blank_line(&l->text) || n_lines == MOST_ASKED - 1)
            continue;
        const bool may = *l->text.data == '{' && strlen(l->text.data) == l->text.len;           /* a zero byte is refused */
        l->object = may ? json_loadb(l->text.data, l->text.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL) : NULL;
        numbers[n_lines++] = number;
    }
}

/* *shown becomes the line that is wrong, and what it gave. */
static const char *check_run(const struct buf *out, int status, struct buf *shown)
{
    const char *wrong = NULL;
    int n = 0, n_seen = 0, n_failed = 0;
    for (size_t at = 0, k; at < out->len && !wrong; at += k + 1, n++) {
        const char *end = memchr(out->data + at, '\n', out->len - at);
        json_error_t why;
        if (!end || n == n_lines)
            return "there are more lines of output than of input";
        k = (size_t)(end - out->data) - at;
        json_t *v = json_loadb(out->data + at, k, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
        wrong = json_is_object(v) ? check_output(&all[n], numbers[n], v, &n_seen) : "a line of output is no JSON object";
        n_failed += json_integer_value(json_object_get(v, "exit")) != 0;
        buf_reset(shown);
        buf_addf(shown, "%s\n%.*s", buf_str(&all[n].text), (int)k, out->data + at);
        json_decref(v);
    }
    if (!wrong && n < n_lines)
        wrong = "a line has no output";
    if (!wrong && !status != !n_failed)
        wrong = "the status does not fit the lines";
    return wrong;
}

static void test_batch__each_line_gives_its_own_answer_or_an_error(void **state)
{
    struct buf input = {0}, line = {0}, out = {0}, shown = {0};
    struct long_run run;
    long n = 0, answered = 0;
    (void)state;
    for (run = long_run_begin(1, 1); next_input(&run);) {
        int status;
        buf_reset(&input);
        buf_adds(&input, "the usual values\n");
        for (uint32_t k = 1 + rnd(12); k; k--) {
            buf_reset(&line);
            buf_adds(&line, ANY(lines));
            if (rnd(3))
                mutate(&line, line_words, COUNT(line_words), ANY(lines));
            buf_add(&input, buf_str(&line), line.len);
            if (k > 1 || one_in(2))
                buf_addc(&input, '\n');
        }
        read_input(&input);
        run_batch(&input, &out, &status);
        const char *wrong = n_lines == MOST_ASKED - 1 ? NULL : check_run(&out, status, &shown);
        n += n_lines;
        answered += asked.n;
        for (int i = 0; i < n_lines; i++) {
            json_decref(all[i].object);
            all[i].object = NULL;
        }
        if (wrong)
            fail_input(&run, wrong, buf_str(&shown), shown.len);
    }
    long_run_print(&run, n, "lines");
    print_message("%ld answered\n", answered);
    assert_true(answered > 0 && answered < n);
    for (int i = 0; i < MOST_ASKED; i++) {
        buf_free(&asked.prompts[i]);
        buf_free(&all[i].text);
    }
    buf_free(&input);
    buf_free(&line);
    buf_free(&out);
    buf_free(&shown);
}

static void ignore(const char *line, void *arg)
{
    (void)line, (void)arg;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch__each_line_gives_its_own_answer_or_an_error),
    };
    err_set_sink(ignore, NULL);
    setenv("XDG_STATE_HOME", "/nonexistent", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    return cmocka_run_group_tests_name("batch fuzz", tests, NULL, NULL);
}
