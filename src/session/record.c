#include "session/record.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"

enum { FORMAT = 1 };

/* --- writing ---------------------------------------------------------------------------------------------------- */

/* Appends the record as a line, and frees it. */
static void add_line(struct buf *out, json_t *record)
{
    char *text = memory_got(json_dumps(record, JSON_COMPACT));
    json_decref(record);
    buf_adds(out, text);
    buf_addc(out, '\n');
    free(text);
}

static json_t *string(struct text t)
{
    struct buf valid = {0};
    unicode_replace(&valid, t.p ? t.p : "", t.n);
    json_t *s = json_stringn(buf_str(&valid), valid.len);
    buf_free(&valid);
    CHECK(s);
    return s;
}

#define TIME_FORMAT "%Y-%m-%dT%H:%M:%SZ"

static void set_time(json_t *r, const char *key, int64_t time_s)
{
    char text[32];
    const time_t t = (time_t)time_s;
    struct tm tm;
    if (time_s > 0 && gmtime_r(&t, &tm) && strftime(text, sizeof text, TIME_FORMAT, &tm))
        json_object_set_new(r, key, json_string(text));
}

void record_header(struct buf *out, const char *model)
{
    json_t *r = json_object();
    json_object_set_new(r, "q35chat", json_integer(FORMAT));
    set_time(r, "created", time(NULL));
    json_object_set_new(r, "model", string(text_of(model)));
    add_line(out, r);
}

bool record_header_model(struct buf *header, const char *model)
{
    json_t *r = json_loadb(buf_str(header), header->len, 0, NULL), *now = string(text_of(model));
    const bool changes = r && !json_equal(json_object_get(r, "model"), now);
    if (changes) {
        json_object_set(r, "model", now);
        buf_reset(header);
        add_line(header, r);
    } else {
        json_decref(r);
    }
    json_decref(now);
    return changes;
}

static void set_ids(json_t *r, const int32_t *ids, int n)
{
    json_t *list = n ? json_array() : NULL;
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer(ids[i]));
    if (list)
        json_object_set_new(r, "ids", list);
}

/* Appends an entry.  `key` and `place`, which is freed, give its place unless it follows the path; place NULL: it does. */
static void add_entry(struct buf *out, const struct entry *m, const char *key, json_t *place)
{
    static const char *const names[] = {"system", "user", "assistant", "tool", "other"};
    json_t *r = json_object();
    json_object_set_new(r, "role", json_string(names[m->m.role]));
    if (place)
        json_object_set_new(r, key, place);
    if (m->m.role == ROLE_TOOL)
        json_object_set_new(r, "name", string(m->tool));
    set_time(r, "time", m->time_s);
    if (m->m.call_id.n)
        json_object_set_new(r, "call", string(m->m.call_id));
    if (m->m.reasoning.n)
        json_object_set_new(r, "reasoning", string(m->m.reasoning));
    json_object_set_new(r, "content", string(m->m.content));
    for (int i = 0; i < m->m.n_calls; i++) {
        json_t *calls = json_object_get(r, "calls");
        if (!calls)
            json_object_set_new(r, "calls", calls = json_array());
        json_t *call = json_object();
        if (m->m.calls[i].id.n)
            json_object_set_new(call, "id", string(m->m.calls[i].id));
        json_object_set_new(call, "name", string(m->m.calls[i].name));
        json_object_set_new(call, "arguments", string(m->m.calls[i].arguments));
        json_array_append_new(calls, call);
    }
    for (int i = 0; i < m->n_files; i++) {
        json_t *files = json_object_get(r, "files");
        if (!files)
            json_object_set_new(r, "files", files = json_array());
        json_t *file = json_object();
        json_object_set_new(file, "path", string(m->files[i].path));
        json_object_set_new(file, "bytes", json_integer((json_int_t)m->files[i].bytes));
        const struct entry_picture *picture = m->files[i].picture;
        if (picture) {
            json_object_set_new(file, "picture", string(picture->kept));
            json_object_set_new(file, "width", json_integer(picture->w));
            json_object_set_new(file, "height", json_integer(picture->h));
        } else
            json_object_set_new(file, "text", string(m->files[i].text));
        json_array_append_new(files, file);
    }
    set_ids(r, m->ids.data, m->ids.n);
    if (m->stopped)
        json_object_set_new(r, "stopped", json_true());
    if (m->cut)
        json_object_set_new(r, "cut", json_true());
    if (m->summary)
        json_object_set_new(r, "summary", json_true());
    add_line(out, r);
}

void record_entry(struct buf *out, const struct entry *m)
{
    add_entry(out, m, NULL, NULL);
}

/* Writes one line, since a crash may separate two. */
void record_instead(struct buf *out, const struct entry *m)
{
    add_entry(out, m, "instead", json_true());
}

void record_beside(struct buf *out, const struct entry *m)
{
    add_entry(out, m, "after", json_integer(m->depth));
}

void record_part(struct buf *out, const struct answer_part *p)
{
    json_t *r = json_pack("{s:[I, I, i]}", "answering", (json_int_t)p->reasoning_at, (json_int_t)p->content_at, p->ids_at);
    CHECK(r);
    set_time(r, "time", p->time_s);
    if (p->reasoning.n)
        json_object_set_new(r, "reasoning", string(p->reasoning));
    if (p->content.n)
        json_object_set_new(r, "content", string(p->content));
    set_ids(r, p->ids, p->n_ids);
    add_line(out, r);
}

void record_system(struct buf *out, const char *text)
{
    json_t *r = json_object();
    json_object_set_new(r, "role", json_string("system"));
    json_object_set_new(r, "content", string(text_of(text)));
    add_line(out, r);
}

void record_form(struct buf *out, const char *text)
{
    json_t *r = json_object();
    json_object_set_new(r, "form", string(text_of(text)));
    add_line(out, r);
}

void record_title(struct buf *out, const char *text)
{
    json_t *r = json_object();
    json_object_set_new(r, "title", string(text_of(text)));
    add_line(out, r);
}

void record_keep(struct buf *out, int n)
{
    buf_addf(out, "{\"keep\":%d}\n", n);
}

void record_forget(struct buf *out, int n)
{
    buf_addf(out, "{\"keep\":%d,\"forget\":true}\n", n);
}

void record_go(struct buf *out, int number)
{
    buf_addf(out, "{\"go\":%d}\n", number);
}

static const char *const mark_names[] = {[ENTRY_PLAIN] = "", [ENTRY_DROPPED] = "dropped", [ENTRY_PINNED] = "pinned"};

void record_mark(struct buf *out, const struct entry *m, int file)
{
    enum mark mark = file < 0 ? m->mark : m->files[file].dropped ? ENTRY_DROPPED : ENTRY_PLAIN;
    buf_addf(out, "{\"mark\":%d,", m->number);
    if (file >= 0)
        buf_addf(out, "\"file\":%d,", file);
    buf_addf(out, "\"as\":\"%s\"}\n", mark_names[mark]);
}

/* Appends the marks of a message and its files. */
static void add_marks(struct buf *out, const struct entry *m)
{
    if (m->mark)
        record_mark(out, m, -1);
    for (int i = 0; i < m->n_files; i++)
        if (m->files[i].dropped)
            record_mark(out, m, i);
}

/* The state that reading the lines written so far would give. */
struct replay {
    const struct transcript *t;
    struct buf *out;
    const struct entry  *end;           /* the end of the path */
    const struct entry **shown;         /* [n_all + 1] the child shown below entry i; the root at n_all */
};

static const struct entry **shown_below(struct replay *r, const struct entry *m)
{
    return &r->shown[m ? m->number : r->t->n_all];
}

/* Appends a move of the end of the path, unless it is there already. */
static void move_end(struct replay *r, const struct entry *end)
{
    if (r->end == end)
        return;
    if (end)
        record_go(r->out, end->number);
    else
        record_keep(r->out, 0);
    r->end = end;
    for (const struct entry *m = end; m; m = m->parent)
        *shown_below(r, m->parent) = m;
}

/* Writes the entries in their order, then the paths that were shown last, the deepest first, since each move changes what is shown above it. */
void record_transcript(struct buf *out, const struct transcript *t)
{
    struct replay r = {.t = t, .out = out, .shown = memory_zeroed((size_t)t->n_all + 1, sizeof *r.shown)};
    if (t->system)
        record_system(out, t->system);
    if (t->form)
        record_form(out, t->form);
    if (t->named)
        record_title(out, t->title ? t->title : "");
    for (int i = 0; i < t->n_all; i++) {
        move_end(&r, t->all[i]->parent);
        record_entry(out, t->all[i]);
        add_marks(out, t->all[i]);
        r.end = *shown_below(&r, r.end) = t->all[i];
    }
    for (int i = t->n_all - 1; i >= 0; i--)
        if (*shown_below(&r, t->all[i]) != t->all[i]->shown)
            move_end(&r, t->all[i]->shown);
    if (*shown_below(&r, NULL) != t->shown)
        move_end(&r, t->shown);
    move_end(&r, t->n ? t->entries[t->n - 1] : NULL);
    free(r.shown);
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static struct text field(const json_t *object, const char *key)
{
    const json_t *s = json_object_get(object, key);
    return (struct text){json_is_string(s) ? json_string_value(s) : "", json_is_string(s) ? json_string_length(s) : 0};
}

/* Returns the time of the line, as set_time() writes it; 0: the line has no time. */
static int64_t read_time(const json_t *r)
{
    struct tm tm = {0};
    const char *end = strptime(field(r, "time").p, TIME_FORMAT, &tm);
    const int64_t time_s = end && !*end ? (int64_t)timegm(&tm) : 0;
    return time_s > 0 ? time_s : 0;
}

/* Reads all ids, or none if one is wrong: ids are optional, the text is not. */
static bool read_ids(const json_t *list, struct ids *ids)
{
    const json_t *item;
    size_t i;
    int before = ids->n;
    json_array_foreach(list, i, item) {
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id > INT32_MAX) {
            ids->n = before;
            return false;
        }
        ids_add(ids, (int32_t)id);
    }
    return true;
}

/* Reads a whole number below `end`; false for anything else. */
static bool number(const json_t *j, int end, int *out)
{
    json_int_t v = json_integer_value(j);
    *out = (int)v;
    return json_is_integer(j) && v >= 0 && v < end;
}

/* Moves the end of the path to the place of the message. */
static bool make_place(const json_t *r, enum role role, struct transcript *t)
{
    const json_t *after = json_object_get(r, "after");
    struct entry *newest = t->n_all ? t->all[t->n_all - 1] : NULL;
    int n;
    if (json_is_true(json_object_get(r, "instead"))) {
        if (!newest || role != ROLE_ASSISTANT || newest->m.role != role)
            return false;
        transcript_go(t, newest);
        transcript_forget(t);
    }
    if (after && !number(after, t->n + 1, &n))
        return false;
    if (after)
        transcript_cut(t, n);
    return true;
}

/* Reads the record of a message and appends its entry.  False if the record is damaged. */
static bool read_message(const json_t *r, enum role role, struct transcript *t)
{
    struct text content = field(r, "content"), reasoning = field(r, "reasoning");
    const json_t *item;
    size_t i;
    if (!json_is_string(json_object_get(r, "content")) || !make_place(r, role, t))
        return false;
    struct entry *m = transcript_add(t, role, content.p, content.n);
    read_ids(json_object_get(r, "ids"), &m->ids);
    m->time_s = read_time(r);
    m->stopped = json_is_true(json_object_get(r, "stopped"));
    m->cut = json_is_true(json_object_get(r, "cut"));
    m->summary = role == ROLE_USER && json_is_true(json_object_get(r, "summary"));
    if (role == ROLE_ASSISTANT)
        entry_reasoning(m, reasoning.p, reasoning.n);
    if (role == ROLE_TOOL)
        entry_tool(m, field(r, "name").p, field(r, "call").p);
    json_array_foreach(json_object_get(r, "calls"), i, item) {
        struct text arguments = field(item, "arguments");
        entry_call(m, field(item, "id").p, field(item, "name").p, arguments.p, arguments.n);
    }
    json_array_foreach(json_object_get(r, "files"), i, item) {
        const json_int_t bytes = json_integer_value(json_object_get(item, "bytes"));
        struct entry_picture picture = {.kept = field(item, "picture")};
        const struct entry_file f = {.path = field(item, "path"), .bytes = bytes > 0 ? (size_t)bytes : 0, .text = field(item, "text"),
                                     .picture = picture.kept.n ? &picture : NULL};
        if (!number(json_object_get(item, "width"), INT_MAX, &picture.w) || !number(json_object_get(item, "height"), INT_MAX, &picture.h))
            picture.w = picture.h = 0;
        entry_attach(m, &f);
    }
    return true;
}

/* Cuts the transcript to the number of entries that the record has, or forgets the last entry.  False if the record is damaged. */
static bool read_keep(const json_t *r, struct transcript *t)
{
    int n;
    if (!number(json_object_get(r, "keep"), t->n + 1, &n))
        return false;
    if (!json_is_true(json_object_get(r, "forget"))) {
        transcript_cut(t, n);
        return true;
    }
    if (n != t->n - 1 || !transcript_can_forget(t))
        return false;
    transcript_forget(t);
    return true;
}

/* Goes to another end of the tree of entries.  False if the record is damaged. */
static bool read_go(const json_t *r, struct transcript *t)
{
    int k;
    if (!number(json_object_get(r, "go"), t->n_all, &k))
        return false;
    transcript_go(t, t->all[k]);
    return true;
}

/* Reads the mark of an entry or of one of its files.  False if the record is damaged. */
static bool read_mark(const json_t *r, struct transcript *t)
{
    const json_t *file = json_object_get(r, "file");
    const char *as = field(r, "as").p;
    int k, i = -1;
    if (!number(json_object_get(r, "mark"), t->n_all, &k) || (file && !number(file, t->all[k]->n_files, &i)))
        return false;
    for (int m = 0; m < (int)(sizeof mark_names / sizeof *mark_names); m++)
        if (!strcmp(as, mark_names[m])) {
            entry_mark(t->all[k], i, (enum mark)m);
            return true;
        }
    return false;
}

static void reset(struct unfinished *u)
{
    u->any = u->no_ids = false;
    buf_reset(&u->reasoning);
    buf_reset(&u->content);
    u->ids.n = 0;
}

void unfinished_free(struct unfinished *u)
{
    buf_free(&u->reasoning);
    buf_free(&u->content);
    ids_free(&u->ids);
    *u = (struct unfinished){0};
}

/* Returns the stopped answer at the end of the path, which the answer under way continues; NULL: it is a new answer. */
static struct entry *stopped_answer(const struct transcript *t)
{
    struct entry *last = t->n ? t->entries[t->n - 1] : NULL;
    return last && last->m.role == ROLE_ASSISTANT && last->stopped ? last : NULL;
}

/* Cuts the text to the length `at`, and appends to it. */
static bool add_at(struct buf *b, const json_t *at, struct text more)
{
    int n;
    if (!number(at, b->len < INT_MAX ? (int)b->len + 1 : INT_MAX, &n))
        return false;
    b->len = (size_t)n;
    buf_add(b, more.p, more.n);
    return true;
}

/* Takes the next part of an answer that was saved while it was written.  False if the record is damaged. */
static bool read_part(const json_t *r, const struct transcript *t, struct unfinished *u)
{
    const json_t *at = json_object_get(r, "answering");
    const struct entry *before = u->any ? NULL : stopped_answer(t);
    int n_ids;
    if (before) {
        buf_add(&u->reasoning, before->m.reasoning.p, before->m.reasoning.n);
        buf_add(&u->content, before->m.content.p, before->m.content.n);
        ids_append(&u->ids, before->ids.data, before->ids.n);
    }
    u->any = true;
    u->time_s = read_time(r);
    if (!add_at(&u->reasoning, json_array_get(at, 0), field(r, "reasoning")) || !add_at(&u->content, json_array_get(at, 1), field(r, "content")))
        return false;
    u->no_ids = u->no_ids || !number(json_array_get(at, 2), u->ids.n + 1, &n_ids);
    if (!u->no_ids) {
        u->ids.n = n_ids;
        u->no_ids = !read_ids(json_object_get(r, "ids"), &u->ids);
    }
    return true;
}

bool record_finish(struct transcript *t, struct unfinished *u, struct buf *out)
{
    const struct entry *before = stopped_answer(t);
    if (!u->any || !(u->reasoning.len || u->content.len))
        return false;
    bool instead = before && transcript_can_forget(t);
    if (instead)
        transcript_forget(t);
    else if (before)
        transcript_cut(t, before->depth);
    struct entry *m = transcript_add(t, ROLE_ASSISTANT, buf_str(&u->content), u->content.len);
    entry_reasoning(m, buf_str(&u->reasoning), u->reasoning.len);
    if (!u->no_ids)
        ids_append(&m->ids, u->ids.data, u->ids.n);
    m->time_s = u->time_s;
    m->stopped = m->cut = true;
    (instead ? record_instead : before ? record_beside : record_entry)(out, m);
    return true;
}

static const struct { const char *name; enum role role; } roles[] = {
    {"user", ROLE_USER}, {"assistant", ROLE_ASSISTANT}, {"tool", ROLE_TOOL},
};
enum { N_ROLES = sizeof roles / sizeof *roles };

/* Applies a record to the transcript; returns its kind. */
static enum record_kind read_object(const json_t *r, struct transcript *t, struct unfinished *u)
{
    const char *role = field(r, "role").p;
    if (json_object_get(r, "answering"))
        return read_part(r, t, u) ? RECORD_PART : RECORD_DAMAGED;
    if (json_object_get(r, "keep"))
        return read_keep(r, t) ? RECORD_MOVE : RECORD_DAMAGED;
    if (json_object_get(r, "go"))
        return read_go(r, t) ? RECORD_MOVE : RECORD_DAMAGED;
    if (json_object_get(r, "mark"))
        return read_mark(r, t) ? RECORD_OTHER : RECORD_DAMAGED;
    for (int i = 0; i < N_ROLES; i++)
        if (!strcmp(role, roles[i].name))
            return read_message(r, roles[i].role, t) ? RECORD_MOVE : RECORD_DAMAGED;
    if (json_is_string(json_object_get(r, "title")))
        transcript_title(t, field(r, "title").p);
    if (json_is_string(json_object_get(r, "form")))
        transcript_form(t, field(r, "form").p);
    if (!strcmp(role, "system"))
        transcript_system(t, field(r, "content").p);
    return RECORD_OTHER;
}

enum record_kind record_read(const char *line, size_t n, struct transcript *t, struct unfinished *u)
{
    json_t *r = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
    enum record_kind kind = json_is_object(r) ? read_object(r, t, u) : RECORD_DAMAGED;
    if (kind == RECORD_MOVE)
        reset(u);
    json_decref(r);
    return kind;
}

bool record_read_damaged(const char *line, size_t n, struct transcript *t, struct unfinished *u)
{
    static const char key[] = "\"role\"", text[] = "(a line of this conversation's file was damaged here)";
    const char *end = line + n, *p = line + (n && *line == '{');
    p += strspn(p, " \t");
    if ((size_t)(end - p) < sizeof key - 1 || memcmp(p, key, sizeof key - 1))
        return false;
    p += sizeof key - 1;
    p += strspn(p, " \t:\"");
    for (int i = 0; i < N_ROLES; i++)
        if (!strncmp(p, roles[i].name, strlen(roles[i].name))) {
            transcript_add(t, roles[i].role, text, strlen(text));
            reset(u);
            return true;
        }
    return false;
}

bool record_read_header(const char *line, size_t n, const char *path, struct err *e)
{
    json_t *r = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
    const json_t *v = json_object_get(r, "q35chat");
    json_int_t format = json_integer_value(v);
    bool json = r != NULL, has = json_is_integer(v);
    json_decref(r);
    if (!json)
        return err_set(e, "%s is not a q35chat conversation: the first line is not JSON", path);
    if (!has)
        return err_set(e, "%s is not a q35chat conversation: the first line has no \"q35chat\": %d", path, FORMAT);
    return format == FORMAT || err_set(e, "%s has format %d, this program reads %d", path, (int)format, FORMAT);
}
