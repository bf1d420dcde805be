/* SHA-256 of large files and git's SHA-1 of small ones, computed while their bytes arrive.  The only user of libcrypto.
 * At a multiple of 64 bytes the state is a few words, so a hash can be saved and continued later. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_HEX = 65, DIGEST_BLOCK = 64 };            /* hex digits and a NUL; bytes per hash block */

struct digest;

/* sha256: SHA-256 of the bytes.  Otherwise git's SHA-1 of a file of n_bytes, which hashes that number first. */
struct digest *digest_open(bool sha256, uint64_t n_bytes);
void digest_close(struct digest *d);
void digest_add(struct digest *d, const void *bytes, size_t n);
void digest_end(struct digest *d, char hex[DIGEST_HEX]);        /* nothing may be added after this */

/* The state after the last whole block, as hex digits; returns the number of bytes that it covers.  SHA-256 only. */
uint64_t digest_save(const struct digest *d, char hex[DIGEST_HEX]);
/* Restores a state that covers `n` bytes of the file.  False if `hex` is not a state. */
bool digest_load(struct digest *d, const char *hex, uint64_t n);
