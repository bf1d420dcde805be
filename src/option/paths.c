#include "option/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* Appends $XDG_NAME/q35chat, or $HOME/otherwise/q35chat, and `rest`.  A relative XDG path is ignored, as the specification demands. */
static bool xdg(struct buf *path, const char *name, const char *otherwise, const char *rest)
{
    const char *dir = getenv(name), *home = getenv("HOME");
    if (dir && *dir == '/')
        buf_addf(path, "%s/q35chat%s", dir, rest);
    else if (home && *home == '/')
        buf_addf(path, "%s/%s/q35chat%s", home, otherwise, rest);
    else
        return false;
    return true;
}

bool paths_config(struct buf *path)
{
    return xdg(path, "XDG_CONFIG_HOME", ".config", "/q35chat.conf");
}

bool paths_config_beside(const char *name, struct buf *path, struct err *e)
{
    buf_reset(path);
    if (!xdg(path, "XDG_CONFIG_HOME", ".config", "/"))
        return err_set(e, "no place for %s: neither XDG_CONFIG_HOME nor HOME is set", name);
    buf_adds(path, name);
    return file_make_parents(path->data, e);
}

bool paths_state(struct buf *path, const char *name, struct err *e)
{
    buf_reset(path);
    if (!xdg(path, "XDG_STATE_HOME", ".local/state", "/"))
        return err_set(e, "no place to keep %s: neither XDG_STATE_HOME nor HOME is set", name);
    buf_adds(path, name);
    return file_make_parents(path->data, e);
}

bool paths_machine(struct buf *path)
{
    return xdg(path, "XDG_STATE_HOME", ".local/state", "");
}

bool paths_models(struct buf *path)
{
    return xdg(path, "XDG_DATA_HOME", ".local/share", "/models");
}

void paths_runtime(struct buf *path, const char *name)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");
    unsigned user = (unsigned)geteuid();
    buf_reset(path);
    buf_addf(path, "/run/user/%u", user);
    if (dir && *dir == '/') {
        buf_reset(path);
        buf_addf(path, "%s/q35chat/%s", dir, name);
    } else if (!access(path->data, W_OK)) {
        buf_addf(path, "/q35chat/%s", name);
    } else {
        buf_reset(path);
        buf_addf(path, "/tmp/q35chat-%u/%s", user, name);
    }
}

void paths_expand(struct buf *out, const char *path)
{
    const char *home = getenv("HOME");
    if (!strncmp(path, "~/", 2) && home)
        buf_addf(out, "%s%s", home, path + 1);
    else
        buf_adds(out, path);
}

bool paths_demo(struct buf *dir, struct buf *looked)
{
    static const char *const beside[] = {"assets/demo", "../assets/demo", "../../assets/demo", "../share/q35chat/demo"};
    enum { N_BESIDE = sizeof beside / sizeof *beside };
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = 0;
    char *slash = strrchr(exe, '/');
    for (int i = 0; i <= N_BESIDE; i++) {
        struct buf config = {0};
        buf_reset(dir);
        if (i < N_BESIDE && slash)
            buf_addf(dir, "%.*s/%s", (int)(slash - exe), exe, beside[i]);
        else if (i == N_BESIDE)
            buf_adds(dir, Q35_SHARE "/demo");
        else
            continue;
        buf_addf(&config, "%s/config.json", dir->data);
        bool there = access(config.data, R_OK) == 0;
        buf_free(&config);
        if (there)
            return true;
        buf_addf(looked, "%s %s", looked->len ? "," : "", dir->data);
    }
    buf_reset(dir);
    return false;
}
