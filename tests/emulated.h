/* Does qemu-user or a sanitizer run this program?  For the few test lines where they behave differently from Linux,
 * and those that take long. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>

/* Under qemu-user?  Set by tests/run.sh, or by hand when a program is run alone. */
static inline bool emulated(void)
{
    const char *emulator = getenv("EMULATOR");
    return emulator && *emulator;
}

/* clang says so by the first, gcc by the others. */
#ifdef __has_feature
#define Q35_THREAD_SANITIZER __has_feature(thread_sanitizer)
#define Q35_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#ifdef __SANITIZE_THREAD__
#define Q35_THREAD_SANITIZER 1
#else
#define Q35_THREAD_SANITIZER 0
#endif
#ifdef __SANITIZE_ADDRESS__
#define Q35_ADDRESS_SANITIZER 1
#else
#define Q35_ADDRESS_SANITIZER 0
#endif
#endif

/* Everything takes ten times as long: tests do the same with less. */
enum { SANITIZED = Q35_THREAD_SANITIZER || Q35_ADDRESS_SANITIZER };

/* Does a child of vfork() share our memory?  qemu-user and the thread sanitizer's runtime fork instead. */
static inline bool vfork_shares(void)
{
    return !Q35_THREAD_SANITIZER && !emulated();
}
