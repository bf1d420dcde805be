/* Checksums of bytes that are read back from a disk: XXH3, which is fast but not cryptographic.  The only user of xxHash. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t checksum(const void *bytes, size_t n);

/* 128 bits over many pieces, for identities: two different inputs must not have equal ones. */
struct fingerprint { uint64_t low, high; };
struct fingerprinter;
struct fingerprinter *fingerprint_begin(void);
void fingerprint_add(struct fingerprinter *f, const void *bytes, size_t n);
struct fingerprint fingerprint_end(struct fingerprinter *f);    /* frees it */
