/* SHA-256 of a large file and git's SHA-1 of a small one, while their bytes arrive.  The only user of libcrypto.
 * The state at a multiple of 64 bytes is a few words, so that a hash can be put away and gone on with later. */
#ifndef Q35_FETCH_DIGEST_H
#define Q35_FETCH_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_HEX = 65, DIGEST_BLOCK = 64 };            /* hex digits and the 0 behind them; bytes that are hashed at a time */

struct digest;

/* sha256: of the bytes; else the SHA-1 that git gives a file of n_bytes, which hashes that number first. */
struct digest *digest_open(bool sha256, uint64_t n_bytes);
void digest_close(struct digest *d);
void digest_add(struct digest *d, const void *bytes, size_t n);
void digest_end(struct digest *d, char hex[DIGEST_HEX]);        /* nothing may be added behind it */

/* The state behind the last whole block, as hex digits; returns how many bytes of the file are in it.  SHA-256 only. */
uint64_t digest_save(const struct digest *d, char hex[DIGEST_HEX]);
/* Goes on from there: `n` bytes of the file are in it.  False if that is no state. */
bool digest_load(struct digest *d, const char *hex, uint64_t n);

#endif
