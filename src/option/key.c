#include "option/key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANDOM_BYTES = 24, LONGEST = 4096 };

static bool make(const char *path, struct err *e)
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
    bool ok = fd >= 0 && buf_write(fd, line.data, line.len);
    if (!ok)
        err_set(e, "cannot write the key file %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    buf_free(&line);
    return ok;
}

/* Of the very file that is read, so that nobody changes it in between. */
static bool is_private(int fd, const char *path, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return err_set(e, "cannot read the key file %s: %s", path, strerror(errno));
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(e, "the key file %s can be read by others: chmod 600 makes it yours alone", path);
    return S_ISREG(st.st_mode) || err_set(e, "the key file %s is not a file", path);
}

bool key_read(const char *path, bool makes, struct buf *key, struct err *e)
{
    if (makes && access(path, F_OK) && errno == ENOENT && !make(path, e))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set(e, "cannot read the key file %s: %s", path, strerror(errno));
    bool ok = is_private(fd, path, e) && buf_read_fd(key, fd, path, LONGEST, e);
    close(fd);
    if (ok)
        key->len = strcspn(buf_str(key), "\r\n");
    if (ok && key->len)
        key->data[key->len] = 0;
    for (size_t i = 0; ok && i < key->len; i++)
        if (key->data[i] <= ' ' || key->data[i] > '~')
            ok = err_set(e, "the key file %s holds a key with characters that cannot be sent", path);
    return ok && (key->len || err_set(e, "the key file %s is empty", path));
}
