/* An FP8 checkpoint like the official release, made from a golden hybrid: shared-expert matrices and scales are those of the hybrid; if wanted,
 * attention and out projections have random values; all other tensors of such a release exist but are poisoned, so that using them gives NaN. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "kernels/fill.h"
#include "model/safetensors_write.h"
#include "model/shards.h"
#include "prepare/source.h"

enum { DONOR_MAX = 4096, DONOR_FILES = 2 };

static inline bool donor_is_shared(const char *name)
{
    return strstr(name, ".shared_expert.") && strncmp(name, "mtp.", 4);
}

static inline bool donor_is_quality(const char *name)
{
    return (strstr(name, ".self_attn.") || strstr(name, ".linear_attn.out_proj.")) && strncmp(name, "mtp.", 4) && strstr(name, "_proj.weight");
}

/* Random numbers for a matrix, positive ones for its scale: products keep the size of their input. */
static inline void donor_random(const struct tensor_out *t, uint64_t at, uint64_t n, uint8_t *dst)
{
    uint64_t key = 0;
    for (const char *c = t->name; *c; c++)
        key = key * 31 + (uint8_t)*c;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t hash = fill_hash(key, t->dtype == DT_BF16 ? (at + i) / 2 : at + i);
        if (t->dtype == DT_BF16) {      /* 0.00025 to 0.001 */
            const float scale = 0.00025f + 0.00075f * (float)(hash >> 40) / 16777216;
            uint32_t bits;
            memcpy(&bits, &scale, 4);
            dst[i] = (uint8_t)(bits >> ((at + i) % 2 ? 24 : 16));
        } else
            dst[i] = (uint8_t)((hash & 0x7f) == 0x7f ? hash ^ 1 : hash);                /* no NaN */
    }
}

static inline bool donor_make(const struct tensor_out *t, uint64_t at, uint64_t n, uint8_t *dst, struct err *e)
{
    (void)e;
    if (t->source == t->name)
        donor_random(t, at, n, dst);
    else if (t->source)
        memcpy(dst, (const uint8_t *)t->source + at, n);
    else
        memset(dst, 0xff, n);           /* NaN in FP8, BF16 and F32 alike */
    return true;
}

/* Writes it to the existing directory `dir`.  `spoil` (may be NULL) may change the list of tensors before. */
static inline void donor_write_parts(const char *dir, const char *hybrid, bool quality, void (*spoil)(struct tensor_out *t, int *n))
{
    static struct tensor_out all[DONOR_MAX];
    static struct tensor_out *lists[DONOR_FILES][DONOR_MAX];
    static struct index_entry index[DONOR_MAX];
    static char names[DONOR_MAX][160];
    char paths[DONOR_FILES][256], files[DONOR_FILES][64];
    struct shards s;
    struct err e = {0};
    int n = 0, n_index = 0;
    CHECK(shards_open(&s, hybrid, &e));
    for (int i = 0; i < s.n; i++) {
        const struct shard_tensor *t = &s.list[i];
        CHECK(n + 2 < DONOR_MAX);
        if (strstr(t->name, ".qzeros") || strstr(t->name, ".scales"))
            continue;
        all[n] = (struct tensor_out){.name = t->name, .dtype = t->t->dtype, .n_dims = t->t->n_dims};
        memcpy(all[n].shape, t->t->shape, sizeof all[n].shape);
        if (donor_is_shared(t->name))
            all[n].source = safetensors_data(shards_file(&s, t), t->t);
        const char *q = strstr(t->name, ".qweight");
        if (q) {                        /* FP8 in that release: [out, in] and its scale */
            snprintf(names[n], sizeof names[n], "%.*s.weight", (int)(q - t->name), t->name);
            all[n].name = names[n];
            all[n].dtype = DT_F8_E4M3;
            all[n].shape[0] = t->t->shape[1];
            all[n].shape[1] = t->t->shape[0] * 8;
            all[n + 1] = (struct tensor_out){.name = names[n + 1], .dtype = DT_BF16, .n_dims = 2,
                                             .shape = {(all[n].shape[0] + 127) / 128, (all[n].shape[1] + 127) / 128}};
            snprintf(names[n + 1], sizeof names[0], "%.*s.weight_scale_inv", (int)(q - t->name), t->name);
            n++;
        }
        n++;
    }
    for (int i = 0; i < n && quality; i++)
        if (donor_is_quality(all[i].name))
            all[i].source = all[i].name;
    if (spoil)
        spoil(all, &n);
    struct file_out out[DONOR_FILES] = {0};
    for (int f = 0; f < DONOR_FILES; f++) {
        snprintf(files[f], sizeof files[f], "model-%05d-of-%05d.safetensors", f + 1, DONOR_FILES);
        snprintf(paths[f], sizeof paths[f], "%s/%s", dir, files[f]);
        out[f] = (struct file_out){.path = paths[f], .tensors = lists[f]};
    }
    for (int i = 0; i < n; i++) {
        int f = i * DONOR_FILES / n;
        lists[f][out[f].n_tensors++] = &all[i];
        index[n_index++] = (struct index_entry){all[i].name, files[f], tensor_out_bytes(&all[i])};
    }
    CHECK(safetensors_write(out, DONOR_FILES, &(struct write_options){.n_threads = 2, .make = donor_make}, &e));
    CHECK(index_write(dir, index, n_index, &e));
    shards_close(&s);
}

static inline void donor_write(const char *dir, const char *hybrid, void (*spoil)(struct tensor_out *t, int *n))
{
    donor_write_parts(dir, hybrid, false, spoil);
}
