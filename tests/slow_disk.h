/* A disk that takes as long as a test wants, to write what is in memory or to read what is not, or that cannot: these take the place of the library's
 * fsync(), fdatasync() and pread().  The thread that made it slow is not to wait for it to write: it does not, but that it would have is counted. */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool disk_is_slow, disk_is_asked;
static atomic_bool disk_reads_are_slow, disk_read_is_asked;
static atomic_int disk_fails_with, disk_n_waits, disk_n_files, disk_n_directories;       /* n_files, n_directories: synced since disk_slow() */
static pthread_t disk_thread;

static inline int disk_sync(int fd, long call)
{
    struct stat st;
    int why;
    atomic_store(&disk_is_asked, true);
    if (atomic_load(&disk_is_slow) && pthread_equal(pthread_self(), disk_thread))
        atomic_fetch_add(&disk_n_waits, 1);
    else
        while (atomic_load(&disk_is_slow))
            usleep(1000);
    if ((why = atomic_load(&disk_fails_with))) {
        errno = why;
        return -1;
    }
    if (!fstat(fd, &st))
        atomic_fetch_add(S_ISDIR(st.st_mode) ? &disk_n_directories : &disk_n_files, 1);
    return (int)syscall(call, fd);
}

int fdatasync(int fd)
{
    return disk_sync(fd, SYS_fdatasync);
}

int fsync(int fd)
{
    return disk_sync(fd, SYS_fsync);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    atomic_store(&disk_read_is_asked, true);
    while (atomic_load(&disk_reads_are_slow))
        usleep(1000);
    return syscall(SYS_pread64, fd, to, n, at);
}

/* From now on nothing gets to the disk. */
static inline void disk_slow(void)
{
    disk_thread = pthread_self();
    atomic_store(&disk_n_waits, 0);
    atomic_store(&disk_n_files, 0);
    atomic_store(&disk_n_directories, 0);
    atomic_store(&disk_is_asked, false);
    atomic_store(&disk_is_slow, true);
}

/* Waits until something is to be written there. */
static inline void disk_asked(void)
{
    while (!atomic_load(&disk_is_asked))
        usleep(1000);
}

/* All that was asked for is written. */
static inline void disk_fast(void)
{
    atomic_store(&disk_is_slow, false);
}

/* The same of reading. */
static inline void disk_reads_slow(void)
{
    atomic_store(&disk_read_is_asked, false);
    atomic_store(&disk_reads_are_slow, true);
}

static inline void disk_read_asked(void)
{
    while (!atomic_load(&disk_read_is_asked))
        usleep(1000);
}

static inline void disk_reads_fast(void)
{
    atomic_store(&disk_reads_are_slow, false);
}

/* Makes every later request fail; 0: no longer. */
static inline void disk_fail(int why)
{
    atomic_store(&disk_fails_with, why);
}
