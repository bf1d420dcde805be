/* Does an emulator run this program?  For the few lines of tests about what qemu-user does otherwise than Linux. */
#ifndef Q35_TESTS_EMULATED_H
#define Q35_TESTS_EMULATED_H

#include <stdbool.h>
#include <stdlib.h>

/* As tests/run.sh says, or who runs the program alone. */
static inline bool emulated(void)
{
    const char *emulator = getenv("EMULATOR");
    return emulator && *emulator;
}

#endif
