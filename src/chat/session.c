#include "chat/session.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "chat/place.h"

enum { FORMAT = 1 };
#define MAX_FILE ((size_t)1 << 30)

struct session {
    int fd;
    char *path;
};

bool session_path_of(const char *name, struct buf *path, struct err *e)
{
    struct buf file = {0};
    bool ok = true;
    buf_reset(path);
    if (strchr(name, '/')) {
        buf_adds(path, name);
    } else if (!*name || *name == '.') {
        ok = err_set(e, "a session needs a name such as 'holiday', or a path with a slash in it");
    } else {
        buf_addf(&file, "sessions/%s.jsonl", name);
        ok = place_state(path, file.data, e);
    }
    buf_free(&file);
    return ok;
}

static struct session *session_of(int fd, const char *path)
{
    struct session *s = calloc(1, sizeof *s);
    CHECK(s);
    s->fd = fd;
    s->path = strdup(path);
    return s;
}

void session_close(struct session *s)
{
    if (!s)
        return;
    close(s->fd);
    free(s->path);
    free(s);
}

const char *session_path(const struct session *s)
{
    return s->path;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

/* Appends the record and a newline in one go, and waits for the disk.  Takes `record`. */
static bool put(struct session *s, json_t *record, struct err *e)
{
    char *text = json_dumps(record, JSON_COMPACT);
    json_decref(record);
    if (!text)
        return err_set(e, "%s: a message cannot be written as JSON", s->path);
    size_t n = strlen(text), done = 0;
    text[n++] = '\n';                   /* in place of the NUL */
    off_t before = lseek(s->fd, 0, SEEK_END);
    while (done < n) {
        ssize_t k = write(s->fd, text + done, n - done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            break;
        done += (size_t)k;
    }
    int why = errno;
    if (done < n && ftruncate(s->fd, before))
        why = errno;                    /* the torn line stays; reading drops it */
    free(text);
    if (done < n)
        return err_set(e, "cannot write %s: %s", s->path, strerror(why));
    if (fsync(s->fd) && errno != EINVAL)        /* EINVAL: a file that cannot be synced, such as a pipe */
        return err_set(e, "cannot write %s: %s", s->path, strerror(errno));
    return true;
}

static json_t *string(struct text t)
{
    json_t *s = json_stringn(t.p ? t.p : "", t.n);
    return s ? s : json_string("");
}

static json_t *record_of(const struct entry *m)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool", "other"};
    json_t *r = json_object();
    json_object_set_new(r, "role", json_string(roles[m->m.role]));
    if (m->m.role == ROLE_TOOL)
        json_object_set_new(r, "name", string(m->tool));
    if (m->m.reasoning.n)
        json_object_set_new(r, "reasoning", string(m->m.reasoning));
    json_object_set_new(r, "content", string(m->m.content));
    for (int i = 0; i < m->m.n_calls; i++) {
        json_t *calls = json_object_get(r, "calls");
        if (!calls)
            json_object_set_new(r, "calls", calls = json_array());
        json_t *call = json_object();
        json_object_set_new(call, "name", string(m->m.calls[i].name));
        json_object_set_new(call, "arguments", string(m->m.calls[i].arguments));
        json_array_append_new(calls, call);
    }
    for (int i = 0; i < m->ids.n; i++) {
        json_t *ids = json_object_get(r, "ids");
        if (!ids)
            json_object_set_new(r, "ids", ids = json_array());
        json_array_append_new(ids, json_integer(m->ids.data[i]));
    }
    if (m->stopped)
        json_object_set_new(r, "stopped", json_true());
    return r;
}

bool session_append(struct session *s, const struct entry *m, struct err *e)
{
    return put(s, record_of(m), e);
}

bool session_system(struct session *s, const char *text, struct err *e)
{
    json_t *r = json_object();
    json_object_set_new(r, "role", json_string("system"));
    json_object_set_new(r, "content", string((struct text){text, strlen(text)}));
    return put(s, r, e);
}

bool session_keep(struct session *s, int n, struct err *e)
{
    json_t *r = json_object();
    json_object_set_new(r, "keep", json_integer(n));
    return put(s, r, e);
}

/* A name that sorts by time; the process id keeps two programs apart. */
static void fresh_name(char *name, size_t size)
{
    time_t now = time(NULL);
    struct tm tm;
    char date[32];
    localtime_r(&now, &tm);
    strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", &tm);
    snprintf(name, size, "%s-%d", date, (int)getpid());
}

static bool put_header(struct session *s, const char *model, struct err *e)
{
    char date[32];
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &tm);
    json_t *r = json_object();
    json_object_set_new(r, "q35chat", json_integer(FORMAT));
    json_object_set_new(r, "created", json_string(date));
    json_object_set_new(r, "model", string((struct text){model, strlen(model)}));
    return put(s, r, e);
}

struct session *session_create(const char *name, const char *model, struct err *e)
{
    struct buf path = {0};
    struct session *s = NULL;
    char base[64], fresh[80];
    fresh_name(base, sizeof base);
    int fd = -1;
    for (int i = 0; i < 100 && fd < 0; i++) {           /* two conversations within one second */
        snprintf(fresh, sizeof fresh, i ? "%s-%d" : "%s", base, i);
        if (!session_path_of(name ? name : fresh, &path, e))
            goto out;
        fd = open(path.data, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && (errno != EEXIST || name))
            break;
    }
    if (fd < 0) {
        err_set(e, "cannot make %s: %s", path.data, errno == EEXIST ? "it exists already, choose another name" : strerror(errno));
        goto out;
    }
    flock(fd, LOCK_EX | LOCK_NB);
    s = session_of(fd, path.data);
    if (!put_header(s, model, e)) {
        unlink(path.data);
        session_close(s);
        s = NULL;
    }
out:
    buf_free(&path);
    return s;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static struct text field(const json_t *object, const char *key)
{
    const json_t *s = json_object_get(object, key);
    return (struct text){json_is_string(s) ? json_string_value(s) : "", json_is_string(s) ? json_string_length(s) : 0};
}

static bool read_message(const json_t *r, enum role role, struct transcript *t)
{
    struct text content = field(r, "content"), reasoning = field(r, "reasoning");
    const json_t *calls = json_object_get(r, "calls"), *ids = json_object_get(r, "ids"), *item;
    size_t i;
    if (!json_is_string(json_object_get(r, "content")))
        return false;
    struct entry *m = transcript_add(t, role, content.p, content.n);
    if (role == ROLE_ASSISTANT)
        entry_reasoning(m, reasoning.p, reasoning.n);
    if (role == ROLE_TOOL)
        entry_tool(m, field(r, "name").p);
    json_array_foreach(calls, i, item) {
        struct text arguments = field(item, "arguments");
        entry_call(m, field(item, "name").p, arguments.p, arguments.n);
    }
    json_array_foreach(ids, i, item) {
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id > INT32_MAX)
            return false;
        ids_add(&m->ids, (int32_t)id);
    }
    m->stopped = json_is_true(json_object_get(r, "stopped"));
    return true;
}

/* A kind of record that a later version may add is skipped. */
static bool read_record(const json_t *r, struct transcript *t)
{
    const json_t *keep = json_object_get(r, "keep");
    const char *role = field(r, "role").p;
    if (!json_is_object(r))
        return false;
    if (keep) {
        json_int_t n = json_integer_value(keep);
        if (!json_is_integer(keep) || n < 0 || n > t->n)
            return false;
        transcript_cut(t, (int)n);
        return true;
    }
    if (!strcmp(role, "system")) {
        transcript_system(t, field(r, "content").p);
        return true;
    }
    if (!strcmp(role, "user"))
        return read_message(r, ROLE_USER, t);
    if (!strcmp(role, "assistant"))
        return read_message(r, ROLE_ASSISTANT, t);
    if (!strcmp(role, "tool"))
        return read_message(r, ROLE_TOOL, t);
    return true;
}

static bool read_header(const json_t *r, const char *path, struct err *e)
{
    const json_t *v = json_object_get(r, "q35chat");
    if (!json_is_integer(v))
        return err_set(e, "%s is not a q35chat conversation: the first line has no \"q35chat\": %d", path, FORMAT);
    if (json_integer_value(v) != FORMAT)
        return err_set(e, "%s has format %d, this program reads %d", path, (int)json_integer_value(v), FORMAT);
    return true;
}

/* The length of the good part goes to *good. */
static bool read_all(const struct buf *text, const char *path, struct transcript *t, size_t *good, struct err *e)
{
    int line = 1;
    *good = 0;
    for (size_t at = 0; at < text->len; line++) {
        const char *end = memchr(text->data + at, '\n', text->len - at);
        size_t n = end ? (size_t)(end - (text->data + at)) : text->len - at;
        json_t *r = json_loadb(text->data + at, n, JSON_ALLOW_NUL, NULL);
        bool last = at + n + 1 >= text->len;
        bool ok = r && end;
        if (ok && line == 1 && !read_header(r, path, e)) {
            json_decref(r);
            return false;
        }
        ok = ok && (line == 1 || read_record(r, t));
        json_decref(r);
        if (!ok && line == 1)
            return err_set(e, "%s is not a q35chat conversation: the first line is not JSON", path);
        if (!ok && !last)
            return err_set(e, "%s:%d: the line is damaged; the file was left as it is", path, line);
        if (!ok)
            return true;                /* torn at the end: written when the machine or the program went down */
        at += n + 1;
        *good = at;
    }
    return line > 1 || err_set(e, "%s is empty", path);
}

/* A message that was never answered, or calls that were, must not break the next prompt: nothing to mend here, the template
 * takes them. */
struct session *session_open(const char *name, struct transcript *t, struct buf *note, struct err *e)
{
    struct buf path = {0}, text = {0};
    struct session *s = NULL;
    size_t good;
    int fd = -1;
    if (!session_path_of(name, &path, e) || !buf_read_file(&text, path.data, MAX_FILE, e) || !read_all(&text, path.data, t, &good, e))
        goto out;
    fd = open(path.data, O_RDWR | O_APPEND | O_CLOEXEC);
    if (fd < 0) {
        err_set(e, "cannot write %s: %s", path.data, strerror(errno));
        goto out;
    }
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        err_set(e, "%s is in use by another q35chat", path.data);
        goto out;
    }
    if (good < text.len) {
        buf_addf(note, "the last line of %s was cut off and is dropped", path.data);
        if (ftruncate(fd, (off_t)good)) {
            err_set(e, "cannot write %s: %s", path.data, strerror(errno));
            goto out;
        }
    }
    s = session_of(fd, path.data);
    fd = -1;
out:
    if (fd >= 0)
        close(fd);
    if (!s)
        transcript_free(t);
    buf_free(&path);
    buf_free(&text);
    return s;
}
