#include "option/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "option/flags.h"
#include "option/paths.h"

/* --- a key in a file --------------------------------------------------------------------------------------------- */

enum { RANDOM_BYTES = 24, LONGEST_KEY = 4096, LONGEST_KEY_FILE = 1 << 20 };

/* Creates a file with a random key.  False if it exists or cannot be written. */
static bool make_key(const char *path, struct err *e)
{
    unsigned char bytes[RANDOM_BYTES];
    struct buf line = {0};
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return err_set(e, "cannot make a key: %s", strerror(errno));
    buf_adds(&line, "q35-");
    for (int i = 0; i < RANDOM_BYTES; i++)
        buf_addf(&line, "%02x", bytes[i]);
    buf_addc(&line, '\n');
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && file_write(fd, line.data, line.len);
    if (!ok)
        err_set(e, "cannot write the key file %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    buf_free(&line);
    return ok;
}

/* True if the owner alone can read the file.  Checks the open file, so that nobody changes it in between. */
static bool is_private_key(int fd, const char *path, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return err_set(e, "cannot read the key file %s: %s", path, strerror(errno));
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(e, "the key file %s can be read by others: chmod 600 makes it yours alone", path);
    return S_ISREG(st.st_mode) || err_set(e, "the key file %s is not a file", path);
}

bool key_file_read(const char *path, bool makes, struct buf *text, struct err *e)
{
    if (makes && access(path, F_OK) && errno == ENOENT && !make_key(path, e))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set(e, "cannot read the key file %s: %s", path, strerror(errno));
    const bool ok = is_private_key(fd, path, e) && file_read_fd(text, fd, path, LONGEST_KEY_FILE, e);
    close(fd);
    return ok;
}

/* Returns the key of the first line that is no comment, which may have a name before it (serve/keys.h). */
static struct text first_key(struct text all)
{
    struct text line = {0};
    while (all.n && (!line.n || line.p[0] == '#')) {
        const char *end = memchr(all.p, '\n', all.n);
        const size_t n = end ? (size_t)(end - all.p) : all.n, past = end ? n + 1 : n;
        line = text_trim((struct text){all.p, n});
        all = (struct text){all.p + past, all.n - past};
    }
    size_t from = line.n && line.p[0] != '#' ? line.n : 0;
    line.n = from;
    while (from && line.p[from - 1] != ' ' && line.p[from - 1] != '\t')
        from--;
    return (struct text){line.p + from, line.n - from};
}

bool key_read(const char *path, struct buf *key, struct err *e)
{
    struct buf text = {0};
    bool ok = key_file_read(path, false, &text, e);
    const struct text found = ok ? first_key((struct text){buf_str(&text), text.len}) : (struct text){0};
    buf_add(key, found.p, found.n);
    buf_free(&text);
    ok = ok && (key->len <= LONGEST_KEY || err_set(e, "the key in %s has more than %d characters", path, LONGEST_KEY));
    for (size_t i = 0; ok && i < key->len; i++)
        if (key->data[i] <= ' ' || key->data[i] > '~')
            ok = err_set(e, "the key file %s holds a key with characters that cannot be sent", path);
    return ok && (key->len || err_set(e, "the key file %s is empty", path));
}

/* --- the server -------------------------------------------------------------------------------------------------- */

bool endpoint_is_socket(const char *url, const char **path)
{
    static const char scheme[] = "unix:";
    *path = url + strlen(scheme);
    return !strncmp(url, scheme, strlen(scheme));
}

bool endpoint_is_address(const char *s)
{
    static const char *const schemes[] = {"http://", "https://", "unix:"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t n = strlen(schemes[i]);
        if (!strncmp(s, schemes[i], n))
            return s[n] != 0;
    }
    return false;
}

/* Refuses a name without a section. */
static bool refuse_unknown(const struct options *o, const char *name, struct err *e)
{
    struct buf names = {0};
    for (int i = 0; i < options_n_endpoints(o); i++)
        buf_addf(&names, "%s%s", i ? ", " : "", options_endpoint(o, i)->name);
    err_set(e, "the endpoint is '%s', expected an address that begins with http:// or https://, unix:PATH, or the name of an [endpoint NAME] "
               "section of the config file, which has %s", name, names.len ? names.data : "none");
    buf_free(&names);
    return false;
}

static const struct option_endpoint *find_section(const struct options *o, const char *name)
{
    for (int i = 0; i < options_n_endpoints(o); i++)
        if (!strcmp(options_endpoint(o, i)->name, name))
            return options_endpoint(o, i);
    return NULL;
}

/* Returns NULL for a text that is empty. */
static const char *unless_empty(const char *value)
{
    return value && *value ? value : NULL;
}

/* Returns the value of an option for this endpoint.  The section's value holds, except against conversation and command line.  Without one the option
 * counts if it was set where the endpoint was, or by a stronger source: with --endpoint, a model of the config file means a checkpoint of this
 * machine. */
static const char *chosen(const struct options *o, enum option_id id, const char *own)
{
    enum option_from least = unless_empty(own) ? FROM_CONVERSATION : options_from(o, OPT_endpoint);
    return options_given(o, id) && options_from(o, id) >= least ? unless_empty(options_text(o, id)) : unless_empty(own);
}

/* Reads the key of an endpoint that names none from the usual variables. */
static void usual_key(struct endpoint *ep)
{
    const char *own = unless_empty(getenv("Q35CHAT_API_KEY")), *usual = own ? NULL : unless_empty(getenv("OPENAI_API_KEY"));
    buf_adds(&ep->key_from, usual ? "OPENAI_API_KEY" : "Q35CHAT_API_KEY");
    buf_adds(&ep->key, own ? own : usual ? usual : "");
}

/* Reads the endpoint's key from the variable or the file that its section names, else from the usual places. */
static bool read_key(const struct option_endpoint *s, struct endpoint *ep, struct err *e)
{
    const char *env = unless_empty(s->key_env), *file = unless_empty(s->key_file);
    if (env && file)
        return err_set(e, "[endpoint %s] has key_env and key_file, expected one of them", s->name);
    if (env) {
        const char *key = unless_empty(getenv(env));
        buf_adds(&ep->key_from, env);
        buf_adds(&ep->key, key ? key : "");
        return key || err_set(e, "[endpoint %s] takes its key from the environment variable %s, which is not set", s->name, env);
    }
    if (!file) {
        usual_key(ep);
        return true;
    }
    paths_expand(&ep->key_from, file);
    return key_read(ep->key_from.data, &ep->key, e);
}

/* Sets the file of the authorities to trust. */
static bool read_authorities(const struct option_endpoint *s, struct endpoint *ep, struct err *e)
{
    if (!unless_empty(s->ca_file))
        return true;
    struct stat st;
    paths_expand(&ep->ca_file, s->ca_file);
    if (stat(ep->ca_file.data, &st) || access(ep->ca_file.data, R_OK))
        return err_set(e, "cannot read %s, the ca_file of [endpoint %s]: %s", ep->ca_file.data, s->name, strerror(errno));
    return S_ISREG(st.st_mode) || err_set(e, "%s, the ca_file of [endpoint %s], is not a regular file", ep->ca_file.data, s->name);
}

bool endpoint_find(const struct options *o, struct endpoint *ep, struct err *e)
{
    static const struct option_endpoint nothing;
    const char *name = options_text(o, OPT_endpoint);
    const struct option_endpoint *s = endpoint_is_address(name) ? &nothing : find_section(o, name);
    *ep = (struct endpoint){0};
    if (!s)
        return refuse_unknown(o, name, e);
    ep->url = s->name ? unless_empty(s->url) : name;
    ep->model = chosen(o, OPT_model, s->model);
    ep->dialect = chosen(o, OPT_dialect, s->dialect);
    if (!ep->url || !endpoint_is_address(ep->url))
        return err_set(e, "[endpoint %s] has the url '%s', expected an address that begins with http:// or https://, or unix:PATH", s->name,
                       ep->url ? ep->url : "");
    if (ep->dialect && !value_check(VALUE_CHOICE, "the dialect of the endpoint", ep->dialect, options_choices(OPT_dialect), 0, 0, e))
        return false;
    return read_key(s, ep, e) && read_authorities(s, ep, e);
}

/* Looks at the command line alone: options of a config file are for models that are loaded here. */
void endpoint_unused(const struct options *o, struct buf *out)
{
    const char *name = options_text(o, OPT_endpoint), *path;
    const struct option_endpoint *s = endpoint_is_address(name) ? NULL : find_section(o, name);
    const bool takes_steps = endpoint_is_socket(s && s->url ? s->url : name, &path);
    struct option_about about;
    struct buf flags = {0};
    for (int id = 0; *name && options_about((enum option_id)id, &about); id++) {
        if (options_from(o, (enum option_id)id) != FROM_COMMAND_LINE || !(about.of_engine || (about.of_steps && !takes_steps)))
            continue;
        buf_adds(&flags, flags.len ? ", --" : "--");
        flags_add_dashed(&flags, about.key);
    }
    if (flags.len)
        buf_addf(out, "--endpoint leaves %s without effect: the server that answers has its own settings", flags.data);
    buf_free(&flags);
}

void endpoint_free(struct endpoint *ep)
{
    buf_free(&ep->key);
    buf_free(&ep->key_from);
    buf_free(&ep->ca_file);
}
