#include "ui/subcommand.h"

#include <stdio.h>
#include <string.h>

#include "option/options.h"

static const char clients[] = ""
#define CLIENT(name, ...) "|" name
#include "config/clients.def"
    ;
static const char repos[] = ""
#define REPO_WHOLE(name) "|" name
#define REPO_SMALL(name)            /* a second row of its name */
#define REPO(name, repository, files) REPO_##files(name)
#include "config/repos.def"
    ;

/* Returns the choices for the value of an option or the word of a sub-command, with blanks between them, or "". */
static const char *choices(const char *key, enum value_type type, const char *arg)
{
    static const struct { const char *key, *words; } suggested[] = {
        {"tools", "all|none|clock|calculator"}, {"tools_approve", "auto|ask|always|never"}, {"clients", clients + 1}, {"get", repos + 1},
    };
    static char all[512];
    all[0] = 0;
    if (type == VALUE_CHOICE || type == VALUE_WORDS)
        snprintf(all, sizeof all, "%s", arg);
    for (size_t i = 0; type == VALUE_TEXT && i < sizeof suggested / sizeof *suggested; i++)
        if (!strcmp(suggested[i].key, key))
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? "|" : "", suggested[i].words);
    for (char *p = all; *p; p++)
        if (*p == '|')
            *p = ' ';
    return all;
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

/* Returns the sub-command that lists the names of this type with --names, or NULL. */
static const char *names_command(enum value_type type)
{
    return type == VALUE_SESSION ? "session list" : type == VALUE_DELETED ? "session restore" : type == VALUE_MODEL ? "model list" : NULL;
}

/* A switch that is on by itself is offered both ways, for a config file may have turned it. */
static bool has_no(const struct option_about *o)
{
    return (!o->arg || o->can_be_off) && !strcmp(o->standard, "on");
}

/* Appends text for single quotes: a backslash before each of `special`, and a quote as `quote`. */
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
    "# The names of stdin.  They may hold anything, so they are compared here and quoted: compgen -W would expand them.\n"
    "_q35chat_names() {\n"
    "    local name\n"
    "    while IFS= read -r name; do\n"
    "        [[ $name != \"$1\"* ]] || COMPREPLY+=(\"$(printf %q \"$name\")\")\n"
    "    done\n"
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
    "    COMPREPLY=()\n"
    "    # help GROUP COMMAND is completed as GROUP COMMAND, serve --OPTION as serve start --OPTION\n"
    "    if [[ ${COMP_WORDS[1]} == help && $COMP_CWORD -gt 1 ]]; then\n"
    "        COMP_WORDS=(\"${COMP_WORDS[0]}\" \"${COMP_WORDS[@]:2}\") COMP_CWORD=$((COMP_CWORD - 1))\n"
    "    elif [[ ${COMP_WORDS[1]} == serve && $COMP_CWORD -gt 1 && ${COMP_WORDS[2]} == -* ]]; then\n"
    "        COMP_WORDS=(\"${COMP_WORDS[@]:0:2}\" start \"${COMP_WORDS[@]:2}\") COMP_CWORD=$((COMP_CWORD + 1))\n"
    "    fi\n";

/* Returns the type by which the value of an option is completed: "FILE", also of a list, and "FILE|JSON" are files. */
static enum value_type value_of(const struct option_about *o)
{
    return o->arg && !strncmp(o->arg, "FILE", 4) ? VALUE_FILE : o->type;
}

/* Appends how bash completes a value of this type. */
static void bash_value(struct buf *out, const char *key, enum value_type type, const char *arg)
{
    const char *words = choices(key, type, arg);
    if (*words)
        buf_addf(out, "words='%s' ;;\n", words);
    else if (type == VALUE_ENDPOINT)
        buf_adds(out, "_q35chat_names \"$cur\" < <(\"${COMP_WORDS[0]}\" --print-config 2>/dev/null | "
                      "sed -n 's/^\\[endpoint \\(.*\\)\\]$/\\1/p'); return ;;\n");
    else if (names_command(type))
        buf_addf(out, "%s_q35chat_names \"$cur\" < <(\"${COMP_WORDS[0]}\" %s --names 2>/dev/null); return ;;\n",
                 type == VALUE_MODEL ? "_q35chat_paths -d \"$cur\"; " : "", names_command(type));
    else if (type == VALUE_FILE || type == VALUE_DIRECTORY)
        buf_addf(out, "_q35chat_paths -%c \"$cur\"; return ;;\n", type == VALUE_FILE ? 'f' : 'd');
    else
        buf_adds(out, "return ;;\n");
}

/* Appends the case of a sub-command: values of its flags, then its flags and words. */
static void bash_command(struct buf *out, const struct sub_row *c)
{
    buf_addf(out, "        %s)\n            case $prev in\n", c->name);
    for (const struct sub_row *f = NULL; (f = sub_next_flag(c, f));)
        if (f->arguments) {
            buf_addf(out, "            --%s", f->name);
            if (sub_letter(f))
                buf_addf(out, "|-%c", sub_letter(f));
            buf_adds(out, ") ");
            bash_value(out, f->name, f->type, f->arguments);
        }
    buf_adds(out, "            *)\n                case $cur in\n                -*) words='--help");
    for (const struct sub_row *f = NULL; (f = sub_next_flag(c, f));)
        buf_addf(out, " --%s", f->name);
    buf_adds(out, "' ;;\n                *) ");
    bash_value(out, c->name, c->type, c->arguments);
    buf_adds(out, "                esac ;;\n            esac ;;\n");
}

/* Appends the completion script of bash. */
static void bash(struct buf *out)
{
    struct option_about o;
    buf_adds(out, bash_head);
    buf_adds(out, "    [[ $COMP_CWORD -gt 1 ]] && case ${COMP_WORDS[1]} in\n");
    for (const struct sub_row *g = NULL; (g = sub_next(g, SUB_GROUP));) {
        const char *alias = sub_alias(g);
        buf_addf(out, "    %s%s%s)\n        [[ $COMP_CWORD -gt 2 ]] || words='--help", g->name, alias ? "|" : "", alias ? alias : "");
        for (const struct sub_row *c = g; (c = sub_next(c, SUB_COMMAND));)
            buf_addf(out, " %s", c->name);
        buf_adds(out, "'\n        [[ -n $words ]] || case ${COMP_WORDS[2]} in\n");
        for (const struct sub_row *c = g; (c = sub_next(c, SUB_COMMAND));)
            bash_command(out, c);
        buf_adds(out, "        *) return ;;\n        esac ;;\n");
    }
    buf_adds(out, "    esac\n    [[ -n $words ]] || case $prev in\n");
    for (int id = 0; options_about((enum option_id)id, &o); id++)
        if (o.arg) {
            buf_addf(out, "    --%s", dashed(o.key));
            if (o.letter)
                buf_addf(out, "|-%c", o.letter);
            buf_adds(out, ") ");
            bash_value(out, o.key, value_of(&o), o.arg);
        }
    buf_adds(out, "    esac\n    [[ -n $words || $cur != -* ]] || words='");
    for (int id = 0; options_about((enum option_id)id, &o); id++) {
        buf_addf(out, "%s--%s", id ? " " : "", dashed(o.key));
        if (has_no(&o))
            buf_addf(out, " --no-%s", dashed(o.key));
    }
    buf_adds(out, "'\n    [[ -n $words || $COMP_CWORD -gt 1 ]] || words='help");
    for (const struct sub_row *g = NULL; (g = sub_next(g, SUB_GROUP));)
        buf_addf(out, " %s", g->name);
    buf_adds(out, "'\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -F _q35chat q35chat\n");
}

/* --- zsh --------------------------------------------------------------------------------------------------------- */

static const char zsh_head[] =
    "#compdef q35chat\n# zsh completion for q35chat, made by: q35chat --print-completions zsh\n\n"
    "_q35chat_names() {\n"
    "    local -a names\n"
    "    names=(${(f)\"$(_call_program names ${(q)words[1]} $1 $2 --names 2>/dev/null)\"})\n"
    "    _wanted names expl $1 compadd -a names\n"
    "    [[ $1 != model ]] || _files -/\n"
    "}\n\n"
    "_q35chat_endpoints() {\n"
    "    local -a names\n"
    "    names=(${(f)\"$(_call_program endpoints ${(q)words[1]} --print-config 2>/dev/null | sed -n 's/^\\[endpoint \\(.*\\)\\]$/\\1/p')\"})\n"
    "    _wanted endpoints expl endpoint compadd -a names\n"
    "}\n\n";

static void zsh_text(struct buf *out, const char *s)
{
    add_quoted(out, s, ":[]\\", "'\\''");
}

/* Appends the action of zsh for values of this type, " " where it has none. */
static void zsh_action(struct buf *out, enum value_type type)
{
    if (names_command(type))
        buf_addf(out, "_q35chat_names %s", names_command(type));
    else
        buf_adds(out, type == VALUE_DIRECTORY ? "_files -/" : type == VALUE_FILE ? "_files" : type == VALUE_ENDPOINT ? "_q35chat_endpoints" : " ");
}

/* Appends how zsh completes a value of this type. */
static void zsh_value(struct buf *out, const char *key, enum value_type type, const char *arg)
{
    const char *words = choices(key, type, arg);
    buf_adds(out, ":");
    zsh_text(out, *words ? dashed(key) : arg);
    buf_addc(out, ':');
    if (*words)
        buf_addf(out, "(%s)", words);
    else
        zsh_action(out, type);
}

/* Appends an option of the chat, and its --no- form. */
static void zsh_option(struct buf *out, const struct option_about *o)
{
    const char *flag = dashed(o->key), *value = o->arg ? "=" : "";
    if (o->letter && o->repeats)
        buf_addf(out, "        '*'{-%c+,--%s=}'[", o->letter, flag);
    else if (o->letter)
        buf_addf(out, "        '(-%c --%s)'{-%c%s,--%s%s}'[", o->letter, flag, o->letter, o->arg ? "+" : "", flag, value);
    else
        buf_addf(out, "        '%s--%s%s[", o->repeats ? "*" : "", flag, value);
    zsh_text(out, o->help);
    buf_addc(out, ']');
    if (o->arg)
        zsh_value(out, o->key, value_of(o), o->arg);
    buf_adds(out, "' \\\n");
    if (has_no(o)) {
        buf_addf(out, "        '--no-%s[off\\: ", flag);
        zsh_text(out, o->help);
        buf_adds(out, "]' \\\n");
    }
}

/* Appends the case of a sub-command. */
static void zsh_command(struct buf *out, const struct sub_row *c)
{
    buf_addf(out, "        %s)\n            _arguments \\\n", c->name);
    for (const struct sub_row *f = NULL; (f = sub_next_flag(c, f));) {
        buf_addf(out, "                '--%s%s[", f->name, f->arguments ? "=" : "");
        zsh_text(out, f->help);
        buf_addc(out, ']');
        if (f->arguments)
            zsh_value(out, f->name, f->type, f->arguments);
        buf_adds(out, "' \\\n");
    }
    buf_adds(out, "                '--help[its options]'");
    if (*choices(c->name, c->type, c->arguments) || c->type != VALUE_TEXT) {      /* words that are only described hide the options */
        buf_adds(out, " \\\n                '*");
        zsh_value(out, c->name, c->type, c->arguments);
        buf_addc(out, '\'');
    }
    buf_adds(out, "\n            return ;;\n");
}

/* Appends the completion script of zsh. */
static void zsh(struct buf *out)
{
    struct option_about o;
    buf_adds(out, zsh_head);
    buf_adds(out, "_q35chat() {\n    local curcontext=$curcontext expl\n"
                  "    # help GROUP COMMAND is completed as GROUP COMMAND, serve --OPTION as serve start --OPTION\n"
                  "    if [[ $words[2] == help ]] && (( CURRENT > 2 )); then\n"
                  "        words=(\"$words[1]\" \"${(@)words[3,-1]}\")\n        (( CURRENT -= 1 ))\n"
                  "    elif [[ $words[2] == serve && $words[3] == -* ]] && (( CURRENT > 2 )); then\n"
                  "        words=(\"${(@)words[1,2]}\" start \"${(@)words[3,-1]}\")\n        (( CURRENT += 1 ))\n    fi\n"
                  "    (( CURRENT > 2 )) && case $words[2] in\n");
    for (const struct sub_row *g = NULL; (g = sub_next(g, SUB_GROUP));) {
        const char *alias = sub_alias(g);
        buf_addf(out, "    %s%s%s)\n        local -a words_of=(", g->name, alias ? "|" : "", alias ? alias : "");
        for (const struct sub_row *c = g; (c = sub_next(c, SUB_COMMAND));) {
            buf_addf(out, "\n            '%s:", c->name);
            zsh_text(out, c->help);
            buf_addc(out, '\'');
        }
        buf_adds(out, ")\n        if (( CURRENT == 3 )); then _describe -t commands command words_of; return; fi\n"
                      "        local command=$words[3]\n        words=(\"$words[1]\" \"${(@)words[4,-1]}\")\n        (( CURRENT -= 2 ))\n"
                      "        case $command in\n");
        for (const struct sub_row *c = g; (c = sub_next(c, SUB_COMMAND));)
            zsh_command(out, c);
        buf_adds(out, "        esac\n        return ;;\n");
    }
    buf_adds(out, "    esac\n    local -a subcommands=( 'help:sub-commands'");
    for (const struct sub_row *g = NULL; (g = sub_next(g, SUB_GROUP));) {
        buf_addf(out, " '%s:", g->name);
        zsh_text(out, g->help);
        buf_addc(out, '\'');
    }
    buf_adds(out, " )\n    _arguments -s \\\n");
    for (int id = 0; options_about((enum option_id)id, &o); id++)
        zsh_option(out, &o);
    buf_adds(out, "        '1: :{ _describe -t commands command subcommands }' \\\n        '*: :_message prompt'\n}\n\n"
                  "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _q35chat \"$@\"; else compdef _q35chat q35chat; fi\n");
}

/* --- fish -------------------------------------------------------------------------------------------------------- */

static const char fish_head[] =
    "# fish completion for q35chat, made by: q35chat --print-completions fish\n\n"
    "function __q35chat_names\n"
    "    set -l words (commandline -opc)\n"
    "    $words[1] $argv --names 2>/dev/null\n"
    "end\n\n"
    "function __q35chat_endpoints\n"
    "    set -l words (commandline -opc)\n"
    "    $words[1] --print-config 2>/dev/null | sed -n 's/^\\[endpoint \\(.*\\)\\]$/\\1/p'\n"
    "end\n\n"
    "# __q35chat_at N [SUBCOMMAND [WORD]]: whether word N (the last: N or later) of that subcommand is being typed.\n"
    "# help GROUP COMMAND counts as GROUP COMMAND, serve --OPTION as serve start --OPTION.\n"
    "function __q35chat_at\n"
    "    set -l words (commandline -opc)\n"
    "    set -l next $words[3..] (commandline -ct)\n"
    "    test \"$words[2]\" != help; or set -e words[2]\n"
    "    test \"$words[2]\" = serve; and string match -q -- '-*' \"$next[1]\"; and set words $words[1..2] start $words[3..]\n"
    "    set -l n (count $words)\n"
    "    test $n -ge $argv[1]; or return 1\n"
    "    test $argv[1] -ge 3; or test $n -eq $argv[1]; or return 1\n"
    "    test (count $argv) -lt 2; or test \"$words[2]\" = $argv[2]; or return 1\n"
    "    test (count $argv) -lt 3; or test \"$words[3]\" = $argv[3]\n"
    "end\n\n"
    "function __q35chat_chats\n"
    "    set -l words (commandline -opc)\n"
    "    not contains -- \"$words[2]\" help";

static void fish_text(struct buf *out, const char *s)
{
    add_quoted(out, s, "\\", "\\'");
}

/* Appends the commands by which fish finds values of this type, each in parentheses; none where it has none. */
static void fish_finders(struct buf *out, enum value_type type)
{
    if (names_command(type))
        buf_addf(out, "(__q35chat_names %s)%s", names_command(type), type == VALUE_MODEL ? " " : "");
    if (type == VALUE_DIRECTORY || type == VALUE_MODEL)
        buf_adds(out, "(__fish_complete_directories (commandline -ct))");
    if (type == VALUE_ENDPOINT)
        buf_adds(out, "(__q35chat_endpoints)");
}

/* Appends how fish completes a value of this type. */
static void fish_value(struct buf *out, const char *key, enum value_type type, const char *arg)
{
    struct buf found = {0};
    buf_adds(&found, choices(key, type, arg));
    fish_finders(&found, type);
    if (found.len)
        buf_addf(out, " -x -a '%s'", found.data);
    else
        buf_adds(out, type == VALUE_FILE ? " -r -F" : " -x");
    buf_free(&found);
}

/* Appends an option of the chat; `not` is "no-" for the form that switches it off, else "". */
static void fish_option(struct buf *out, const struct option_about *o, const char *not)
{
    buf_addf(out, "complete -c q35chat -n __q35chat_chats -l %s%s", not, dashed(o->key));
    if (o->letter && !*not)
        buf_addf(out, " -s %c", o->letter);
    if (o->arg && !*not)
        fish_value(out, o->key, value_of(o), o->arg);
    buf_adds(out, *not ? " -d 'off: " : " -d '");
    fish_text(out, o->help);
    buf_adds(out, "'\n");
}

/* Appends a sub-command, its words and its flags, for a name of its group. */
static void fish_command(struct buf *out, const char *group, const struct sub_row *c)
{
    struct buf found = {0};
    buf_adds(&found, choices(c->name, c->type, c->arguments));
    fish_finders(&found, c->type);
    buf_addf(out, "complete -c q35chat -n '__q35chat_at 2 %s' -a %s -d '", group, c->name);
    fish_text(out, c->help);
    buf_adds(out, "'\n");
    if (found.len)
        buf_addf(out, "complete -c q35chat -n '__q35chat_at 3 %s %s' -a '%s'\n", group, c->name, found.data);
    buf_free(&found);
    for (const struct sub_row *f = NULL; (f = sub_next_flag(c, f));) {
        buf_addf(out, "complete -c q35chat -n '__q35chat_at 3 %s %s' -l %s", group, c->name, f->name);
        if (f->arguments)
            fish_value(out, f->name, f->type, f->arguments);
        buf_adds(out, " -d '");
        fish_text(out, f->help);
        buf_adds(out, "'\n");
    }
}

/* Appends the completion script of fish. */
static void fish(struct buf *out)
{
    struct option_about o;
    buf_adds(out, fish_head);
    for (const struct sub_row *g = NULL; (g = sub_next(g, SUB_GROUP));)
        buf_addf(out, " %s %s", g->name, sub_alias(g) ? sub_alias(g) : "");
    buf_adds(out, "\nend\n\ncomplete -c q35chat -f\ncomplete -c q35chat -n '__q35chat_at 1' -a help -d sub-commands\n");
    for (const struct sub_row *g = NULL; (g = sub_next(g, SUB_GROUP));) {
        buf_addf(out, "complete -c q35chat -n '__q35chat_at 1' -a %s -d '", g->name);
        fish_text(out, g->help);
        buf_adds(out, "'\n");
        for (const struct sub_row *c = g; (c = sub_next(c, SUB_COMMAND));) {
            fish_command(out, g->name, c);
            if (sub_alias(g))
                fish_command(out, sub_alias(g), c);
        }
    }
    for (int id = 0; options_about((enum option_id)id, &o); id++) {
        fish_option(out, &o, "");
        if (has_no(&o))
            fish_option(out, &o, "no-");
    }
}

void completions_print(const char *shell, struct buf *out)
{
    if (!strcmp(shell, "zsh"))
        zsh(out);
    else if (!strcmp(shell, "fish"))
        fish(out);
    else
        bash(out);
}
