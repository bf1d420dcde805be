/* The EVP interface of libcrypto cannot save a state before OpenSSL 3.6.  The older interface exists in every 3.x and runs the same
 * code. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "fetch/digest.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/memory.h"

struct digest {
    bool       sha256;
    uint64_t   n;                       /* bytes of the file so far */
    SHA256_CTX large;
    SHA_CTX    small;
};

struct digest *digest_open(bool sha256, uint64_t n_bytes)
{
    struct digest *d = memory_zeroed(1, sizeof *d);
    d->sha256 = sha256;
    SHA256_Init(&d->large);
    SHA1_Init(&d->small);
    if (!sha256) {
        char head[40];
        int n = snprintf(head, sizeof head, "blob %" PRIu64, n_bytes);
        SHA1_Update(&d->small, head, (size_t)n + 1);
    }
    return d;
}

void digest_close(struct digest *d)
{
    free(d);
}

void digest_add(struct digest *d, const void *bytes, size_t n)
{
    if (d->sha256)
        SHA256_Update(&d->large, bytes, n);
    else
        SHA1_Update(&d->small, bytes, n);
    d->n += n;
}

void digest_end(struct digest *d, char hex[DIGEST_HEX])
{
    unsigned char out[SHA256_DIGEST_LENGTH];
    int n = d->sha256 ? SHA256_DIGEST_LENGTH : SHA_DIGEST_LENGTH;
    if (d->sha256)
        SHA256_Final(out, &d->large);
    else
        SHA1_Final(out, &d->small);
    for (int i = 0; i < n; i++)
        snprintf(hex + 2 * i, 3, "%02x", out[i]);
}

uint64_t digest_save(const struct digest *d, char hex[DIGEST_HEX])
{
    CHECK(d->sha256);
    for (int i = 0; i < 8; i++)
        snprintf(hex + 8 * i, 9, "%08x", (unsigned)d->large.h[i]);
    return d->n - d->large.num;
}

bool digest_load(struct digest *d, const char *hex, uint64_t n)
{
    CHECK(d->sha256);
    SHA256_Init(&d->large);
    d->n = 0;
    if (n % DIGEST_BLOCK)
        return false;
    for (int i = 0; i < 8; i++) {
        unsigned word;
        int used = 0;
        if (sscanf(hex + 8 * i, "%8x%n", &word, &used) != 1 || used != 8) {
            SHA256_Init(&d->large);
            return false;
        }
        d->large.h[i] = word;
    }
    d->large.Nl = (SHA_LONG)(n << 3);           /* number of hashed bits, low and high word */
    d->large.Nh = (SHA_LONG)(n >> 29);
    d->n = n;
    return true;
}
