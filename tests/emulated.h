/* Does qemu-user or a sanitizer run this program?  For the few test lines where they behave differently from Linux. */
#ifndef Q35_TESTS_EMULATED_H
#define Q35_TESTS_EMULATED_H

#include <stdbool.h>
#include <stdlib.h>

/* Under qemu-user?  Set by tests/run.sh, or by hand when a program is run alone. */
static inline bool emulated(void)
{
    const char *emulator = getenv("EMULATOR");
    return emulator && *emulator;
}

/* gcc says so by the first, clang by the second. */
#ifdef __has_feature
#define Q35_THREAD_SANITIZER __has_feature(thread_sanitizer)
#elif defined __SANITIZE_THREAD__
#define Q35_THREAD_SANITIZER 1
#else
#define Q35_THREAD_SANITIZER 0
#endif

/* Does a child of vfork() share our memory?  qemu-user and the thread sanitizer's runtime fork instead. */
static inline bool vfork_shares(void)
{
    return !Q35_THREAD_SANITIZER && !emulated();
}

#endif
