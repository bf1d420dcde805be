#include "chat/files.h"

#include <string.h>

#include "chat/picture.h"
#include "chat/shelf.h"
#include "chat/state.h"

enum pdf_as files_pdf_as(const struct chat *c)
{
    const char *as = options_text(c->o, OPT_pdf);
    return !strcmp(as, "pictures") ? PDF_PICTURES : !strcmp(as, "text") ? PDF_TEXT : PDF_BOTH;
}

void files_gather(const struct chat *c, const char *text, size_t n, struct attached *files)
{
    *files = (struct attached){.pdf = files_pdf_as(c), .shelf = c->draft.shelf, .take = shelf_take, .what = ATTACH_PICTURES};
    if (c->draft.shelf)
        attach_read(files, text, n, true, NULL);
}

/* Starts the thread when the first file is named. */
static bool has_shelf(struct chat *c)
{
    if (!c->draft.shelf && c->front.screen && c->front.attaches)
        c->draft.shelf = shelf_open();
    return c->draft.shelf;
}

bool files_shown(struct chat *c, const char *text, size_t n, struct attached *files)
{
    enum { MOST = 4 };
    static const char *const types[] = {"image/png: ", "image/jpeg: ", "image/webp: ", "image/gif: "};
    *files = (struct attached){.pdf = PDF_PICTURES, .shelf = has_shelf(c) ? c->draft.shelf : NULL, .take = shelf_take};
    struct buf path = {0};
    int n_shown = 0;
    for (const char *end = text + n; text < end && n_shown < MOST; text++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const struct text line = text_trim((struct text){text, (size_t)((newline ? newline : end) - text)});
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            const size_t skip = strlen(types[i]);
            if (!text_starts(line, types[i]) || memchr(line.p, 0, line.n))
                continue;
            buf_reset(&path);
            buf_add(&path, line.p + skip, line.n - skip);
            if (path.len && picture_is(path.data))
                attach_add(files, path.data, NULL);
            n_shown++;
        }
        text += line.n && newline ? (size_t)(newline - text) : newline ? 0 : (size_t)(end - text - 1);
    }
    buf_free(&path);
    return !files->awaits;
}

bool chat_awaits_files(struct chat *c, const char *text, size_t n)
{
    struct attached files;
    if (!memchr(text, '@', n) || !has_shelf(c))
        return false;
    files_gather(c, text, n, &files);
    const bool awaits = files.awaits;
    attach_free(&files);
    shelf_trim(c->draft.shelf);
    return awaits;
}

bool files_seen(const struct chat *c, const struct attached *files, struct err *e)
{
    for (int i = 0; i < files->n && state_ready(c) && !c->responder->can.pictures; i++)
        if (files->files[i].picture)
            return err_set(e, "%s: it cannot see %s%s", model_info_blind(c->responder->ops->info(c->responder)),
                           files->files[i].path.p, strstr(files->files[i].path.p, ".pdf:") ? "; --pdf text sends the text alone" : "");
    return true;
}

bool chat_attach(struct chat *c, const char *path, struct err *e)
{
    c->draft.attached.pdf = files_pdf_as(c);
    return attach_add(&c->draft.attached, path, e);
}

bool files_named(const char *question)
{
    struct attached files = {.what = ATTACH_NAMES};
    bool some = attach_read(&files, question, strlen(question), true, NULL) && files.n;
    attach_free(&files);
    return some;
}
