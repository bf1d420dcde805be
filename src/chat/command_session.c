/* Commands about conversations on disk. */
#include <string.h>
#include <time.h>

#include "chat/commands.h"
#include "session/export.h"
#include "session/list.h"
#include "session/trash.h"

enum command_result command_new(struct typed *c)
{
    if (!chat_new(c->chat, &c->e))
        return command_refused(c);
    buf_adds(c->out, "a new conversation\n");
    return COMMAND_MOVED;
}

enum command_result command_save(struct typed *c)
{
    if (*c->arg && !chat_save(c->chat, c->arg, &c->e))
        return command_refused(c);
    const char *path = chat_saved_as(c->chat);
    if (!path)
        buf_adds(c->out, "not saved; /save NAME saves it\n");
    else
        buf_addf(c->out, chat_unsaved(c->chat) ? "saved in %s, except messages since the disk failed\n" : "saved in %s\n", path);
    return COMMAND_DONE;
}

enum command_result command_resume(struct typed *c)
{
    struct buf note = {0};
    if (!*c->arg)
        return COMMAND_SCREEN;
    bool ok = chat_load(c->chat, c->arg, &note, &c->e);
    if (note.len)
        buf_addf(c->out, "%s\n", note.data);
    buf_free(&note);
    if (!ok)
        return command_refused(c);
    buf_addf(c->out, "%d messages in %s\n", chat_n_messages(c->chat), chat_saved_as(c->chat));
    return COMMAND_MOVED;
}

enum command_result command_rename(struct typed *c)
{
    if (*c->arg && !chat_rename(c->chat, strcmp(c->arg, "\"\"") ? c->arg : "", &c->e))
        return command_refused(c);
    buf_addf(c->out, *chat_title(c->chat) ? "title: %s\n" : "no title yet%s\n", chat_title(c->chat));
    return COMMAND_DONE;
}

enum command_result command_delete(struct typed *c)
{
    if (!*c->arg)
        err_set(&c->e, "/delete needs the name of a conversation; /sessions lists them");
    if (!*c->arg || !chat_delete(c->chat, c->arg, c->out, &c->e))
        return command_refused(c);
    return COMMAND_DONE;
}

/* Lists the conversations in the trash. */
static enum command_result list_trash(struct typed *c)
{
    struct sessions s;
    bool ok = sessions_list_trash(&s, &c->e);
    for (int i = 0; i < s.n; i++)
        sessions_line(&s.items[i], time(NULL), c->out);
    if (ok && !s.n)
        buf_adds(c->out, "the trash is empty\n");
    sessions_free(&s);
    return ok ? COMMAND_DONE : command_refused(c);
}

enum command_result command_restore(struct typed *c)
{
    if (!*c->arg)
        return list_trash(c);
    if (!trash_take(c->arg, &c->e))
        return command_refused(c);
    buf_addf(c->out, "/resume %s continues it\n", c->arg);
    return COMMAND_DONE;
}

/* --- lists ------------------------------------------------------------------------------------------------------ */

enum command_result command_sessions(struct typed *c)
{
    enum { MOST = 30 };
    struct sessions s;
    bool ok = sessions_list(&s, c->arg, &c->e);
    for (int i = 0; i < s.n && i < MOST; i++)
        sessions_line(&s.items[i], time(NULL), c->out);
    if (s.n > MOST)
        buf_addf(c->out, "... and %d older ones; words after the command search titles and texts\n", s.n - MOST);
    if (ok && !s.n)
        buf_adds(c->out, *c->arg ? "no saved conversation has all these words\n" : "no saved conversation yet\n");
    sessions_free(&s);
    return ok ? COMMAND_DONE : command_refused(c);
}

/* --- export ----------------------------------------------------------------------------------------------------- */

/* Appends "NAME.md" for "sessions/NAME.jsonl"; the date for a conversation without a file. */
static void add_file_name(struct buf *out, const char *saved_as, const char *format)
{
    char date[32];
    time_t now = time(NULL);
    struct tm tm;
    strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", localtime_r(&now, &tm));
    const char *slash = saved_as ? strrchr(saved_as, '/') : NULL, *base = slash ? slash + 1 : saved_as ? saved_as : date;
    const char *dot = strrchr(base, '.');
    buf_addf(out, "%.*s.%s", dot && dot > base ? (int)(dot - base) : (int)strlen(base), base, format);
}

enum command_result command_export(struct typed *c)
{
    struct buf text = {0}, file = {0};
    size_t n = strcspn(c->arg, " \t");
    const char *format = NULL, *name = c->arg;
    for (int i = 0; export_formats[i]; i++)
        if (n == strlen(export_formats[i]) && !strncmp(c->arg, export_formats[i], n)) {
            format = export_formats[i];
            name += n + strspn(name + n, " \t");
        }
    bool ok = export_choose(&format, *name ? name : NULL, &c->e) && (chat_n_messages(c->chat) > 0 || err_set(&c->e, "no messages yet"));
    if (*name)
        buf_adds(&file, name);
    else if (ok)
        add_file_name(&file, chat_saved_as(c->chat), format);
    ok = ok && command_names_file(c, file.data) && chat_export(c->chat, format, file.data, &text, &c->e) &&
         export_write(file.data, &text, &c->e) && chat_export_pictures(c->chat, file.data, &c->e);
    if (ok)
        buf_addf(c->out, "wrote %zu bytes to %s\n", text.len, file.data);
    buf_free(&text);
    buf_free(&file);
    return ok ? COMMAND_DONE : command_refused(c);
}
