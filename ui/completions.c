#include "ui/completions.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "bench/run.h"
#include "chat/options.h"
#include "debug/run.h"
#include "ui/bench.h"
#include "ui/debug.h"

/* What stands behind an option, or a subcommand's word, besides choices. */
enum what { NOTHING, WORDS, DIRECTORIES, FILES, SESSIONS };

struct word {
    const char *name, *help;
    enum what then;                             /* completes what follows it */
};

enum { MAX_WORDS = 16 };

struct subcommand {
    const char *name, *help, *options;          /* options: a help text that names them */
    struct word words[MAX_WORDS];
};

static struct subcommand subs[] = {
    {"bench", "measurements", bench_options_help, {{0}}},
    {"model", "what a checkpoint holds", "", {{"inspect", "config, tensors and formats of a directory", DIRECTORIES}}},
    {"session", "conversations on disk", "--json --names", {{"list", "all, or those in which words were said", NOTHING},
        {"show", "what was said, as text", SESSIONS}, {"export", "as md, json or txt", SESSIONS}, {"rm", "deletes them", SESSIONS}}},
    {"debug", "for maintainers", debug_options_help, {{0}}},
};
enum { N_SUBS = sizeof subs / sizeof *subs };

static void fill(void)
{
    int n = 0;
    for (const struct bench_command *c = bench_commands; c->name; c++, n++)
        subs[0].words[n] = (struct word){c->name, c->help, NOTHING};
    CHECK(n < MAX_WORDS);
    n = 0;
    for (const struct debug_command *c = debug_commands; c->name; c++, n++)
        subs[3].words[n] = (struct word){c->name, c->help, NOTHING};
    CHECK(n < MAX_WORDS);
}

/* The next --option of a help text, without its dashes; 0: no more. */
static int next_flag(const char **text, const char **flag)
{
    const char *p = strstr(*text, "--");
    if (!p)
        return 0;
    *flag = p + 2;
    *text = *flag + strspn(*flag, "abcdefghijklmnopqrstuvwxyz-");
    return (int)(*text - *flag);
}

/* What the value of an option can be: choices with blanks between them, or a kind of name. */
static const char *choices(const struct option_about *o)
{
    static const struct { const char *key, *words; } suggested[] = {
        {"tools", "all|none|clock|calculator"}, {"tools_approve", "auto|ask|always|never"},
#define KV(name, ...) {"kv", name},
#include "config/kv_recipes.def"
#undef KV
    };
    static char all[512];
    all[0] = 0;
    if (o->choices)
        snprintf(all, sizeof all, "%s", o->choices);
    for (size_t i = 0; !o->choices && i < sizeof suggested / sizeof *suggested; i++)
        if (!strcmp(suggested[i].key, o->key))
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? "|" : "", suggested[i].words);
    for (char *p = all; *p; p++)
        if (*p == '|')
            *p = ' ';
    return all;
}

static enum what value_of(const struct option_about *o)
{
    return !o->arg ? NOTHING : !strcmp(o->key, "model") ? DIRECTORIES : !strcmp(o->key, "resume") ? SESSIONS
         : !strcmp(o->key, "config") ? FILES : *choices(o) ? WORDS : NOTHING;
}

static const char *dashed(const char *key)
{
    static char flag[64];
    snprintf(flag, sizeof flag, "%s", key);
    for (char *p = flag; *p; p++)
        if (*p == '_')
            *p = '-';
    return flag;
}

/* A switch that is on by itself is offered both ways, for a config file may have turned it. */
static bool has_no(const struct option_about *o)
{
    return !o->arg && !strcmp(o->standard, "on");
}

/* Between single quotes: a backslash before each of `special`, and the quote as `quote`. */
static void add_quoted(struct buf *out, const char *s, const char *special, const char *quote)
{
    for (; *s; s++) {
        if (strchr(special, *s))
            buf_addc(out, '\\');
        if (*s == '\'')
            buf_adds(out, quote);
        else
            buf_addc(out, *s);
    }
}

/* --- bash -------------------------------------------------------------------------------------------------------- */

static const char bash_head[] =
    "# bash completion for q35chat, made by: q35chat --print-completions bash\n\n"
    "# Names may hold anything, so they are compared here and quoted: compgen -W would expand them.\n"
    "_q35chat_sessions() {\n"
    "    local name\n"
    "    while IFS= read -r name; do\n"
    "        [[ $name != \"$1\"* ]] || COMPREPLY+=(\"$(printf %q \"$name\")\")\n"
    "    done < <(\"${COMP_WORDS[0]}\" session list --names 2>/dev/null)\n"
    "}\n\n"
    "_q35chat_paths() {\n"
    "    local name\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    while IFS= read -r name; do COMPREPLY+=(\"$name\"); done < <(compgen \"$1\" -- \"$2\")\n"
    "}\n\n"
    "_q35chat() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n"
    "    # --option=value is three words here\n"
    "    [[ $cur != = ]] || cur=\n"
    "    [[ $prev != = || $COMP_CWORD -lt 2 ]] || prev=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    COMPREPLY=()\n";

static void bash_value(struct buf *out, enum what w, const char *words)
{
    if (w == WORDS)
        buf_addf(out, "words='%s' ;;\n", words);
    else if (w == SESSIONS)
        buf_adds(out, "_q35chat_sessions \"$cur\"; return ;;\n");
    else if (w == NOTHING)
        buf_adds(out, "return ;;\n");
    else
        buf_addf(out, "_q35chat_paths -%c \"$cur\"; return ;;\n", w == FILES ? 'f' : 'd');
}

static void bash_sub(struct buf *out, const struct subcommand *s)
{
    const char *text = s->options, *flag;
    buf_addf(out, "    %s)\n        case $COMP_CWORD:$cur in\n        2:*) words='", s->name);
    for (const struct word *w = s->words; w->name; w++)
        buf_addf(out, "%s%s", w == s->words ? "" : " ", w->name);
    buf_adds(out, "' ;;\n        *:-*) words='");
    for (int n; (n = next_flag(&text, &flag));)
        buf_addf(out, "%s--%.*s", out->data[out->len - 1] == '\'' ? "" : " ", n, flag);
    buf_adds(out, "' ;;\n        *)\n            case ${COMP_WORDS[2]}:$prev in\n"
                  "            *:--backend|*:--head|*:--kv) ;;\n"
                  "            *:--synthetic) words='122b 35b' ;;\n"
                  "            *:--model|*:--write) _q35chat_paths -d \"$cur\"; return ;;\n"
                  "            *:--out) _q35chat_paths -f \"$cur\"; return ;;\n");
    for (const struct word *w = s->words; w->name; w++)
        if (w->then != NOTHING)
            buf_addf(out, "            %s:*) %s \"$cur\"; return ;;\n", w->name, w->then == SESSIONS ? "_q35chat_sessions" : "_q35chat_paths -d");
    buf_adds(out, "            *) return ;;\n            esac ;;\n        esac ;;\n");
}

static void bash(struct buf *out)
{
    struct option_about o;
    buf_adds(out, bash_head);
    buf_adds(out, "    [[ $COMP_CWORD -gt 1 ]] && case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < N_SUBS; i++)
        bash_sub(out, &subs[i]);
    buf_adds(out, "    esac\n    [[ -n $words ]] || case $prev in\n");
    for (int id = 0; options_about((enum option_id)id, &o); id++)
        if (o.arg) {
            buf_addf(out, "    --%s", dashed(o.key));
            if (o.letter)
                buf_addf(out, "|-%c", o.letter);
            buf_adds(out, ") ");
            bash_value(out, value_of(&o), choices(&o));
        }
    buf_adds(out, "    esac\n    [[ -n $words || $cur != -* ]] || words='");
    for (int id = 0; options_about((enum option_id)id, &o); id++) {
        buf_addf(out, "%s--%s", id ? " " : "", dashed(o.key));
        if (has_no(&o))
            buf_addf(out, " --no-%s", dashed(o.key));
    }
    buf_adds(out, "'\n    [[ -n $words || $COMP_CWORD -gt 1 ]] || words='");
    for (int i = 0; i < N_SUBS; i++)
        buf_addf(out, "%s%s", i ? " " : "", subs[i].name);
    buf_adds(out, "'\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -F _q35chat q35chat\n");
}

/* --- zsh --------------------------------------------------------------------------------------------------------- */

static const char zsh_head[] =
    "#compdef q35chat\n# zsh completion for q35chat, made by: q35chat --print-completions zsh\n\n"
    "_q35chat_sessions() {\n"
    "    local -a names\n"
    "    names=(${(f)\"$(_call_program sessions ${(q)words[1]} session list --names 2>/dev/null)\"})\n"
    "    _wanted sessions expl conversation compadd -a names\n"
    "}\n\n";

static void zsh_text(struct buf *out, const char *s)
{
    add_quoted(out, s, ":[]\\", "'\\''");
}

static void zsh_value(struct buf *out, const struct option_about *o)
{
    enum what w = value_of(o);
    buf_adds(out, ":");
    zsh_text(out, w == WORDS ? dashed(o->key) : o->arg);
    if (w == WORDS)
        buf_addf(out, ":(%s)", choices(o));
    else
        buf_adds(out, w == DIRECTORIES ? ":_files -/" : w == FILES ? ":_files" : w == SESSIONS ? ":_q35chat_sessions" : ": ");
}

static void zsh_option(struct buf *out, const struct option_about *o)
{
    const char *flag = dashed(o->key), *value = o->arg ? "=" : "";
    if (o->letter)
        buf_addf(out, "        '(-%c --%s)'{-%c%s,--%s%s}'[", o->letter, flag, o->letter, o->arg ? "+" : "", flag, value);
    else
        buf_addf(out, "        '%s--%s%s[", o->repeats ? "*" : "", flag, value);
    zsh_text(out, o->help);
    buf_addc(out, ']');
    if (o->arg)
        zsh_value(out, o);
    buf_adds(out, "' \\\n");
    if (has_no(o)) {
        buf_addf(out, "        '--no-%s[off\\: ", flag);
        zsh_text(out, o->help);
        buf_adds(out, "]' \\\n");
    }
}

static void zsh_sub(struct buf *out, const struct subcommand *s)
{
    const char *text = s->options, *flag;
    buf_addf(out, "    %s)\n        local -a words_of=(", s->name);
    for (const struct word *w = s->words; w->name; w++) {
        buf_addf(out, "\n            '%s:", w->name);
        zsh_text(out, w->help);
        buf_addc(out, '\'');
    }
    buf_adds(out, ")\n        if (( CURRENT == 3 )); then _describe -t commands command words_of; return; fi\n        case $words[3] in\n");
    for (const struct word *w = s->words; w->name; w++)
        if (w->then != NOTHING)
            buf_addf(out, "        %s) %s; return ;;\n", w->name, w->then == SESSIONS ? "_q35chat_sessions" : "_files -/");
    buf_adds(out, "        esac\n");
    if (strstr(s->options, "--model"))
        buf_adds(out, "        case $words[CURRENT-1] in\n        --model|--write) _files -/; return ;;\n        --out) _files; return ;;\n"
                  "        --backend) compadd cpu cuda; return ;;\n        --head) compadd int8 bf16; return ;;\n"
                  "        --synthetic) compadd 122b 35b; return ;;\n"
                  "        esac\n");
    buf_adds(out, "        compadd --");
    for (int n; (n = next_flag(&text, &flag));)
        buf_addf(out, " --%.*s", n, flag);
    buf_adds(out, "\n        return ;;\n");
}

static void zsh(struct buf *out)
{
    struct option_about o;
    buf_adds(out, zsh_head);
    buf_adds(out, "_q35chat() {\n    local curcontext=$curcontext expl\n    (( CURRENT > 2 )) && case $words[2] in\n");
    for (int i = 0; i < N_SUBS; i++)
        zsh_sub(out, &subs[i]);
    buf_adds(out, "    esac\n    local -a subcommands=(");
    for (int i = 0; i < N_SUBS; i++)
        buf_addf(out, " '%s:%s'", subs[i].name, subs[i].help);
    buf_adds(out, " )\n    _arguments -s \\\n");
    for (int id = 0; options_about((enum option_id)id, &o); id++)
        zsh_option(out, &o);
    buf_adds(out, "        '1: :{ _describe -t commands command subcommands }' \\\n        '*: :_message prompt'\n}\n\n"
                  "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _q35chat \"$@\"; else compdef _q35chat q35chat; fi\n");
}

/* --- fish -------------------------------------------------------------------------------------------------------- */

static const char fish_head[] =
    "# fish completion for q35chat, made by: q35chat --print-completions fish\n\n"
    "function __q35chat_sessions\n"
    "    set -l words (commandline -opc)\n"
    "    $words[1] session list --names 2>/dev/null\n"
    "end\n\n"
    "# __q35chat_at N [SUBCOMMAND [WORD]]: whether word N (the last: N or later) of that subcommand is being typed.\n"
    "function __q35chat_at\n"
    "    set -l words (commandline -opc)\n"
    "    set -l n (count $words)\n"
    "    test $n -ge $argv[1]; or return 1\n"
    "    test $argv[1] -ge 3; or test $n -eq $argv[1]; or return 1\n"
    "    test (count $argv) -lt 2; or test \"$words[2]\" = $argv[2]; or return 1\n"
    "    test (count $argv) -lt 3; or test \"$words[3]\" = $argv[3]\n"
    "end\n\n"
    "function __q35chat_chats\n"
    "    set -l words (commandline -opc)\n"
    "    not contains -- \"$words[2]\" bench model session debug\n"
    "end\n\n"
    "complete -c q35chat -f\n";

static void fish_text(struct buf *out, const char *s)
{
    add_quoted(out, s, "\\", "\\'");
}

static void fish_option(struct buf *out, const struct option_about *o, const char *not)
{
    static const char *const values[] = {
        [DIRECTORIES] = " -x -a '(__fish_complete_directories (commandline -ct))'", [FILES] = " -r -F", [SESSIONS] = " -x -a '(__q35chat_sessions)'"};
    enum what w = value_of(o);
    const char *words = choices(o);
    buf_addf(out, "complete -c q35chat -n __q35chat_chats -l %s%s", not, dashed(o->key));
    if (o->letter && !*not)
        buf_addf(out, " -s %c", o->letter);
    if (o->arg && w == WORDS)
        buf_addf(out, " -x -a '%s'", words);
    else if (o->arg)
        buf_adds(out, values[w] ? values[w] : " -x");
    buf_adds(out, *not ? " -d 'off: " : " -d '");
    fish_text(out, o->help);
    buf_adds(out, "'\n");
}

static void fish_sub(struct buf *out, const struct subcommand *s)
{
    const char *text = s->options, *flag;
    buf_addf(out, "complete -c q35chat -n '__q35chat_at 1' -a %s -d '%s'\n", s->name, s->help);
    for (const struct word *w = s->words; w->name; w++) {
        buf_addf(out, "complete -c q35chat -n '__q35chat_at 2 %s' -a %s -d '", s->name, w->name);
        fish_text(out, w->help);
        buf_adds(out, "'\n");
        if (w->then != NOTHING)
            buf_addf(out, "complete -c q35chat -n '__q35chat_at 3 %s %s' -a '(%s)'\n", s->name, w->name,
                     w->then == SESSIONS ? "__q35chat_sessions" : "__fish_complete_directories (commandline -ct)");
    }
    for (int n; (n = next_flag(&text, &flag));)
        buf_addf(out, "complete -c q35chat -n '__q35chat_at 3 %s' -l %.*s%s\n", s->name, n, flag,
                 !strncmp(flag, "model", 5) || !strncmp(flag, "write", 5) ? " -x -a '(__fish_complete_directories (commandline -ct))'"
                 : !strncmp(flag, "out", 3) ? " -r -F" : "");
}

static void fish(struct buf *out)
{
    struct option_about o;
    buf_adds(out, fish_head);
    for (int i = 0; i < N_SUBS; i++)
        fish_sub(out, &subs[i]);
    for (int id = 0; options_about((enum option_id)id, &o); id++) {
        fish_option(out, &o, "");
        if (has_no(&o))
            fish_option(out, &o, "no-");
    }
}

void completions_print(const char *shell, struct buf *out)
{
    fill();
    if (!strcmp(shell, "zsh"))
        zsh(out);
    else if (!strcmp(shell, "fish"))
        fish(out);
    else
        bash(out);
}
