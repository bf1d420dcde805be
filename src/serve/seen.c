#include "serve/seen.h"

#include <string.h>

#include "base/base64.h"
#include "image/image.h"
#include "responder/responder.h"

static struct text text_at(const struct pyjson *from, const char *key)
{
    const struct pyjson *v = pyjson_given(from, key);
    return v && v->kind == PY_STR ? v->text : (struct text){0};
}

/* Returns the address of a part; empty: it has none of a known form. */
static struct text address_of(const struct pyjson *part)
{
    static const char *const keys[] = {"image_url", "image", "url"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct pyjson *v = pyjson_given(part, keys[i]);
        if (v && v->kind == PY_STR)
            return v->text;
        if (v && v->kind == PY_DICT)
            return text_at(v, "url");
    }
    return (struct text){0};
}

/* Returns the base64 text of a part; empty with the reason. */
static struct text base64_of(const struct pyjson *part, struct err *e)
{
    static const char marker[] = ";base64,";
    if (part->kind == PY_STR)
        return part->text;
    const struct text data = text_at(pyjson_given(part, "source"), "data"), address = address_of(part);
    const char *begin = text_starts(address, "data:") ? text_find(address, marker) : NULL;
    if (data.n)
        return data;
    if (begin)
        return (struct text){begin + strlen(marker), (size_t)(address.p + address.n - begin) - strlen(marker)};
    if (text_starts(address, "http://") || text_starts(address, "https://"))
        err_set(e, "by address: it fetches nothing from the network; send data:image/png;base64,...");
    else
        err_set(e, "of this form, expected {\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/png;base64,...\"}}");
    return (struct text){0};
}

bool seen_read(const struct pyjson *part, struct media *to, struct arena *mem, struct err *e)
{
    const struct text text = base64_of(part, e);
    struct buf file = {0};
    if (!text.n)
        return *e->msg ? false : err_set(e, "without data");
    if (text.n / 4 * 3 > IMAGE_MAX_BYTES)
        return err_set(e, "of more than %d MiB", IMAGE_MAX_BYTES >> 20);
    const bool ok = base64_read(&file, text) || err_set(e, "like this: its data is not base64");
    if (ok)
        to->bytes = (struct text){arena_strndup(mem, file.data, file.len), file.len};
    buf_free(&file);
    return ok;
}

/* Decodes a picture for its sides.  False with the reason. */
static bool look_at(struct media *m, struct look *l, struct err *e)
{
    const struct image_wish wish = {&l->unwanted, l->client};
    struct err why = {{0}};
    bool ok;
    if (l->r && l->r->ops->look) {
        ok = l->r->ops->look(l->r, m, &wish, &why);
    } else {
        struct image im;
        ok = image_decode(&im, m->bytes.p, m->bytes.n, "it", &wish, &why);
        m->w = im.w;
        m->h = im.h;
        image_free(&im);
    }
    return ok || err_set(e, "%.*s: this server does not support image input like this: %s", (int)m->name.n, m->name.p, why.msg);
}

bool seen_look(const struct message *messages, int n, struct look *l, struct err *e)
{
    bool begun = false;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < messages[i].n_media; k++) {
            l->later = !l->begins;
            if (l->later)
                return err_set(e, "the pictures were not looked at");
            if (!begun)
                l->begins(l->arg);
            begun = true;
            if (!look_at((struct media *)&messages[i].pictures[k], l, e))
                return false;
        }
    return true;
}
