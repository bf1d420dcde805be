#include "ui/session.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/unicode.h"
#include "chat/export.h"
#include "chat/session.h"
#include "chat/sessions.h"
#include "ui/exits.h"

static int refused(const struct err *e)
{
    struct buf safe = {0};
    unicode_safe(&safe, e->msg, strlen(e->msg));
    fprintf(stderr, "q35chat: %s\n", buf_str(&safe));
    buf_free(&safe);
    return EXIT_FAILED;
}

/* What stands in files takes no orders from them to a terminal; a pipe gets it as it is. */
static int print(const struct buf *text, bool always_safe)
{
    struct buf safe = {0};
    struct err e = {0};
    bool made_safe = always_safe || isatty(1);
    if (made_safe)
        unicode_safe(&safe, buf_str(text), text->len);
    else
        buf_add(&safe, buf_str(text), text->len);
    fwrite(buf_str(&safe), 1, safe.len, stdout);
    buf_free(&safe);
    if (!fflush(stdout) && !ferror(stdout))
        return EXIT_ANSWERED;
    err_set(&e, "cannot write: %s", strerror(errno));
    return refused(&e);
}

/* --- list ------------------------------------------------------------------------------------------------------- */

static json_t *text_json(const char *s)
{
    struct buf valid = {0};
    unicode_replace(&valid, s, strlen(s));      /* file names can hold any bytes */
    json_t *j = json_stringn(buf_str(&valid), valid.len);
    buf_free(&valid);
    CHECK(j);
    return j;
}

/* A line each, as `jq` likes it. */
static void add_json(const struct sessions_item *item, struct buf *out)
{
    json_t *j = json_object();
    json_object_set_new(j, "name", text_json(item->name));
    json_object_set_new(j, "title", text_json(item->title));
    json_object_set_new(j, "path", text_json(item->path));
    json_object_set_new(j, "model", text_json(item->model));
    json_object_set_new(j, "changed", json_integer((json_int_t)item->changed_s));
    json_object_set_new(j, "bytes", json_integer((json_int_t)item->bytes));
    json_object_set_new(j, "turns", json_integer(item->n_turns));
    if (item->hit)
        json_object_set_new(j, "hit", text_json(item->hit));
    char *text = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    CHECK(text);
    buf_adds(out, text);
    buf_addc(out, '\n');
    free(text);
}

static void add_name(const char *name, void *out)
{
    if (!strpbrk(name, "\n\r"))
        buf_addf(out, "%s\n", name);
}

/* A line each, for the shells' completion. */
static int names(void)
{
    struct buf out = {0};
    sessions_names(add_name, &out);
    int status = print(&out, false);
    buf_free(&out);
    return status;
}

static int list(int n, char **args)
{
    if (n == 1 && !strcmp(args[0], "--names"))
        return names();
    bool json = n && !strcmp(args[0], "--json");
    struct buf find = {0}, out = {0};
    struct sessions s;
    struct err e = {0};
    for (int i = json; i < n; i++)
        buf_addf(&find, "%s ", args[i]);
    int status = EXIT_ANSWERED;
    if (sessions_list(&s, buf_str(&find), &e)) {
        for (int i = 0; i < s.n; i++)
            if (json)
                add_json(&s.items[i], &out);
            else
                sessions_line(&s.items[i], time(NULL), &out);
        status = print(&out, !json);
    } else {
        status = refused(&e);
    }
    sessions_free(&s);
    buf_free(&find);
    buf_free(&out);
    return status;
}

/* --- show, export, rm --------------------------------------------------------------------------------------------- */

static int export(const char *name, const char *format, const char *file)
{
    struct transcript t = {0};
    struct buf out = {0};
    struct err e = {0};
    int status = EXIT_ANSWERED;
    if (!session_read(name, &t, &e) || !export_transcript(&t, format, &out, &e) || (file && !export_write(file, &out, &e)))
        status = refused(&e);
    else if (!file)
        status = print(&out, false);
    transcript_free(&t);
    buf_free(&out);
    return status;
}

static bool is_format(const char *word)
{
    for (int i = 0; export_formats[i]; i++)
        if (!strcmp(word, export_formats[i]))
            return true;
    return false;
}

/* NAME [FORMAT] [FILE] */
static int export_words(int n, char **args)
{
    const char *format = n > 1 && is_format(args[1]) ? args[1] : NULL, *file = n > 1 + (format != NULL) ? args[1 + (format != NULL)] : NULL;
    if (!format)
        format = file && export_format_of(file) ? export_format_of(file) : "md";
    return export(args[0], format, file);
}

static int delete(int n, char **args)
{
    int status = EXIT_ANSWERED;
    for (int i = 0; i < n; i++) {
        struct err e = {0};
        if (!sessions_delete(args[i], &e))
            status = refused(&e);
    }
    return status;
}

/* --- which of them ------------------------------------------------------------------------------------------------- */

static const char *const commands[] = {"list", "show", "export", "rm", NULL};

bool session_is_command(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "session"))
        return false;
    for (int i = 0; argc > 2 && commands[i]; i++)
        if (!strcmp(argv[2], commands[i]))
            return true;
    return argc == 2;
}

static int usage(void)
{
    fputs("Usage: q35chat session list [--json] [WORDS...]        all, or those in which all words were said\n"
          "       q35chat session list --names                    the names alone\n"
          "       q35chat session show NAME                       what was said, as text\n"
          "       q35chat session export NAME [md|json|txt] [FILE]\n"
          "       q35chat session rm NAME...\n", stderr);
    return EXIT_USAGE;
}

int session_main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";
    int n = argc - 3;
    char **args = argv + 3;
    if (!strcmp(what, "list"))
        return list(n, args);
    if (!strcmp(what, "show") && n == 1)
        return export(args[0], "txt", NULL);
    if (!strcmp(what, "export") && n >= 1 && n <= 3)
        return export_words(n, args);
    if (!strcmp(what, "rm") && n >= 1)
        return delete(n, args);
    return usage();
}
