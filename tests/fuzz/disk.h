/* A simulated disk that becomes full, cannot be written or synced, or "kills" the program in the middle of a call.  These definitions
 * are linked instead of those of the C library.  Reads return what has reached the files. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum disk_mode {
    DISK_WORKS,
    DISK_FULL,                          /* half of a write succeeds, then nothing */
    DISK_READ_ONLY,                     /* no file can be created or written */
    DISK_NO_SYNC,                       /* writes succeed, syncs fail */
    DISK_FLAKY,                         /* a third of all calls fail */
    DISK_LIES,                          /* writes succeed but store nothing; checks that the tests notice */
    N_DISK_MODES = DISK_LIES,
};

static struct {
    enum disk_mode mode;
    uint32_t dice;                      /* of DISK_FLAKY */
    int  kill_in;                       /* number of calls until the program is killed; 0: never */
    bool dead;                          /* it was killed: nothing changes files any more */
    bool half;                          /* the next write fails, since only half of the last one succeeded */
    unsigned n_made;                    /* temporary files, for their names */
} disk;

enum disk_verdict { DISK_DO, DISK_HALF, DISK_REFUSE };

/* The fate of a call that changes a file. */
static inline enum disk_verdict disk_verdict(bool is_write, bool is_sync)
{
    if (disk.dead)
        return DISK_REFUSE;
    if (disk.kill_in && !--disk.kill_in) {
        disk.dead = true;
        return is_write ? DISK_HALF : DISK_REFUSE;
    }
    disk.dice = disk.dice * 1664525 + 1013904223;
    switch (disk.mode) {
    case DISK_FULL:
        if (is_write)
            disk.half = !disk.half;
        return !is_write ? DISK_DO : disk.half ? DISK_HALF : DISK_REFUSE;
    case DISK_READ_ONLY:
        return is_sync ? DISK_DO : DISK_REFUSE;
    case DISK_NO_SYNC:
        return is_sync ? DISK_REFUSE : DISK_DO;
    case DISK_FLAKY:
        return disk.dice >> 16 & 3 ? DISK_DO : disk.dice >> 20 & 1 ? DISK_HALF : DISK_REFUSE;
    default:
        return DISK_DO;
    }
}

static inline int disk_refuse(int why)
{
    errno = why;
    return -1;
}

static inline bool disk_is_file(int fd)
{
    struct stat st;
    return !fstat(fd, &st) && S_ISREG(st.st_mode);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    if (!disk_is_file(fd))
        return syscall(SYS_write, fd, bytes, n);
    if (disk.mode == DISK_LIES)
        return (ssize_t)n;
    switch (disk_verdict(true, false)) {
    case DISK_HALF:
        return n > 1 ? syscall(SYS_write, fd, bytes, n / 2) : disk_refuse(ENOSPC);
    case DISK_REFUSE:
        return disk_refuse(ENOSPC);
    default:
        return syscall(SYS_write, fd, bytes, n);
    }
}

int fsync(int fd)
{
    (void)fd;                           /* nothing waits for a real disk here */
    return disk_verdict(false, true) == DISK_DO ? 0 : disk_refuse(EIO);
}

int fdatasync(int fd)
{
    return fsync(fd);
}

int ftruncate(int fd, off_t n)
{
    return disk_verdict(false, false) == DISK_DO ? (int)syscall(SYS_ftruncate, fd, n) : disk_refuse(EIO);
}

/* The old file goes first: a rename over a file may wait for a real disk. */
int rename(const char *from, const char *to)
{
    if (disk_verdict(false, false) != DISK_DO)
        return disk_refuse(EIO);
    if (!access(from, F_OK))
        syscall(SYS_unlinkat, AT_FDCWD, to, 0);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int link(const char *from, const char *to)
{
    return disk_verdict(false, false) == DISK_DO ? (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0) : disk_refuse(EIO);
}

int unlink(const char *path)
{
    return disk_verdict(false, false) == DISK_DO ? (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0) : disk_refuse(EIO);
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    if (flags & O_CREAT && disk_verdict(false, false) != DISK_DO)
        return disk_refuse(ENOSPC);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int mkostemp(char *path, int flags)
{
    do                                  /* one of a killed program may still be there */
        snprintf(path + strlen(path) - 6, 7, "%06u", disk.n_made++ % 1000000);
    while (!access(path, F_OK));
    return open(path, O_RDWR | O_CREAT | O_EXCL | flags, 0600);
}
