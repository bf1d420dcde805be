/* Mapped files.  If a mapped file shrinks, the next read of it raises SIGBUS, which ends the program; the handler here restores
 * the terminal and names the file. */
#pragma once

#include <stddef.h>

void mapped_watch(void);                /* once, at the start: installs the SIGBUS handler and saves the terminal settings */
void mapped_add(const void *at, size_t n, const char *path);
void mapped_drop(const void *at);
