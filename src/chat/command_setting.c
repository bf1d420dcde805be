/* Commands that show or change the settings of the model, the context of a conversation, and the look of the program. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "base/file.h"
#include "chat/commands.h"
#include "chat/forms.h"
#include "image/image.h"
#include "option/paths.h"
#include "session/kept.h"

enum command_result command_system(struct typed *c)
{
    if (*c->arg && !options_set(c->o, OPT_system, strcmp(c->arg, "none") ? c->arg : "", FROM_SET, &c->e))
        return command_refused(c);
    const char *now = options_text(c->o, OPT_system);
    buf_addf(c->out, *now ? "system prompt: %s\n" : "no system prompt%s\n", now);
    return COMMAND_DONE;
}

/* Sets an option of this id, or of this key if id is negative; tools, approval, bias and forms are checked by the chat first.  False with the reason
 * in c->e. */
static bool set_value(struct typed *c, int id, const char *key, const char *text)
{
    if (id == OPT_tools)
        return chat_offer_tools(c->chat, text, &c->e);
    if (id == OPT_tools_approve)
        return chat_set_approval(c->chat, text, &c->e);
    if (id == OPT_logit_bias && !chat_check_bias(c->chat, text, &c->e))
        return false;
    if (id >= 0 && forms_is((enum option_id)id))
        return forms_set(c->o, (enum option_id)id, text, FROM_SET, &c->e);
    return options_set_named(c->o, key, text, &c->e);
}

enum command_result command_set(struct typed *c)
{
    char key[64];
    size_t n = strcspn(c->arg, " \t=");
    const char *value = c->arg + n;
    snprintf(key, sizeof key, "%.*s", (int)n, c->arg);
    value += strspn(value, " \t");
    value += *value == '=';
    value += strspn(value, " \t");
    if (!*key) {
        bool any = false;
        for (int i = 0; i < N_OPTIONS; i++)
            if (options_given(c->o, (enum option_id)i)) {
                options_explain(c->o, (enum option_id)i, c->out);
                any = true;
            }
        buf_addf(c->out, "every %soption is at its default; /set KEY explains one, q35chat --print-config lists all\n", any ? "other " : "");
        return COMMAND_DONE;
    }
    int id = options_find(key);
    const char *text = strcmp(value, "\"\"") ? value : "";        /* "" clears it */
    if ((*value || id < 0) && !set_value(c, id, key, text))
        return command_refused(c);
    chat_explain(c->chat, (enum option_id)id, c->out);
    return COMMAND_DONE;
}

enum command_result command_think(struct typed *c)
{
    bool budget = isdigit((unsigned char)*c->arg);
    if (*c->arg && !budget && value_switch(c->arg) < 0) {
        err_set(&c->e, "think is '%s', expected on, off or a token limit", c->arg);
        return command_refused(c);
    }
    if (budget && !options_set(c->o, OPT_think_budget, c->arg, FROM_SET, &c->e))
        return command_refused(c);
    if (*c->arg && !options_set(c->o, OPT_think, budget ? "on" : c->arg, FROM_SET, &c->e))
        return command_refused(c);
    bool on = options_on(c->o, OPT_think);
    int most = options_int(c->o, OPT_think_budget);
    buf_addf(c->out, "reasoning is %s", on ? "on" : "off");
    if (on && most)
        buf_addf(c->out, ", at most %d tokens (0: no limit)", most);
    buf_addc(c->out, '\n');
    return COMMAND_DONE;
}

enum command_result command_preset(struct typed *c)
{
    if (*c->arg && !options_set(c->o, OPT_preset, c->arg, FROM_SET, &c->e))
        return command_refused(c);
    chat_describe_sampling(c->chat, c->out);
    return COMMAND_DONE;
}

/* The events of the chat show the result. */
enum command_result command_model(struct typed *c)
{
    const char *meant = chat_model_meant(c->chat, c->arg);
    bool ok = *c->arg ? chat_choose_model(c->chat, meant ? meant : c->arg, &c->e) : chat_list_models(c->chat, &c->e);
    return ok ? COMMAND_DONE : command_refused(c);
}

enum command_result command_tools(struct typed *c)
{
    if (*c->arg && !chat_offer_tools(c->chat, c->arg, &c->e))
        return command_refused(c);
    chat_list_tools(c->chat, c->out);
    return COMMAND_DONE;
}

/* --- files and what fills the context ------------------------------------------------------------------------------ */

/* Takes the next path of the argument, between blanks or quotes.  False: no more. */
static bool next_path(const char **arg, struct buf *path)
{
    const char *p = *arg + strspn(*arg, " \t");
    const char *end = *p == '"' ? strchr(p + 1, '"') : NULL;
    buf_reset(path);
    if (!*p)
        return false;
    if (end) {
        buf_add(path, p + 1, (size_t)(end - p - 1));
        *arg = end + 1;
    } else {
        buf_add(path, p, strcspn(p, " \t"));
        *arg = p + path->len;
    }
    return true;
}

/* Appends "@PATH " if the file can be attached. */
static bool add_attached(struct typed *c, const char *path)
{
    struct chat_file file;
    path += *path == '@';
    if (!chat_check_file(c->chat, path, &file, &c->e))
        return false;
    buf_addf(c->out, strpbrk(path, " \t") ? "@\"%s\" " : "@%s ", path);
    return true;
}

/* A single path with blanks needs no quotes. */
enum command_result command_attach(struct typed *c)
{
    struct buf path = {0};
    const char *arg = c->arg;
    bool ok = *arg || err_set(&c->e, "/attach needs the path of a file");
    if (ok && add_attached(c, arg))
        return COMMAND_EDIT;
    while (ok && next_path(&arg, &path))
        ok = add_attached(c, path.data);
    buf_free(&path);
    if (ok)
        return COMMAND_EDIT;
    buf_reset(c->out);
    return command_refused(c);
}

/* Reads the picture of the clipboard with the first program that has one. */
static bool read_clipboard(struct buf *picture, struct err *e)
{
    static const char *const programs[][8] = {
        {"wl-paste", "--no-newline", "--type", "image/png"}, {"xclip", "-selection", "clipboard", "-target", "image/png", "-out"},
    };
    enum { N = sizeof programs / sizeof *programs };
    int n_missing = 0;
    for (int i = 0; i < N; i++) {
        buf_reset(picture);
        const int status = child_run(programs[i], IMAGE_MAX_BYTES, picture);
        if (!status && image_kind(buf_str(picture), picture->len) == IMAGE_PNG)
            return true;
        n_missing += status == CHILD_NOT_FOUND;
    }
    return err_set(e, n_missing == N ? "/paste needs wl-paste (wl-clipboard) or xclip, which are not installed" : "the clipboard has no picture");
}

/* Keeps the picture in a file, since a message names files. */
enum command_result command_paste(struct typed *c)
{
    struct buf picture = {0}, path = {0};
    struct buf name = {0};
    bool ok = !options_on(c->o, OPT_private) || err_set(&c->e, "a private chat writes no file, and /paste needs one");
    ok = ok && read_clipboard(&picture, &c->e);
    buf_adds(&name, "pastes/");
    kept_name(&name, (struct text){buf_str(&picture), picture.len}, "png");
    ok = ok && paths_state(&path, name.data, &c->e);
    if (ok && !file_replace_unsynced(path.data, picture.data, picture.len))
        ok = err_set(&c->e, "cannot write %s: %s", path.data, strerror(errno));
    ok = ok && add_attached(c, path.data);
    buf_free(&name);
    buf_free(&picture);
    buf_free(&path);
    return ok ? COMMAND_EDIT : command_refused(c);
}

enum command_result command_files(struct typed *c)
{
    int n = 0;
    for (int i = 0; i < chat_n_messages(c->chat); i++)
        for (int k = 0; k < chat_n_files(c->chat, i); k++, n++) {
            struct chat_file f = chat_file(c->chat, i, k);
            char tokens[16];
            snprintf(tokens, sizeof tokens, "%s%d", f.estimated ? "~" : "", f.tokens);
            buf_addf(c->out, "%8zu bytes %7s tokens  %s", f.bytes, tokens, f.path);
            if (f.w)
                buf_addf(c->out, "  %dx%d", f.w, f.h);
            buf_addc(c->out, '\n');
        }
    if (!n)
        buf_adds(c->out, "no files; @PATH in a message attaches one\n");
    return COMMAND_DONE;
}

/* Appends a row of /context: number, tokens, kind, beginning, mark. */
static void context_row(struct buf *out, const struct chat_part *p)
{
    char figure[16], number[16] = "";
    snprintf(figure, sizeof figure, "%s%d", p->estimated ? "~" : "", p->tokens);
    if (p->number)
        snprintf(number, sizeof number, "%d", p->number);
    buf_addf(out, "%4s %7s  %-7s %s", number, figure, p->what, p->label);
    if (p->mark == CHAT_DROPPED)
        buf_addf(out, "  (dropped: %d)", p->whole);
    buf_adds(out, p->mark == CHAT_PINNED ? "  (pinned)\n" : "\n");
}

/* Appends a row for the parts of a long conversation that are not listed. */
static void context_rest(struct buf *out, const struct chat_part *parts, int n)
{
    struct chat_part before = {.what = "before"};
    for (int i = 0; i < n; i++) {
        before.tokens += parts[i].tokens;
        before.estimated |= parts[i].estimated;
    }
    snprintf(before.label, sizeof before.label, "%d parts; /context all lists them", n);
    context_row(out, &before);
}

enum command_result command_context(struct typed *c)
{
    enum { NEWEST = 20 };
    const struct chat_part *parts;
    const struct model_info *info = chat_info(c->chat);
    bool all = !strcmp(c->arg, "all");
    if (*c->arg && !all) {
        err_set(&c->e, "/context knows only 'all', not '%s'", c->arg);
        return command_refused(c);
    }
    int n = chat_context(c->chat, &parts), head = 0, first = 0;
    while (head < n && parts[head].message < 0)
        head++;
    if (!all && n > head + NEWEST + 1)
        first = n - NEWEST;
    for (int i = 0; i < n; i++) {
        if (i == head && first)
            context_rest(c->out, parts + head, first - head);
        if (i < head || i >= first)
            context_row(c->out, &parts[i]);
    }
    struct chat_count used = chat_context_used(c->chat);
    char figure[16];
    snprintf(figure, sizeof figure, "%s%d", used.estimated ? "~" : "", used.tokens);
    buf_addf(c->out, "%12s  tokens", figure);
    if (info && info->n_ctx)
        buf_addf(c->out, " of %d, %.0f %%\n", info->n_ctx, 100.0 * used.tokens / info->n_ctx);
    else
        buf_adds(c->out, info ? "\n" : ", estimated: the model is not loaded yet\n");
    return COMMAND_DONE;
}

/* Returns the part with this number, which has a label for /drop and /pin. */
static struct chat_part find_part(struct chat *c, int number)
{
    const struct chat_part *parts;
    int n = chat_context(c, &parts);
    for (int i = 0; i < n; i++)
        if (number && parts[i].number == number)
            return parts[i];
    return (struct chat_part){0};
}

/* Marks the part of the argument, or removes its mark. */
static enum command_result mark_part(struct typed *c, const char *name, enum chat_mark wanted)
{
    const char *rest;
    int n = command_number(c->arg, 0, &rest);
    if (!n || *rest)
        err_set(&c->e, "/%s needs a number, as /context shows it%s%s", name, *c->arg ? ", not " : "", c->arg);
    enum chat_mark was = find_part(c->chat, n).mark;
    if (wanted == CHAT_DROPPED && was == CHAT_DROPPED)
        wanted = CHAT_PLAIN;
    if (wanted == CHAT_PLAIN && !strcmp(name, "unpin") && was != CHAT_PINNED && !*c->e.msg)
        err_set(&c->e, "%d is not pinned", n);
    int used = chat_context_used(c->chat).tokens;
    if (*c->e.msg || !chat_mark(c->chat, n, wanted, &c->e))
        return command_refused(c);
    struct chat_part p = find_part(c->chat, n);
    int freed = used - chat_context_used(c->chat).tokens;
    buf_addf(c->out, "%s: %s %s", p.mark == CHAT_DROPPED ? "dropped" : p.mark == CHAT_PINNED ? "pinned" : was == CHAT_PINNED ? "not pinned" : "back",
             p.what, p.label);
    if (freed)
        buf_addf(c->out, freed > 0 ? "; %d tokens less" : "; %d tokens more", freed > 0 ? freed : -freed);
    buf_adds(c->out, p.mark == CHAT_DROPPED ? "; the next prompt is computed again from there on\n" : "\n");
    return COMMAND_DONE;
}

enum command_result command_drop(struct typed *c)
{
    return mark_part(c, "drop", CHAT_DROPPED);
}

enum command_result command_pin(struct typed *c)
{
    return mark_part(c, "pin", CHAT_PINNED);
}

enum command_result command_unpin(struct typed *c)
{
    return mark_part(c, "unpin", CHAT_PLAIN);
}

/* Appends the line of /stats about the checkpoint on the disk, if there is one. */
static void add_checkpoint(struct typed *c)
{
    struct chat_checkpoint k;
    chat_checkpoint(c->chat, &k);
    if (!k.on)
        return;
    buf_addf(c->out, "checkpoint %.1f MB on the disk, %.1f MB written", (double)k.bytes * 1e-6, (double)k.written * 1e-6);
    if (k.restored)
        buf_addf(c->out, "; %d tokens came back from it", k.restored);
    buf_addc(c->out, '\n');
}

/* Appends the drafts by position and source. */
static void add_drafts(struct typed *c, const struct stats *s)
{
    static const char *const rows[] = {
#define DRAFT_SOURCE(ID, key, share, row, ...) row,
#include "config/draft_sources.def"
    };
    static const char *const fates[] = {
#define DRAFT_SOURCE(ID, key, share, row, fate, ...) fate,
#include "config/draft_sources.def"
    };
    for (int i = 0; i < LIMIT_DRAFTS; i++)
        for (int by = 0; by < DRAFT_SOURCES; by++) {
            const struct draft_count d = s->drafts[by][i];
            char label[24];
            snprintf(label, sizeof label, "%s %d", rows[by], i + 1);
            if (d.drafted)
                buf_addf(c->out, "%-11s%d of %d %s (%.0f %%)\n", label, d.accepted, d.drafted, fates[by], 100 * drafts_share(d));
        }
}

/* Appends the lines of /stats about the last answer and its prompt. */
static void add_answer(struct typed *c, const struct stats *s)
{
    buf_addf(c->out, "answer     %d token%s in %d step%s, %.1f tok/s, seed %llu\n", s->n_tokens, s->n_tokens == 1 ? "" : "s", s->n_steps,
             s->n_steps == 1 ? "" : "s", stats_tok_s(s), (unsigned long long)s->seed);
    if (stats_tokens_per_step(s) > 0)
        buf_addf(c->out, "           %.2f tokens a step\n", stats_tokens_per_step(s));
    double gb = stats_gb_per_token(s);
    if (gb > 0)
        buf_addf(c->out, "traffic    about %.3g %s a token: weights, states, KV rows, drafts\n", gb < 0.1 ? gb * 1e3 : gb, gb < 0.1 ? "MB" : "GB");
    buf_addf(c->out, "cost       %.1f s", s->wall_ms / 1000);
    if (s->joules > 0)
        buf_addf(c->out, ", %.0f J of the device, %.2f J a token", s->joules, s->n_tokens ? s->joules / s->n_tokens : 0);
    buf_adds(c->out, s->n_rounds > 1 ? ", tools included\n" : "\n");
    buf_addf(c->out, "prompt     %d tokens, %d of them from the cache", s->n_prompt, s->n_cached);
    if (s->n_ahead)
        buf_addf(c->out, " (%d read ahead)", s->n_ahead);
    buf_addf(c->out, ", %.0f ms\n", s->prefill_ms);
    if (s->n_typed)
        buf_addf(c->out, "           %d tokens were read while you typed\n", s->n_typed);
}

/* Appends the lines of /stats about the model and its memory. */
static void add_model(struct typed *c, const struct model_info *info)
{
    buf_addf(c->out, "model      %s, %s", info->model, info->backend);
    if (*info->formats)                 /* of an engine, here or of another q35chat */
        buf_addf(c->out, ", %s, drafts up to %d, loaded in %.1f s", info->formats, info->draft_depth, info->load_ms / 1000);
    buf_addc(c->out, '\n');
    if (*info->memory)
        buf_addf(c->out, "memory     planned %s\n", info->memory);
    if (*info->weights_in)
        buf_addf(c->out, "weights    %s\n", info->weights_in);
    if (*info->reads)
        buf_addf(c->out, "reads      %s\n", info->reads);
    if (*info->kv)
        buf_addf(c->out, "KV cache   %s, %zu bytes a token\n", info->kv, info->kv_token_bytes);
}

enum command_result command_stats(struct typed *c)
{
    const struct stats *s = chat_last_stats(c->chat);
    const struct model_info *info = chat_info(c->chat);
    if (info)
        add_model(c, info);
    if (s->wall_ms > 0)
        add_answer(c, s);
    else
        buf_adds(c->out, "answer     none yet since the program started or the conversation was opened\n");
    if (*chat_refill(c->chat))
        buf_addf(c->out, "refill     %s\n", chat_refill(c->chat));
    add_checkpoint(c);
    add_drafts(c, s);
    struct machine_figures m = {0};
    chat_machine(c->chat, &m);
    if (m.resident_max)
        buf_addf(c->out, "resident   %d of %d conversations, %d of %d snapshots\n", m.resident, m.resident_max, m.snapshots, m.snapshots_max);
    struct chat_count used = chat_context_used(c->chat);
    int n_ctx = info ? info->n_ctx : 0;
    buf_addf(c->out, n_ctx ? "context    %s%d of %d\n" : "context    %s%d\n", used.estimated ? "~" : "", used.tokens, n_ctx);
    return COMMAND_DONE;
}

/* --- the program --------------------------------------------------------------------------------------------------- */

enum command_result command_theme(struct typed *c)
{
    if (*c->arg && !options_set(c->o, OPT_theme, c->arg, FROM_SET, &c->e))
        return command_refused(c);
    if (*c->arg) {
        buf_adds(c->out, c->arg);
        return COMMAND_SCREEN;
    }
    buf_addf(c->out, "theme %s; choose one of", options_text(c->o, OPT_theme));
    for (const char *p = options_choices(OPT_theme); p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        buf_addf(c->out, " %.*s", (int)strcspn(p, "|"), p);
    buf_addc(c->out, '\n');
    return COMMAND_DONE;
}

enum command_result command_keys(struct typed *c)
{
    if (*c->arg && strcmp(c->arg, "all") && strcmp(c->arg, "test")) {
        err_set(&c->e, "/keys takes all, test or nothing, not '%s'", c->arg);
        return command_refused(c);
    }
    buf_adds(c->out, c->arg);
    return COMMAND_SCREEN;
}

enum command_result command_quit(struct typed *c)
{
    return chat_may_quit(c->chat, &c->e) ? COMMAND_QUIT : command_refused(c);
}
