#include "ui/tui/unsent.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64 << 20 };

static void path_of(const char *session, struct buf *path)
{
    buf_addf(path, "%s.unsent", session);
}

bool unsent_save(const char *session, const char *draft, const struct queue *q, bool synced)
{
    struct buf path = {0};
    bool ok = true;
    path_of(session, &path);
    if (*draft || q->n) {
        json_t *queue = json_array(), *all = json_pack("{s:s, s:o}", "draft", draft, "queue", queue);
        for (int i = 0; i < q->n; i++)
            json_array_append_new(queue, json_string(q->texts[i]));
        char *text = json_dumps(all, JSON_COMPACT);
        ok = text && (synced ? buf_replace_file : buf_replace_file_unsynced)(path.data, text, strlen(text));
        free(text);
        json_decref(all);
    } else {
        unlink(path.data);
    }
    buf_free(&path);
    return ok;
}

void unsent_load(const char *session, struct buf *draft, struct queue *q)
{
    struct buf path = {0}, text = {0};
    json_error_t ignored;
    json_t *all = NULL, *one;
    size_t i;
    path_of(session, &path);
    if (buf_read_file(&text, path.data, MOST, NULL))
        all = json_loadb(buf_str(&text), text.len, 0, &ignored);
    const char *was = json_string_value(json_object_get(all, "draft"));
    if (was)
        buf_adds(draft, was);
    json_array_foreach(json_object_get(all, "queue"), i, one)
        if (json_is_string(one))
            queue_push(q, json_string_value(one));
    json_decref(all);
    buf_free(&path);
    buf_free(&text);
}
