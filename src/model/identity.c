#include "model/identity.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

enum { SAMPLES = 16, SAMPLE = 4096 };   /* of a shard; bytes of one */

static int is_part(const struct dirent *f)
{
    const char *dot = strrchr(f->d_name, '.');
    return !strcmp(f->d_name, "config.json") || !strcmp(f->d_name, "model.safetensors.index.json") || (dot && !strcmp(dot, ".safetensors"));
}

/* Adds samples of a file at equal distances, its beginning first; a file that is smaller than the samples together is added as a whole. */
static void add_samples(struct fingerprinter *f, int fd, size_t size)
{
    char sample[SAMPLE];
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t at = size <= SAMPLES * SAMPLE ? i * SAMPLE : (size - SAMPLE) / (SAMPLES - 1) * i;
        ssize_t n = at < size ? pread(fd, sample, sizeof sample, (off_t)at) : 0;
        if (n > 0)
            fingerprint_add(f, sample, (size_t)n);
    }
}

static void add_file(struct fingerprinter *f, const char *dir, const char *name)
{
    struct buf path = {0};
    struct stat st;
    buf_addf(&path, "%s/%s", dir, name);
    int fd = open(path.data, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode)) {
        const uint64_t size = (uint64_t)st.st_size;
        fingerprint_add(f, name, strlen(name) + 1);
        fingerprint_add(f, &size, sizeof size);
        add_samples(f, fd, (size_t)size);
    }
    if (fd >= 0)
        close(fd);
    buf_free(&path);
}

void identity_add_model(struct fingerprinter *f, const char *dir)
{
    struct dirent **files;
    int n = scandir(dir, &files, is_part, alphasort);
    for (int i = 0; i < n; i++) {
        add_file(f, dir, files[i]->d_name);
        free(files[i]);
    }
    if (n >= 0)
        free(files);
}
