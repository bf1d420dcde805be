#include "ui/choices.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/unicode.h"
#include "chat/command.h"

static void add_choice(const char *word, const char *note, void *arg)
{
    struct choices *c = arg;
    if (strncmp(word, c->word, c->have))
        return;                         /* its title matches, but here words can only grow */
    if (!c->n)
        buf_adds(&c->common, word);
    size_t same = 0;
    while (same < c->common.len && c->common.data[same] == word[same])
        same++;
    while (same && same < strlen(word) && ((unsigned char)word[same] & 0xc0) == 0x80)
        same--;                         /* not into the middle of a character */
    c->common.len = same;
    if (c->common.data)
        c->common.data[same] = 0;
    buf_addf(&c->all, note && *note ? "%s (%s)  " : "%s  ", word, note);
    c->n++;
}

static void add_file_names(const char *word, struct choices *c)
{
    const char *slash = strrchr(word, '/'), *base = slash ? slash + 1 : word, *home = getenv("HOME");
    struct buf dir = {0}, name = {0};
    if (!strncmp(word, "~/", 2) && home)
        buf_addf(&dir, "%s/%.*s", home, (int)(base - word - 2), word + 2);
    else
        buf_addf(&dir, "%.*s", (int)(base - word), word);
    DIR *d = opendir(dir.len ? dir.data : ".");
    for (struct dirent *f; d && (f = readdir(d));) {
        struct stat st;
        if (strncmp(f->d_name, base, strlen(base)) || (*f->d_name == '.' && *base != '.') || !unicode_valid(f->d_name, strlen(f->d_name)))
            continue;
        bool is_dir = fstatat(dirfd(d), f->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
        buf_reset(&name);
        buf_addf(&name, "%.*s%s%s", (int)(base - word), word, f->d_name, is_dir ? "/" : "");
        add_choice(name.data, NULL, c);
    }
    if (d)
        closedir(d);
    buf_free(&dir);
    buf_free(&name);
}

void choices_find(struct choices *c, const char *line)
{
    const char *blank = strrchr(line, ' '), *word = blank ? blank + 1 : line;
    *c = (struct choices){.word = word, .have = strlen(word)};
    if (command_complete(line, add_choice, c)) {
        c->word = word += *word == '@';
        c->have = strlen(word);
        add_file_names(word, c);
    }
}

void choices_free(struct choices *c)
{
    buf_free(&c->common);
    buf_free(&c->all);
}
