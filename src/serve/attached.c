/* Attached q35chats: their streams, their requests and the lines of both (docs/serve-reference.md, "Between two q35chats").  Their answers are jobs
 * like others, in a format of their own (format_tokens.c). */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "config/limits.h"
#include "serve/history.h"
#include "serve/seen.h"
#include "serve/server_state.h"
#include "session/file.h"
#include "text/pyjson.h"

/* ---- the list ---- */

static void send_lines(struct exchange *x, const struct buf *lines)
{
    exchange_write(x, (struct text){buf_str(lines), lines->len});
}

/* Adds a q35chat and begins its stream with these lines. */
static void add(struct attached_list *l, struct exchange *x, struct text name, const struct buf *lines)
{
    l->all = memory_grow(l->all, l->n, &l->cap, sizeof *l->all);
    struct attached *a = &l->all[l->n++];
    *a = (struct attached){.x = x, .name = memory_zeroed(1, name.n + 1)};
    memcpy(a->name, name.p, name.n);
    exchange_begin(x, "application/x-ndjson");
    send_lines(x, lines);
}

bool attached_gone(struct attached_list *l, const struct exchange *x)
{
    for (int i = 0; i < l->n; i++)
        if (l->all[i].x == x) {
            free(l->all[i].name);
            l->all[i] = l->all[--l->n];
            return true;
        }
    return false;
}

void attached_send(struct attached_list *l, const struct buf *lines)
{
    for (int i = 0; i < l->n; i++)
        send_lines(l->all[i].x, lines);
}

/* Makes the q35chat of this name the only one that is sent news of the conversation's checkpoint.  False if no q35chat has the name. */
static bool claim(struct attached_list *l, struct text name, uint64_t conversation)
{
    bool there = false;
    for (int i = 0; i < l->n; i++) {
        struct attached *a = &l->all[i];
        const bool claims = text_is(name, a->name);
        if (claims || a->conversation == conversation)
            a->conversation = claims ? conversation : 0;
        there |= claims;
    }
    return there;
}

void attached_send_filed(struct attached_list *l, const struct news *it)
{
    struct buf line = {0};
    /* the conversation's number as a text: many readers of JSON take no number above 2^63 */
    buf_addf(&line, "{\"%s\": {\"conversation\": \"%llu\", \"done\": %zu, \"total\": %zu, \"why\": ", it->kind == NEWS_SAVED ? "saved" : "restored",
             (unsigned long long)it->conversation, it->done, it->total);
    pyjson_quote(it->text.p ? it->text : text_of(""), &line);
    buf_adds(&line, "}}\n");
    for (int i = 0; i < l->n; i++)
        if (it->conversation && l->all[i].conversation == it->conversation)
            send_lines(l->all[i].x, &line);
    buf_free(&line);
}

void attached_end(struct attached_list *l)
{
    for (int i = 0; i < l->n; i++)
        exchange_end(l->all[i].x);
}

void attached_free(struct attached_list *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->all[i].name);
    free(l->all);
    *l = (struct attached_list){0};
}

/* ---- lines ---- */

void attached_add_protocol(struct buf *out)
{
    buf_addf(out, "{\"protocol\": %d}\n", RELAY_PROTOCOL);
}

void attached_add_state(const struct server *s, struct buf *out)
{
    if (!s->ready) {
        buf_addf(out, "{\"loading\": [%zu,%zu]}\n", s->loaded, s->to_load);
        return;
    }
    buf_adds(out, "{\"ready\": ");
    model_info_write(s->r->ops->info(s->r), out);
    buf_adds(out, "}\n");
}

/* ---- bodies ---- */

static bool read_conversation(const struct pyjson *top, uint64_t *to, struct arena *mem, struct err *e)
{
    const struct pyjson *v = pyjson_get(top, "conversation");
    if (!v || v->kind != PY_INT || v->text.n > 20)
        return err_set(e, "conversation is not a whole number");
    *to = strtoull(arena_strndup(mem, v->text.p, v->text.n), NULL, 10);
    return true;
}

/* Reads the files of the pictures, whose pads are in the prompt, as a message of their own. */
static bool read_pictures(struct question *q, const struct pyjson *list, struct err *e)
{
    struct err why = {{0}};
    if (!list)
        return true;
    if (list->kind != PY_LIST || list->n > LIMIT_PICTURES)
        return err_set(e, "pictures is not a list of at most %d", LIMIT_PICTURES);
    struct message *m = arena_alloc(&q->mem, sizeof *m);
    struct media *all = arena_array(&q->mem, list->n + 1, sizeof *all);
    *m = (struct message){.role = ROLE_USER, .content = text_of(""), .pictures = all, .n_media = (int)list->n};
    for (size_t i = 0; i < list->n; i++) {
        const struct pyjson *name = pyjson_get(&list->items[i], "name");
        const bool named = name && name->kind == PY_STR && name->text.n;
        all[i].name = text_of(named ? arena_strndup(&q->mem, name->text.p, name->text.n) : "a picture");
        if (!seen_read(&list->items[i], &all[i], &q->mem, &why))
            return err_set(e, "%s is not taken %s", all[i].name.p, why.msg);
    }
    q->request.messages = m;
    q->request.n_messages = 1;
    return true;
}

bool attached_read_prompt(struct question *q, const struct pyjson *top, struct err *e)
{
    if (!question_ids(pyjson_get(top, "prompt"), &q->ids) || !q->ids.n)
        return err_set(e, "prompt is not a list of tokens");
    return read_conversation(top, &q->request.conversation, &q->mem, e)
           && question_whole(top, "snapshot_pos", 0, q->ids.n, &q->request.snapshot_pos, e) && read_pictures(q, pyjson_get(top, "pictures"), e);
}

/* Copies a list of texts.  False if it is none. */
static bool read_texts(const struct pyjson *list, const struct text **to, int *n, struct arena *mem)
{
    if (!list || list->kind != PY_LIST || list->n > INT_MAX)
        return false;
    struct text *all = arena_array(mem, list->n + 1, sizeof *all);
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i].kind != PY_STR)
            return false;
        all[i] = list->items[i].text;
    }
    *to = all;
    *n = (int)list->n;
    return true;
}

/* Copies the JSON of each tool. */
static bool read_tools(const struct pyjson *list, struct request *r, struct arena *mem)
{
    if (!list || list->kind != PY_LIST || list->n > INT_MAX)
        return false;
    struct text *all = arena_array(mem, list->n + 1, sizeof *all);
    for (size_t i = 0; i < list->n; i++) {
        const struct pyjson *inner = pyjson_given(&list->items[i], "function"), *tool = inner ? inner : &list->items[i];
        const struct pyjson *name = pyjson_given(tool, "name");
        struct buf text = {0};
        struct err why;
        if (!name || name->kind != PY_STR || !history_tool("a tool", name, pyjson_given(tool, "parameters"), &why))
            return false;
        pyjson_dump(&list->items[i], &text);
        all[i] = (struct text){arena_strndup(mem, buf_str(&text), text.len), text.len};
        buf_free(&text);
    }
    r->tools = all;
    r->n_tools = (int)list->n;
    return true;
}

bool attached_read_guide(struct question *q, const struct pyjson *top, struct err *e)
{
    static const char *const kinds[] = {
#define FORM_KIND(kind, name) [kind] = name,
#include "config/form_kinds.def"
    };
    const struct pyjson *v = pyjson_get(top, "guide"), *kind = pyjson_get(v, "kind"), *text = pyjson_get(v, "text");
    struct request *r = &q->request;
    struct form *f = &r->form;
    if (!v)
        return true;
    size_t i = 0;
    while (i < sizeof kinds / sizeof *kinds && !(kind && kind->kind == PY_STR && text_is(kind->text, kinds[i])))
        i++;
    if (i == sizeof kinds / sizeof *kinds || !text || text->kind != PY_STR ||
        !read_texts(pyjson_get(v, "choices"), &f->choices, &f->n_choices, &q->mem) ||
        !read_texts(pyjson_get(v, "allowed"), &r->allowed, &r->n_allowed, &q->mem) ||
        !read_tools(pyjson_get(v, "tools"), r, &q->mem))
        return err_set(e, "guide is not what a q35chat sends");
    f->kind = (enum form_kind)i;
    f->text = text->text;
    return question_flag(v, "loose", &f->loose, e) && question_flag(v, "one_call", &f->one_call, e) && question_flag(top, "rests", &r->thinking, e);
}

bool attached_read_name(const struct pyjson *top, struct text *name, struct err *e)
{
    const struct pyjson *v = pyjson_get(top, "id");
    *name = v && v->kind == PY_STR ? v->text : text_of("");
    return name->n || err_set(e, "id is missing: the name of an answer, or of the q35chat that asks");
}

bool attached_read_hello(struct text body, struct text *name, struct arena *mem, struct err *e)
{
    struct pyjson top;
    if (!question_object(&top, body, mem, e))
        return false;
    const struct pyjson *v = pyjson_get(&top, "protocol");
    const int theirs = v && v->kind == PY_INT && v->text.n < 10 ? (int)strtol(v->text.p, NULL, 10) : 0;
    if (theirs != RELAY_PROTOCOL)
        return err_set(e, "the q35chat that asks is of another version: between programs it speaks protocol %d, and the one that has loaded the "
                          "model %d", theirs, RELAY_PROTOCOL);
    return attached_read_name(&top, name, e);
}

/* ---- paths of checkpoints ---- */

#define SUFFIX ".jsonl" SESSION_CHECKPOINT

/* Finds device and inode of the folder that a path leads to. */
static bool folder_of(const char *path, struct stat *st)
{
    struct buf folder = {0};
    const char *slash = strrchr(path, '/');
    buf_add(&folder, path, slash ? (size_t)(slash - path) + 1 : 0);
    const bool found = !stat(buf_str(&folder), st);
    buf_free(&folder);
    return found;
}

static bool same_folder(const char *a, const char *b)
{
    struct stat here, there;
    return *a == '/' && folder_of(a, &here) && folder_of(b, &there) && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* optional: it may be missing. */
static bool is_own_file(const char *path, bool optional, struct err *e)
{
    struct stat st;
    if (lstat(path, &st))
        return (optional && errno == ENOENT) || err_set(e, "cannot use %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(e, "%s is not a regular file", path);
    return st.st_uid == geteuid() || err_set(e, "%s belongs to another user", path);
}

bool attached_checkpoint(struct text given, struct buf *own, struct err *e)
{
    struct buf path = {0}, name = {0}, session = {0};
    bool ok = (given.n && given.n < PATH_MAX && !memchr(given.p, 0, given.n)) || err_set(e, "path is not the path of a file");
    buf_add(&path, given.p, ok ? given.n : 0);
    const char *slash = strrchr(buf_str(&path), '/'), *file = slash ? slash + 1 : buf_str(&path);
    const size_t n = strlen(file), suffix = strlen(SUFFIX);
    if (ok && (n <= suffix || strcmp(file + n - suffix, SUFFIX)))
        ok = err_set(e, "%s is not the checkpoint of a conversation", path.data);
    if (ok)
        buf_add(&name, file, n - suffix);
    ok = ok && session_path_of(name.data, &session, e);
    if (ok && !same_folder(path.data, session.data))
        ok = err_set(e, "%s is not in the folder where the q35chat that has loaded the model keeps conversations", path.data);
    if (ok)
        session_checkpoint(session.data, own);
    ok = ok && is_own_file(session.data, false, e) && is_own_file(own->data, true, e);
    buf_free(&path);
    buf_free(&name);
    buf_free(&session);
    return ok;
}

/* ---- requests ---- */

void attached_attach(struct server *s, struct exchange *x)
{
    struct buf lines = {0};
    struct arena mem = {0};
    struct text name;
    struct err e = {{0}};
    attached_add_protocol(&lines);
    attached_add_state(s, &lines);
    if (attached_read_hello(exchange_body(x), &name, &mem, &e))
        add(&s->attached, x, name, &lines);
    else
        exchange_error(x, 400, e.msg);
    buf_free(&lines);
    arena_free(&mem);
}

typedef void file_fn(struct responder *r, uint64_t conversation, const char *path);

/* Saves or restores the checkpoint of a conversation, or names it.  may_be_none: an empty path means no file. */
static bool use_file(struct server *s, struct exchange *x, struct outcome *to, file_fn *use, bool may_be_none)
{
    struct pyjson top;
    struct text name;
    uint64_t conversation = 0;
    if (!question_object(&top, exchange_body(x), &to->mem, &to->e) || !attached_read_name(&top, &name, &to->e) ||
        !read_conversation(&top, &conversation, &to->mem, &to->e))
        return false;
    const struct pyjson *path = pyjson_get(&top, "path");
    if (!path || path->kind != PY_STR)
        return err_set(&to->e, "path is missing: the file of a checkpoint");
    struct buf own = {0};
    bool ok = (may_be_none && !path->text.n) || attached_checkpoint(path->text, &own, &to->e);
    if (ok && !claim(&s->attached, name, conversation))
        ok = err_set(&to->e, "no q35chat of that name is attached");
    if (ok)
        use(s->r, conversation, own.len ? own.data : NULL);
    buf_free(&own);
    return ok;
}

bool attached_save(struct server *s, struct exchange *x, struct outcome *to)
{
    return use_file(s, x, to, s->r->ops->save, false);
}

bool attached_restore(struct server *s, struct exchange *x, struct outcome *to)
{
    return use_file(s, x, to, s->r->ops->restore, false);
}

bool attached_keep(struct server *s, struct exchange *x, struct outcome *to)
{
    return use_file(s, x, to, s->r->ops->keep, true);
}

/* Returns the answer of that name, whether it is under way or waits; NULL: it is over. */
static struct job *find_job(struct server *s, struct text name)
{
    for (int i = 0; i < s->n_lanes; i++) {
        const struct lane *l = &s->lanes[i];
        if (l->now && !l->now_over && text_same(l->now->question.name, name))
            return l->now;
    }
    const struct queue *queues[] = {&s->waiting, &s->unread};
    for (int i = 0; i < 2; i++)
        for (struct job *j = queues[i]->first; j; j = j->next)
            if (text_same(j->question.name, name))
                return j;
    return NULL;
}

/* Interrupts an answer: its stream ends with the tokens that it has. */
bool attached_interrupt(struct server *s, struct exchange *x, struct outcome *to)
{
    struct pyjson top;
    struct text name;
    if (!question_object(&top, exchange_body(x), &to->mem, &to->e) || !attached_read_name(&top, &name, &to->e))
        return false;
    struct job *j = find_job(s, name);
    if (j && j->in)
        job_end_waiting(s, j);
    else if (j)
        lane_interrupt(lane_of(s, j));
    else
        readings_interrupt(&s->readings, name);
    return true;
}

/* Reads what a prompt will begin with.  Ignored while an answer is running, so it never delays one. */
bool attached_ahead(struct server *s, struct exchange *x, struct outcome *to)
{
    struct pyjson top;
    struct question q = {.request = {.plain = &q.ids}};
    if (!s->ready || s->held || lanes_running(s) || s->state != SERVER_RUNS)
        return true;
    const bool ok = question_object(&top, exchange_body(x), &q.mem, &to->e) && attached_read_prompt(&q, &top, &to->e);
    if (ok)
        s->r->ops->read_ahead(s->r, &q.request);
    question_free(&q);
    return ok;
}

bool attached_machine(struct server *s, struct exchange *x, struct outcome *to)
{
    struct machine_figures m = {0};
    (void)x;
    s->r->ops->machine(s->r, &m);
    buf_adds(&to->body, "{\"machine\": ");
    machine_figures_write(&m, &to->body);
    buf_adds(&to->body, "}\n");
    return true;
}
