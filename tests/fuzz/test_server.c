/* The server with all its paths, asked over real sockets by clients that do what they like: valid requests and changed ones, in pieces, over TCP with
 * and without the key, broken off and never read.  A scripted responder answers with what it was asked, so that an answer for another client is
 * noticed.  No private thing happens over TCP, no file outside of the folder of conversations is named, and all that was asked ends. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/memory.h"
#include "config/limits.h"
#include "serve/server.h"
#include "serve/server_state.h"
#include "serve/socket.h"
#include "tests/fuzz/mutate.h"
#include "tests/tmpdir.h"

#define KEY "the-key-of-this-test"

static struct key key = {.name = (char *)"test", .secret = (char *)KEY};
static struct keys keys = {&key, 1};
enum { N_LANES = 3, N_CLIENTS = 10, N_CTX = 4096, LONG = 2000 };
static const int32_t long_word[] = {'l', 'o', 'n', 'g'};        /* asks for an answer that no socket holds, of so many dots */

static struct {
    struct tmpdir dir;
    char sessions[128], socket[96];
    struct options *o;
    struct server *s;
    int  port, files[2];                /* how many things of attached chats were done, in sessions with and without a unix client */
    bool any_local;                     /* a client came over the unix socket in this session */
    const char *wrong;
    struct buf shown;                   /* about it */
    long steps, replies, checked;
} t;

/* ---- the responder: it says what it was asked, a byte a token ---- */

struct parrot {
    struct responder base;
    struct ids script;                  /* the answer; '#' is a call if there are tools */
    int  next, made, most;
    bool busy, stops, calls;
};
static struct parrot *parrots[N_LANES];

static struct text piece(const struct responder *r, int32_t id)
{
    static char bytes[256];
    (void)r;
    if (id < 0 || id > 255)
        return text_of("");
    bytes[id] = (char)id;
    return (struct text){&bytes[id], 1};
}

static void tell(struct parrot *p, const struct news *it)
{
    responder_tell(&p->base, it);
}

/* The token and what it means. */
static void say(struct parrot *p, int i, bool replayed)
{
    const struct logprobs other = {.n = 1, .ids = {p->script.data[i]}, .probs = {0.5f}};
    const struct stats stats = {.n_prompt = 5, .n_tokens = p->made, .n_steps = p->made};
    const int32_t id = p->script.data[i];
    tell(p, &(struct news){
        .kind = NEWS_TOKEN, .token = {.id = id, .from = (size_t)i, .prob = 0.5f}, .alternatives = &other, .replayed = replayed, .stats = &stats,
    });
    if (id == '#' && p->calls) {
        tell(p, &(struct news){.kind = NEWS_CALL_BEGIN, .text = text_of("f"), .replayed = replayed});
        tell(p, &(struct news){.kind = NEWS_CALL, .text = text_of("{\"x\": 1}"), .replayed = replayed});
    } else {
        tell(p, &(struct news){.kind = NEWS_TEXT, .text = piece(&p->base, id), .from = (size_t)i, .replayed = replayed});
    }
}

static void end(struct parrot *p, enum end how)
{
    const struct stats stats = {.n_prompt = 5, .n_tokens = p->made, .n_steps = p->made};
    p->busy = false;
    tell(p, &(struct news){.kind = NEWS_DONE, .end = how, .text = text_of(how == END_FAILED ? "the device failed" : ""), .stats = &stats});
}

static void add_text(struct ids *to, struct text s)
{
    for (size_t i = 0; i < s.n; i++)
        ids_add(to, (unsigned char)s.p[i]);
}

/* How many of the last tokens of what was given are the first ones of the answer. */
static int said_before(const struct tokens *given, const struct ids *answer)
{
    int n = given->n < answer->n ? given->n : answer->n;
    for (; n; n--) {
        int i = 0;
        while (i < n && given->all[given->n - n + i].id == answer->data[i])
            i++;
        if (i == n)
            break;
    }
    return n;
}

static enum request_result request(struct responder *r, const struct request *q, struct err *e)
{
    struct parrot *p = (struct parrot *)r;
    struct ids answer = {0};
    if (p->busy)
        t.wrong = "a request comes while an answer is under way";
    if (one_in(30)) {
        err_set(e, "the template refuses it");
        return one_in(2) ? REQUEST_REFUSED : REQUEST_TOO_LONG;
    }
    add_text(&answer, text_of("You said "));
    if (q->plain)
        ids_append(&answer, q->plain->data, q->plain->n);
    else if (q->n_messages)
        add_text(&answer, q->messages[q->n_messages - 1].content);
    for (int i = 0; i < LONG && memmem(answer.data, (size_t)answer.n * sizeof *answer.data, long_word, sizeof long_word); i++)
        ids_add(&answer, '.');
    ids_add(&answer, '#');
    p->calls = q->n_tools > 0;
    p->script.n = 0;
    const struct tokens *given = q->prefix.tokens;
    for (int i = 0; given && i < given->n; i++)
        ids_add(&p->script, given->all[i].id);
    const int before = given ? said_before(given, &answer) : 0;
    ids_append(&p->script, answer.data + before, answer.n - before);
    ids_free(&answer);
    p->busy = true;
    p->stops = false;
    p->made = 0;
    p->most = q->sampling.max_tokens;
    for (p->next = 0; given && p->next < given->n; p->next++)
        say(p, p->next, true);
    return REQUEST_TAKEN;
}

static void interrupt(struct responder *r)
{
    struct parrot *p = (struct parrot *)r;
    p->stops = true;
}

static void answer_some(struct parrot *p)
{
    if (p->busy && !p->made && one_in(2))
        tell(p, &(struct news){.kind = NEWS_READING, .done = rnd(5), .total = 5, .cached = 1});
    uint32_t n = rnd(p->script.n > LONG ? 500 : 6);
    for (; n && p->busy && !p->stops && p->next < p->script.n && !(p->most && p->made >= p->most); n--) {
        p->made++;
        say(p, p->next++, false);
    }
    if (p->busy && p->stops)
        end(p, END_INTERRUPTED);
    else if (p->busy && p->next >= p->script.n)
        end(p, END_STOP);
    else if (p->busy && p->most && p->made >= p->most)
        end(p, END_LENGTH);
    else if (p->busy && one_in(200))
        end(p, END_FAILED);
}

static void drain(struct responder *r)
{
    static const enum news_kind others[] = {NEWS_NOTE, NEWS_SAVED, NEWS_RESTORED, NEWS_LOADING, NEWS_READY};
    struct parrot *first = (struct parrot *)r;
    for (int i = 0; i < N_LANES; i++)
        if (one_in(2))
            answer_some(parrots[i]);
    if (one_in(40))
        tell(first, &(struct news){.kind = ANY(others), .conversation = rnd(3), .done = rnd(9), .text = text_of("a note")});
}

static const struct model_info *info(const struct responder *r)
{
    static const struct model_info it = {
        .model = "m", .n_ctx = N_CTX, .temperature = 0.6f, .top_p = 0.95f, .top_k = 20, .at_once = N_LANES,
    };
    (void)r;
    return &it;
}

static void encode(const struct responder *r, struct text s, bool controls, struct ids *out)
{
    (void)r, (void)controls;
    add_text(out, s);
}

static bool prompt(struct responder *r, const struct request *q, struct ids *out, int *snapshot_pos, struct err *e)
{
    (void)r, (void)e;
    if (snapshot_pos)
        *snapshot_pos = 0;
    for (int i = 0; i < q->n_messages; i++)
        add_text(out, q->messages[i].content);
    return true;
}

static bool tokens(struct responder *r, const struct spoken *s, struct tokens *out)
{
    (void)r;
    for (size_t i = 0; i < s->m->content.n && i < 100; i++)
        tokens_add(out, (struct token){.id = (unsigned char)s->m->content.p[i], .prob = -1}, NULL);
    return rnd(8);
}

/* Only a client of the unix socket can ask for it. */
static void private(void)
{
    if (!t.any_local)
        t.wrong = "a client over TCP does what only an attached chat may";
}

/* Files of the two conversations that may have one. */
static bool is_checkpoint(const char *path)
{
    char wanted[2][192];
    snprintf(wanted[0], sizeof wanted[0], "%s/talk.jsonl.checkpoint", t.sessions);
    snprintf(wanted[1], sizeof wanted[1], "%s/two words.jsonl.checkpoint", t.sessions);
    return !strcmp(path, wanted[0]) || !strcmp(path, wanted[1]);
}

static void use_file(struct responder *r, uint64_t conversation, const char *path)
{
    (void)r, (void)conversation;
    private();
    if (path && !is_checkpoint(path))
        t.wrong = "a file is used that is no checkpoint of a conversation";
    t.files[path != NULL]++;
}

static void must_have_file(struct responder *r, uint64_t conversation, const char *path)
{
    if (!path)
        t.wrong = "a checkpoint without a file is saved or restored";
    use_file(r, conversation, path);
}

static void read_ahead(struct responder *r, const struct request *q)
{
    (void)r;
    private();
    if (!q->plain || !q->plain->n || q->snapshot_pos > q->plain->n)
        t.wrong = "what is read ahead is no prompt";
}

static void machine(struct responder *r, struct machine_figures *m)
{
    (void)r;
    *m = (struct machine_figures){.memory_used = 1e9, .memory_total = 2e9, .throttled = "heat \"x\""};
}

static int  fds(const struct responder *r, struct pollfd f[RESPONDER_MAX_FDS]) { (void)r, (void)f; return 0; }
static int  used(const struct responder *r) { (void)r; return 0; }
static int  count(const struct responder *r, struct text s) { (void)r; return (int)s.n; }
static int  count_prompt(struct responder *r, const struct request *q, struct err *e) { (void)r, (void)q, (void)e; return 1; }
static bool says(struct responder *r, const struct spoken *s, const struct tokens *k) { (void)r, (void)s, (void)k; return true; }
static bool end_thought(struct responder *r) { (void)r; return false; }

static void close_parrot(struct responder *r)
{
    struct parrot *p = (struct parrot *)r;
    ids_free(&p->script);
    free(p);
}

static const struct responder_ops ops = {
    .request = request, .interrupt = interrupt, .end_thought = end_thought, .fds = fds, .drain = drain, .info = info, .machine = machine,
    .used = used,
    .count = count, .count_prompt = count_prompt, .encode = encode, .prompt = prompt, .read_ahead = read_ahead, .save = must_have_file,
    .restore = must_have_file, .keep = use_file, .tokens = tokens, .says = says, .piece = piece, .close = close_parrot,
};

/* ---- what clients ask ---- */

#define USER "\"messages\": [{\"role\": \"user\", \"content\": \"<m%d>\"}]"
enum { ANY_REPLY, SAYS_MARK, SAYS_LONG, TOKENS_OF_MARK, TEXT_OF_MARK, LINES_OF_MARK };
/* The body has the mark of the request as %d, the folder of conversations as $, the version of the protocol as &. */
static const struct { const char *method, *path, *body; int reply; } asks[] = {
    {"POST", "/v1/chat/completions", "{" USER "}", SAYS_MARK},
    {"POST", "/v1/chat/completions", "{" USER ", \"stream\": true, \"stream_options\": {\"include_usage\": true}}", SAYS_MARK},
    {"POST", "/v1/chat/completions", "{" USER ", \"logprobs\": true, \"top_logprobs\": 2, \"stop\": [\"zz\"], \"seed\": 5, \"temperature\": 0.5}",
    SAYS_MARK},
    {"POST", "/v1/chat/completions",
    "{" USER ", \"stream\": true, \"logprobs\": true, \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", "
     "\"parameters\": {}}}]}", SAYS_MARK},
    {"POST", "/v1/chat/completions", "{\"messages\": [{\"role\": \"user\", \"content\": \"<m%d> long\"}], \"stream\": true, \"logprobs\": true, "
     "\"top_logprobs\": 1}", SAYS_LONG},
    {"POST", "/v1/chat/completions", "{" USER ", \"max_tokens\": 3, \"stream\": true}", ANY_REPLY},
    {"POST", "/v1/chat/completions",
    "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"x\"}, {\"role\": "
     "\"assistant\", \"content\": \"An\"}], \"continue_final_message\": true, \"stream\": true}", ANY_REPLY},
    {"POST", "/v1/completions", "{\"prompt\": \"<m%d>\", \"max_tokens\": 100}", SAYS_MARK},
    {"POST", "/v1/completions", "{\"prompt\": \"<m%d>\", \"max_tokens\": 100, \"stream\": true, \"logprobs\": 2}", SAYS_MARK},
    {"POST", "/v1/completions", "{\"prompt\": [60, 109, 62], \"echo\": false, \"max_tokens\": 2}", ANY_REPLY},
    {"POST", "/v1/messages", "{" USER ", \"max_tokens\": 99}", SAYS_MARK},
    {"POST", "/v1/messages", "{" USER ", \"max_tokens\": 99, \"stream\": true, \"thinking\": {\"type\": \"adaptive\", \"display\": \"omitted\"}}",
    SAYS_MARK},
    {"POST", "/v1/messages", "{" USER ", \"max_tokens\": 99, \"stream\": true, \"tools\": [{\"name\": \"f\", \"input_schema\": {}}], "
     "\"system\": [{\"type\": \"text\", \"text\": \"s\"}], \"stop_sequences\": [\"zz\"]}", SAYS_MARK},
    {"POST", "/v1/messages/count_tokens", "{" USER "}", ANY_REPLY}, {"POST", "/v1/responses/input_tokens", "{\"input\": \"x\"}", ANY_REPLY},
    {"POST", "/api/chat", "{" USER "}", SAYS_MARK},
    {"POST", "/api/chat", "{" USER ", \"stream\": false, \"options\": {\"num_predict\": 99}, "
     "\"tools\": [{\"function\": {\"name\": \"f\"}}]}", SAYS_MARK},
    {"POST", "/api/chat", "{\"messages\": []}", ANY_REPLY},
    {"POST", "/api/show", "{\"model\": \"x\"}", ANY_REPLY}, {"GET", "/", "", ANY_REPLY},
    {"POST", "/api/generate", "{\"prompt\": \"<m%d>\", \"options\": {\"stop\": \"zz\"}}", SAYS_MARK},
    {"POST", "/api/generate", "{\"prompt\": \"<m%d>\", \"raw\": true, \"stream\": false}", SAYS_MARK},
    {"POST", "/tokenize", "{\"content\": \"<m%d>\", \"parse_special\": false}", TOKENS_OF_MARK},
    {"POST", "/tokenize", "{\"prompt\": \"<m%d>\"}", TOKENS_OF_MARK},
    {"POST", "/tokenize", "{" USER "}", TOKENS_OF_MARK},
    {"POST", "/detokenize", "{\"tokens\": [60,109,%d]}", ANY_REPLY},
    {"POST", "/detokenize", "{\"tokens\": [60,109,120,62,34,92,195,169]}", TEXT_OF_MARK},
    {"GET",  "/v1/models", "", ANY_REPLY}, {"GET", "/health", "", ANY_REPLY}, {"GET", "/metrics", "", ANY_REPLY}, {"GET", "/../x", "", ANY_REPLY},
    {"POST", "/q35chat/attach", "{\"id\": \"a\", \"protocol\": &}", ANY_REPLY}, {"POST", "/q35chat/attach", "{\"id\": \"b\", \"protocol\": &}",
    ANY_REPLY},
    {"POST", "/q35chat/answer",
    "{\"id\": \"a-%d\", \"conversation\": 1, \"snapshot_pos\": 2, \"answer_prefix\": 1, \"top_k\": 5, \"seed\": 1, \"max_tokens\": "
     "0, \"temperature\": 1, \"top_p\": 1, \"min_p\": 0, \"presence_penalty\": 0, \"repetition_penalty\": 1, "
     "\"draft_depth\": -1, \"lookup\": true, \"likely\": 1, \"logit_bias\": {\"5\": -1e9}, \"prompt\": [60,109,62]}", LINES_OF_MARK},
    {"POST", "/q35chat/interrupt", "{\"id\": \"a-%d\"}", ANY_REPLY}, {"POST", "/q35chat/machine", "{}", ANY_REPLY},
    {"POST", "/q35chat/ahead", "{\"conversation\": 2, \"snapshot_pos\": 1, \"prompt\": [1,2,3]}", ANY_REPLY},
    {"POST", "/q35chat/save", "{\"id\": \"a\", \"conversation\": 1, \"path\": \"$/talk.jsonl.checkpoint\"}", ANY_REPLY},
    {"POST", "/q35chat/restore", "{\"id\": \"a\", \"conversation\": 2, \"path\": \"$/two words.jsonl.checkpoint\"}", ANY_REPLY},
    {"POST", "/q35chat/keep", "{\"id\": \"b\", \"conversation\": 18446744073709551615, \"path\": \"$/talk.jsonl.checkpoint\"}", ANY_REPLY},
    {"POST", "/q35chat/keep", "{\"id\": \"b\", \"conversation\": 7, \"path\": \"\"}", ANY_REPLY},
    {"POST", "/stop", "", ANY_REPLY},
};
static const char *const body_words[] = {
    "\"messages\":", "\"prompt\":", "\"stream\": true", "\"tools\": []", "\"id\":", "\"conversation\":", "\"path\":", "\"a\"", "/../", "//", "/./",
    ".jsonl.checkpoint",
    "linked.jsonl.checkpoint", "outside", "\"role\":", "\"content\":", "null", "[]", "{}", ",", "\\u0000", "\\ud800", "\"stop\": [\"<\"]",
    "\"logprobs\": 8", "-1", "\"type\": \"tool_use\"", "\"type\": \"tool_result\"", "\"type\": \"thinking\"", "\"system\":", "\"input\": {}",
    "\"raw\":", "\"options\":", "\"images\":", "\"format\":",
};
static const char *const head_words[] = {
    "GET", "POST", " /health", " /stop", "HTTP/1.0", "HTTP/1.1\r\n", "\r\n\r\n", "\r\n", "Content-Length: 5\r\n", "Content-Length: -1\r\n",
    "Authorization: Bearer x\r\n",
    "Host: evil.test\r\n", "Connection: close\r\n", "Expect: 100-continue\r\n", "Transfer-Encoding: chunked\r\n", " ", ":", "%2e%2e",
    "GET /health HTTP/1.1\r\n\r\n",
};

struct asked {
    int ask, mark;
    bool valid;                         /* nothing of it was changed */
};

struct client {
    int  fd;                            /* -1: none */
    bool tcp, keyed, odd;               /* odd: replies are not told apart any more */
    bool closed;                        /* by the server */
    struct buf out, in;
    struct asked asked[64];
    int  n_asked, n_replies;
};
static struct client clients[N_CLIENTS];
static int mark;

static void make_body(const struct asked *a, struct buf *body)
{
    for (const char *s = asks[a->ask].body; *s; s++)
        if (s[0] == '%' && s[1] == 'd')
            buf_addf(body, "%d", a->mark), s++;
        else if (*s == '&')
            buf_addf(body, "%d", RELAY_PROTOCOL);
        else if (*s == '$')
            buf_adds(body, t.sessions);
        else
            buf_addc(body, *s);
}

static void add_chunks(struct buf *out, const struct buf *body)
{
    for (size_t at = 0, n; at < body->len; at += n) {
        n = 1 + rnd((uint32_t)(body->len - at));
        buf_addf(out, "%zx\r\n", n);
        buf_add(out, body->data + at, n);
        buf_adds(out, "\r\n");
    }
    buf_adds(out, "0\r\n\r\n");
}

static void ask(struct client *c)
{
    struct asked *a = &c->asked[c->n_asked];
    struct buf body = {0}, head = {0};
    if (c->n_asked == (int)COUNT(c->asked))
        return;
    *a = (struct asked){.ask = (int)rnd(COUNT(asks) - (rnd(40) != 0)), .mark = ++mark, .valid = true};
    make_body(a, &body);
    if (one_in(2) && body.len) {
        mutate(&body, body_words, COUNT(body_words), asks[rnd(COUNT(asks))].body);
        a->valid = false;
    }
    const bool chunked = one_in(6);
    buf_addf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\n", asks[a->ask].method, asks[a->ask].path, c->tcp ? "127.0.0.1" : "localhost");
    if (c->keyed)
        buf_adds(&head, "Authorization: Bearer " KEY "\r\n");
    if (chunked)
        buf_adds(&head, "Transfer-Encoding: chunked\r\n");
    else if (body.len || !strcmp(asks[a->ask].method, "POST"))
        buf_addf(&head, "Content-Length: %zu\r\n", body.len);
    buf_adds(&head, "\r\n");
    if (one_in(12)) {
        mutate(&head, head_words, COUNT(head_words), head.data);
        c->odd = true;
    }
    buf_add(&c->out, buf_str(&head), head.len);
    if (chunked)
        add_chunks(&c->out, &body);
    else
        buf_add(&c->out, buf_str(&body), body.len);
    c->n_asked++;
    buf_free(&body);
    buf_free(&head);
}

static void show_client(const struct client *c, const char *wrong)
{
    t.wrong = wrong;
    buf_addf(&t.shown, "tcp %d, key %d, %d of %d replies, then", c->tcp, c->keyed, c->n_replies, c->n_asked);
    for (int i = c->n_replies; i < c->n_asked; i++)
        buf_addf(&t.shown, " %s%s", asks[c->asked[i].ask].path, c->asked[i].valid ? "" : " (changed)");
    buf_addf(&t.shown, "; in: %.*s", (int)(c->in.len < 1000 ? c->in.len : 1000), buf_str(&c->in));
}

/* ---- what comes back ---- */

struct reply {
    int status;
    struct buf body;
    size_t end;                         /* in what came */
};

/* Joins the chunks at s; 0: they have not all come. */
static size_t join_chunks(const char *s, size_t n, struct buf *body)
{
    size_t at = 0;
    for (;;) {
        const char *line = memmem(s + at, n - at, "\r\n", 2);
        if (!line)
            return 0;
        const size_t k = strtoul(s + at, NULL, 16), from = (size_t)(line - s) + 2;
        if (n - from < k + 2)
            return 0;
        buf_add(body, s + from, k);
        at = from + k + 2;
        if (!k)
            return at;
    }
}

/* The first reply of the bytes; false: it has not come whole. */
static bool next_reply(const struct buf *in, struct reply *r)
{
    const char *end = in->len ? memmem(in->data, in->len, "\r\n\r\n", 4) : NULL;
    if (!end)
        return false;
    const size_t head = (size_t)(end - in->data) + 4;
    char *text = memory_zeroed(1, head + 1);
    memcpy(text, in->data, head);
    r->status = !strncmp(text, "HTTP/1.1 ", 9) ? atoi(text + 9) : -1;
    const char *length = strcasestr(text, "\r\nContent-Length:");
    const size_t n = length ? strtoul(length + 17, NULL, 10) : 0;
    const bool chunked = strcasestr(text, "\r\nTransfer-Encoding: chunked");
    free(text);
    if (chunked)
        r->end = join_chunks(in->data + head, in->len - head, &r->body);
    else if (in->len - head >= n)
        buf_add(&r->body, in->data + head, r->end = n);
    const bool whole = chunked ? r->end > 0 : in->len - head >= n;
    r->end += head;
    if (!whole)
        buf_free(&r->body);
    return whole;
}

/* The text of an answer, of whatever form: joined of its `content` or `text`. */
static void add_content(const json_t *v, struct buf *out)
{
    const json_t *choice = json_array_get(json_object_get(v, "choices"), 0), *delta = json_object_get(choice, "delta");
    const char *texts[] = {
        json_string_value(json_object_get(delta ? delta : json_object_get(choice, "message"), "content")),
        json_string_value(json_object_get(choice, "text")),
        json_string_value(json_object_get(json_object_get(v, "delta"), "text")),
        json_string_value(json_object_get(json_object_get(v, "message"), "content")), json_string_value(json_object_get(v, "response")),
    };
    size_t k;
    json_t *block;
    json_array_foreach(json_object_get(v, "content"), k, block)
        buf_adds(out, json_is_string(json_object_get(block, "text")) ? json_string_value(json_object_get(block, "text")) : "");
    for (uint32_t i = 0; i < COUNT(texts); i++)
        buf_adds(out, texts[i] ? texts[i] : "");
}

/* A JSON object, or NULL with *wrong.  A zero byte in a key is what jansson alone refuses. */
static json_t *read_object(const char *text, size_t n, const char **wrong)
{
    json_error_t e;
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!json_is_object(v) && (v || json_error_code(&e) != json_error_null_byte_in_key))
        *wrong = "a reply, or a line of one, is no JSON object";
    return v;
}

/* Each event, or each line, is a JSON object. */
static const char *read_lines(const struct buf *body, struct buf *content, struct buf *ids)
{
    for (size_t at = 0, n; at < body->len; at += n + 1) {
        const char *line = body->data + at, *end = memchr(line, '\n', body->len - at);
        if (!end)
            return "a line of a whole reply does not end";
        n = (size_t)(end - line);
        const size_t skip = n > 6 && !strncmp(line, "data: ", 6) ? 6 : 0;
        if (!n || *line == ':' || (n > 7 && !strncmp(line, "event: ", 7)) || (skip && n - skip == 6 && !strncmp(line + skip, "[DONE]", 6)))
            continue;
        const char *wrong = NULL;
        json_t *v = read_object(line + skip, n - skip, &wrong);
        add_content(v, content);
        if (json_object_get(v, "token"))
            buf_addc(ids, (char)json_integer_value(json_array_get(json_object_get(v, "token"), 0)));
        json_decref(v);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static int count_of(const struct buf *b, const char *what)
{
    int n = 0;
    for (const char *at = b->data, *end = at + b->len; at && (at = memmem(at, (size_t)(end - at), what, strlen(what))); at++)
        n++;
    return n;
}

/* The reply to a request that was sent as it should be. */
static const char *check_valid(const struct asked *a, const struct reply *r, const json_t *v, const struct buf *content, const struct buf *ids)
{
    char own[32];
    snprintf(own, sizeof own, "<m%d>", a->mark);
    t.checked++;
    switch (asks[a->ask].reply) {
    case SAYS_MARK:
    case SAYS_LONG:
        if (strstr(buf_str(&r->body), "\"error\"") || strstr(buf_str(&r->body), "device failed"))
            return NULL;                /* the responder failed or refused */
        for (const char *other = buf_str(content); (other = strstr(other, "<m")); other++)
            if (strncmp(other, own, strlen(own)))
                return "an answer is another client's";
        if (asks[a->ask].reply == SAYS_LONG && count_of(content, ".") != LONG)
            return "a long answer has lost a token, or has one twice";
        return strstr(buf_str(content), own) ? NULL : "an answer is not of what was asked";
    case LINES_OF_MARK:
        return !ids->len || strstr("You said <m#>You said <m#", buf_str(ids)) ? NULL : "the tokens are not those of the answer";
    case TEXT_OF_MARK: {
        const char *text = json_string_value(json_object_get(v, "content"));
        return text && !strcmp(text, "<mx>\"\\\xc3\xa9") ? NULL : "tokens have another text";
    }
    case TOKENS_OF_MARK: {
        const json_t *list = json_object_get(v, "tokens");
        bool same = json_array_size(list) == strlen(own) && json_integer_value(json_object_get(v, "count")) == (json_int_t)strlen(own);
        for (size_t i = 0; same && own[i]; i++)
            same = json_integer_value(json_array_get(list, i)) == own[i];
        return same ? NULL : "a text has other tokens";
    }
    default:
        return NULL;
    }
}

static const char *check_reply(const struct client *c, const struct asked *a, const struct reply *r)
{
    struct buf content = {0}, ids = {0};
    const char *body = buf_str(&r->body), *wrong = NULL;
    json_t *v = NULL;
    const bool plain = !strcmp(asks[a->ask].path, "/metrics");
    if (r->status < 200 || r->status > 599)
        wrong = "a reply has no status";
    else if (!strncmp(body, "data: ", 6) || strstr(body, "}\n"))
        wrong = read_lines(&r->body, &content, &ids);
    else if (r->body.len && !(plain && r->status == 200) && *body != '<' && strcmp(body, "q35chat is running\n")) {
        /* pages in HTML are libmicrohttpd's own */
        v = read_object(body, r->body.len, &wrong);
        add_content(v, &content);
    }
    if (c->tcp && !c->keyed && r->status == 200 && strcmp(asks[a->ask].path, "/health"))
        wrong = "a client without the key is answered";
    if (c->tcp && r->status == 200 && (!strncmp(asks[a->ask].path, "/q35chat/", 9) || strstr(body, "\"root\"")))
        wrong = "a client over TCP gets what is for attached chats";
    if (!wrong && a->valid && r->status == 200)
        wrong = check_valid(a, r, v, &content, &ids);
    json_decref(v);
    buf_free(&content);
    buf_free(&ids);
    return wrong;
}

static void look_at(struct client *c)
{
    if (c->odd) {                       /* whatever was asked: without the key there is nothing but /health */
        if (c->tcp && !c->keyed && count_of(&c->in, "HTTP/1.1 200") > count_of(&c->in, "loaded_bytes"))
            t.wrong = "a client without the key is answered";
        return;
    }
    for (struct reply r = {0}; !t.wrong && next_reply(&c->in, &r); r = (struct reply){0}) {
        if (r.status == 100) {
            ;
        } else if (c->n_replies == c->n_asked) {
            t.wrong = "there are more replies than requests";
        } else {
            t.wrong = check_reply(c, &c->asked[c->n_replies++], &r);
            t.replies++;
        }
        if (t.wrong)
            print_message("%.*s\n", (int)r.body.len, buf_str(&r.body));
        buf_consume(&c->in, r.end);
        buf_free(&r.body);
    }
}

/* ---- what clients do ---- */

static void open_client(struct client *c, bool tcp)
{
    *c = (struct client){.tcp = tcp, .keyed = tcp && rnd(3)};
    c->fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)t.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof un.sun_path, "%s", t.socket);
    const int rc = tcp ? connect(c->fd, (struct sockaddr *)&in, sizeof in) : connect(c->fd, (struct sockaddr *)&un, sizeof un);
    assert_int_equal(rc, 0);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));        /* time does not pass here: nothing may wait for an ACK */
    t.any_local |= !tcp;
}

static void close_client(struct client *c, bool resets)
{
    const struct linger now = {.l_onoff = 1};
    if (c->fd < 0)
        return;
    if (resets)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(c->fd);
    buf_free(&c->out);
    buf_free(&c->in);
    c->fd = -1;
}

static void send_some(struct client *c, bool all)
{
    const size_t n = all || one_in(2) ? c->out.len : c->out.len ? 1 + rnd((uint32_t)c->out.len) : 0;
    const ssize_t sent = n ? send(c->fd, c->out.data, n, MSG_NOSIGNAL) : 0;
    if (sent > 0)
        buf_consume(&c->out, (size_t)sent);
}

/* False: nothing came. */
static bool read_all(struct client *c)
{
    char piece[4096];
    ssize_t n;
    const size_t before = c->in.len;
    while ((n = recv(c->fd, piece, sizeof piece, 0)) > 0)
        buf_add(&c->in, piece, (size_t)n);
    c->closed |= n == 0 || (n < 0 && errno != EAGAIN);
    const bool any = c->in.len > before;
    look_at(c);
    return any;
}

static void client_step(struct client *c, bool tcp_only)
{
    if (c->fd < 0) {
        open_client(c, tcp_only || one_in(2));
        return;
    }
    switch (rnd(16)) {
    case 0:
        if (one_in(4))
            close_client(c, one_in(2));
        break;
    case 1:
    case 2:
    case 3:
        if (!c->out.len)
            ask(c);
        break;
    case 4:
        if (one_in(20)) {
            shutdown(c->fd, SHUT_WR);   /* the server may take it for gone */
            c->closed = true;
        }
        break;
    default:
        if (c->out.len && rnd(4))
            send_some(c, false);
        else
            read_all(c);
        if (c->closed)
            close_client(c, false);
    }
}

/* ---- a session ---- */

static void open_session(void)
{
    const struct server_options so = {
        .o = t.o, .n_waiting = 1 + (int)rnd(6), .keys = &keys, .of_chat = one_in(4), .n_spare = (int)rnd(2), .any_host = one_in(4),
        .send_timeout_s = (int)rnd(2) * 60,
    };
    struct responder *all[N_LANES];
    struct err e = {{0}};
    for (int i = 0; i < N_LANES; i++) {
        parrots[i] = memory_zeroed(1, sizeof *parrots[i]);
        parrots[i]->base = (struct responder){
            .ops = &ops, .can = {true, true, true, true, true, true, true, true, true, false}, .model = "/models/m",
        };
        all[i] = &parrots[i]->base;
    }
    t.s = server_open(all, N_LANES, &so, &e);
    assert_non_null(t.s);
    unlink(t.socket);
    const int unix_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), tcp_fd = socket_listen_tcp("127.0.0.1:0", false, &e);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in;
    socklen_t size = sizeof in;
    snprintf(un.sun_path, sizeof un.sun_path, "%s", t.socket);
    assert_true(tcp_fd >= 0 && !bind(unix_fd, (struct sockaddr *)&un, sizeof un) && !listen(unix_fd, 64));
    fcntl(tcp_fd, F_SETFL, O_NONBLOCK);
    setsockopt(tcp_fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int));       /* so that a long answer is paused */
    setsockopt(unix_fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int));
    assert_int_equal(getsockname(tcp_fd, (struct sockaddr *)&in, &size), 0);
    t.port = ntohs(in.sin_port);
    assert_true(server_listen(t.s, unix_fd, &e) && server_listen(t.s, tcp_fd, &e));
    t.any_local = false;
    t.wrong = NULL;
    for (int i = 0; i < N_CLIENTS; i++)
        clients[i].fd = -1;
}

/* The server ends while requests are on their way. */
static void break_off(void)
{
    for (int i = 0; i < N_CLIENTS; i++)
        if (clients[i].fd >= 0) {
            if (!clients[i].out.len)
                ask(&clients[i]);
            send_some(&clients[i], true);
        }
    server_close(t.s);
    for (int i = 0; i < N_CLIENTS; i++)
        close_client(&clients[i], false);
}

/* Has it sent a whole request that must have a reply? */
static bool waits(const struct client *c)
{
    const bool streams = c->n_replies < c->n_asked && !strcmp(asks[c->asked[c->n_replies].ask].path, "/q35chat/attach");   /* stays open */
    return c->fd >= 0 && !c->odd && !c->closed && !c->out.len && c->n_replies < c->n_asked && !streams;
}

/* All is read and answered, then all clients go. */
static void end_session(enum server_state state)
{
    struct err e;
    if (!t.wrong && one_in(4)) {
        break_off();
        return;
    }
    server_hold(t.s, false);
    for (int rounds = 0, idle = 0; rounds < 20000 && idle < 500 && !t.wrong && state == SERVER_RUNS; rounds++) {
        state = server_run(t.s, &e);
        bool waited = false;
        idle = server_n_open(t.s) ? 0 : idle + 1;
        for (int i = 0; i < N_CLIENTS; i++)
            if (clients[i].fd >= 0) {
                idle = clients[i].out.len && !clients[i].closed ? 0 : idle;
                send_some(&clients[i], true);
                idle = read_all(&clients[i]) ? 0 : idle;
                waited |= waits(&clients[i]);
            }
        if (idle > 20 && !waited)
            break;
        if (idle > 20 || rounds > 2000)
            poll(NULL, 0, 1);           /* the network has its own time, and so have the threads that read large requests */
    }
    if (!t.wrong && state == SERVER_RUNS && server_n_open(t.s))
        t.wrong = "a request that was read has no end";
    for (int i = 0; i < N_CLIENTS; i++) {
        const struct client *c = &clients[i];
        if (waits(c) && state == SERVER_RUNS && !t.wrong)
            show_client(c, "a whole request has no reply");
        close_client(&clients[i], false);
    }
    for (int rounds = 0; rounds < 20 && !t.wrong && state == SERVER_RUNS; rounds++)
        state = server_run(t.s, &e);
    if (!t.wrong && state == SERVER_RUNS && (server_n_open(t.s) || server_n_others(t.s)))
        t.wrong = "somebody is still there when all clients have gone";
    server_close(t.s);
}

static void test_server__clients_get_their_own_answers_and_nothing_private(void **state)
{
    struct long_run run;
    (void)state;
    for (run = long_run_begin(2, 1); next_input(&run);) {
        enum server_state runs = SERVER_RUNS;
        struct err e;
        const bool tcp_only = one_in(3);
        open_session();
        for (int n = 100 + (int)rnd(500); n && !t.wrong && runs == SERVER_RUNS; n--, t.steps++) {
            client_step(&clients[rnd(N_CLIENTS)], tcp_only);
            if (one_in(3))
                runs = server_run(t.s, &e);
            if (one_in(100))
                server_hold(t.s, one_in(2));
            if (one_in(1500))
                server_leave_chat(t.s);
            if (server_timeout(t.s) < -1)
                t.wrong = "the time to wait is none";
        }
        end_session(runs);
        if (t.wrong)
            fail_input(&run, t.wrong, buf_str(&t.shown), t.shown.len);
    }
    buf_free(&t.shown);
    long_run_print(&run, t.steps, "steps");
    print_message("%ld replies, %ld compared, %d files\n", t.replies, t.checked, t.files[1]);
    assert_true(t.replies > 0 && t.checked > 0);
}

/* ---- paths alone ---- */

static const char *const paths[] = {
    "$/talk.jsonl.checkpoint", "$/two words.jsonl.checkpoint", "$/linked.jsonl.checkpoint", "$/../sessions/talk.jsonl.checkpoint",
    "$/link.jsonl.checkpoint",
    "$//./talk.jsonl.checkpoint", "$/none.jsonl.checkpoint", "/etc/passwd",
};
static const char *const path_words[] = {
    "/", "..", "/../", ".", "$", "talk", "linked", "link", "two words", ".jsonl", ".checkpoint", ".jsonl.checkpoint", "/etc/passwd", "//", "~", "*",
};

static void test_checkpoint_path__any_path_is_refused_or_is_that_of_a_conversation(void **state)
{
    struct buf text = {0}, path = {0}, own = {0};
    struct long_run run;
    long taken = 0;
    (void)state;
    for (run = long_run_begin(1, 1); next_input(&run);) {
        struct err e = {{0}};
        buf_reset(&text);
        buf_reset(&path);
        buf_reset(&own);
        buf_adds(&text, ANY(paths));
        mutate(&text, path_words, COUNT(path_words), ANY(paths));
        for (size_t i = 0; i < text.len; i++)
            text.data[i] == '$' ? buf_adds(&path, t.sessions) : buf_addc(&path, text.data[i]);
        const bool ok = attached_checkpoint((struct text){buf_str(&path), path.len}, &own, &e);
        if (ok ? !is_checkpoint(buf_str(&own)) : !*e.msg)
            fail_input(&run, ok ? "a path is taken that is of no conversation" : "a path is refused without a reason", buf_str(&path), path.len);
        taken += ok;
    }
    long_run_print(&run, run.n, "paths");
    assert_true(taken > 0);
    buf_free(&text);
    buf_free(&path);
    buf_free(&own);
}

/* ---- */

static void put_session(const char *name)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", t.sessions, name);
    FILE *f = fopen(path, "w");
    assert_true(f && !fclose(f));
}

static int setup(void **state)
{
    char path[192];
    (void)state;
    if (!tmpdir_make(&t.dir))
        return 1;
    setenv("XDG_STATE_HOME", t.dir.path, 1);
    snprintf(t.socket, sizeof t.socket, "%s/sock", t.dir.path);
    snprintf(path, sizeof path, "%s/q35chat", t.dir.path);
    snprintf(t.sessions, sizeof t.sessions, "%s/q35chat/sessions", t.dir.path);
    assert_true(!mkdir(path, 0700) && !mkdir(t.sessions, 0700));
    put_session("talk.jsonl");
    put_session("two words.jsonl");
    put_session("linked.jsonl");
    snprintf(path, sizeof path, "%s/linked.jsonl.checkpoint", t.sessions);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    snprintf(path, sizeof path, "%s/link.jsonl", t.sessions);
    assert_int_equal(symlink("talk.jsonl", path), 0);
    t.o = options_open();
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    options_close(t.o);
    snprintf(command, sizeof command, "rm -rf '%s'", t.dir.path);
    return system(command);
}

static void ignore(const char *line, void *arg)
{
    (void)line, (void)arg;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server__clients_get_their_own_answers_and_nothing_private),
        cmocka_unit_test(test_checkpoint_path__any_path_is_refused_or_is_that_of_a_conversation),
    };
    err_set_sink(ignore, NULL);
    return cmocka_run_group_tests_name("server fuzz", tests, setup, teardown);
}
