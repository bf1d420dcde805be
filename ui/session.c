/* `q35chat session ...`: the conversations on disk, without a model. */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "session/export.h"
#include "session/file.h"
#include "session/list.h"
#include "session/trash.h"
#include "ui/args.h"
#include "ui/process.h"

/* --- list ------------------------------------------------------------------------------------------------------- */

/* Appends a JSON object on a line, as jq expects. */
static void add_json(const struct sessions_item *item, struct buf *out)
{
    json_t *j = json_object();
    json_object_set_new(j, "name", json_text_of(item->name));
    json_object_set_new(j, "title", json_text_of(item->title));
    json_object_set_new(j, "path", json_text_of(item->path));
    json_object_set_new(j, "model", json_text_of(item->model));
    json_object_set_new(j, "changed", json_integer((json_int_t)item->changed_s));
    json_object_set_new(j, "bytes", json_integer((json_int_t)item->bytes));
    json_object_set_new(j, "checkpoint_bytes", json_integer((json_int_t)item->checkpoint_bytes));
    json_object_set_new(j, "turns", json_integer(item->n_turns));
    if (item->hit)
        json_object_set_new(j, "hit", json_text_of(item->hit));
    json_print(out, j, JSON_COMPACT);
    json_decref(j);
    buf_addc(out, '\n');
}

static void add_name(const char *name, void *out)
{
    if (!strpbrk(name, "\n\r"))
        buf_addf(out, "%s\n", name);
}

/* Prints a name per line, for the completion of shells. */
static int names(bool in_trash)
{
    struct buf out = {0};
    sessions_names(in_trash, add_name, &out);
    int status = process_print(&out, isatty(1), EXIT_ANSWERED);
    buf_free(&out);
    return status;
}

int session_list(const struct args *a)
{
    if (args_on(a, "names"))
        return names(false);
    enum { NEWEST = 30 };               /* on a terminal the newest ones would have scrolled away */
    bool json = args_on(a, "json"), all = json || args_on(a, "all") || !isatty(1);
    struct buf find = {0}, out = {0};
    struct sessions s;
    struct err e = {0};
    for (int i = 0; i < a->n_words; i++)
        buf_addf(&find, "%s ", a->words[i]);
    int status = EXIT_ANSWERED;
    if (sessions_list(&s, buf_str(&find), &e)) {
        int n = all || s.n <= NEWEST ? s.n : NEWEST;
        for (int i = 0; i < n; i++)
            if (json)
                add_json(&s.items[i], &out);
            else
                sessions_line(&s.items[i], time(NULL), &out);
        if (n < s.n)
            buf_addf(&out, "... and %d older ones: --all lists them; words after the command search titles and texts\n", s.n - n);
        status = process_print(&out, !json || isatty(1), EXIT_ANSWERED);
        if (!s.n && !json)
            process_say(find.len ? "no saved conversation has all these words" : "no saved conversation yet");
    } else {
        status = process_fail(EXIT_FAILED, e.msg);
    }
    sessions_free(&s);
    buf_free(&find);
    buf_free(&out);
    return status;
}

/* --- show, export, rm, restore --------------------------------------------------------------------------------------------- */

/* Prints a conversation in a format, or writes it to a file with its pictures; returns the exit status. */
static int export(const char *name, const char *format, const char *file)
{
    struct transcript t = {0};
    struct buf out = {0}, note = {0};
    struct err e = {0};
    int status = EXIT_ANSWERED;
    if (!session_read(name, &t, &note, &e) || !export_transcript(&t, format, file, &out, &e) ||
        (file && (!export_write(file, &out, &e) || !export_pictures(file, &t, &e))))
        status = process_fail(EXIT_FAILED, e.msg);
    else if (!file)
        status = process_print(&out, isatty(1), EXIT_ANSWERED);
    if (note.len)
        process_say(note.data);
    transcript_free(&t);
    buf_free(&out);
    buf_free(&note);
    return status;
}

int session_show(const struct args *a)
{
    int status = export(a->words[0], "txt", NULL);
    size_t bytes = status == EXIT_ANSWERED ? sessions_checkpoint_bytes(a->words[0]) : 0;
    if (bytes)
        fprintf(stderr, "q35chat: checkpoint: %.1f MB on disk\n", (double)bytes * 1e-6);
    return status;
}

/* NAME [FORMAT] [FILE] */
int session_export(const struct args *a)
{
    struct err e = {0};
    const char *second = a->words[1], *third = a->words[2];
    const char *format = third ? second : NULL, *file = third ? third : second;
    if (second && !third && export_is_format(second)) {
        format = second;
        file = NULL;
    }
    if (!export_choose(&format, file, &e))
        return args_refuse(a, "%s", e.msg);
    return export(a->words[0], format, file);
}

/* Moves a conversation to the trash and appends where it is.  False with the reason. */
static bool discard(const char *word, struct buf *told, struct err *e)
{
    struct buf name = {0}, path = {0};
    buf_adds(&name, word);
    bool ok = trash_put(&name, &path, e);
    if (ok)
        buf_addf(told, "%s is in the trash for %d days: %s\n", word, TRASH_DAYS, path.data);
    buf_free(&name);
    buf_free(&path);
    return ok;
}

int session_rm(const struct args *a)
{
    int status = EXIT_ANSWERED;
    struct buf told = {0};
    trash_sweep(time(NULL));
    for (int i = 0; i < a->n_words; i++) {
        struct err e = {0};
        if (!(args_on(a, "force") ? sessions_delete(a->words[i], &e) : discard(a->words[i], &told, &e)))
            status = process_fail(EXIT_FAILED, e.msg);
    }
    int printed = process_print(&told, true, EXIT_ANSWERED);
    buf_free(&told);
    return status ? status : printed;
}

/* Prints the conversations in the trash; returns the exit status. */
static int list_trash(void)
{
    struct sessions s;
    struct buf out = {0};
    struct err e = {0};
    int status = EXIT_ANSWERED;
    if (sessions_list_trash(&s, &e)) {
        for (int i = 0; i < s.n; i++)
            sessions_line(&s.items[i], time(NULL), &out);
        status = process_print(&out, true, EXIT_ANSWERED);
        if (!s.n)
            process_say("the trash is empty");
    } else {
        status = process_fail(EXIT_FAILED, e.msg);
    }
    sessions_free(&s);
    buf_free(&out);
    return status;
}

int session_restore(const struct args *a)
{
    int status = EXIT_ANSWERED;
    if (args_on(a, "names"))
        return names(true);
    if (!a->n_words)
        return list_trash();
    for (int i = 0; i < a->n_words; i++) {
        struct err e = {0};
        if (trash_take(a->words[i], &e)) {
            struct buf line = {0};
            buf_addf(&line, "%s is restored", a->words[i]);
            process_say(line.data);
            buf_free(&line);
        } else {
            status = process_fail(EXIT_FAILED, e.msg);
        }
    }
    return status;
}
