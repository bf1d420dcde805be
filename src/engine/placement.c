#include "engine/placement.h"

#include <stdio.h>
#include <string.h>

#include "backend/dev.h"
#include "base/buf.h"

static const size_t whole = (size_t)256 << 20, little = (size_t)8 << 20;       /* bytes: no cache holds the first, a GB10's holds the second */
static const double faster = 1.02, cached = 1.5;

bool placement_prefers_host(const struct placement *p)
{
    return p->device > 0 && p->host >= faster * p->device && p->again >= cached * p->host;
}

/* A line of the file: three figures, a blank, the device. */
static bool figures_of(const char *line, const char *key, struct placement *p)
{
    int at = 0;
    struct placement got;
    if (sscanf(line, "%lf %lf %lf %n", &got.device, &got.host, &got.again, &at) != 3 || !at)
        return false;
    const size_t n = strlen(key);
    if (strncmp(line + at, key, n) || (line[at + (int)n] != '\n' && line[at + (int)n]) || !(got.device > 0 && got.host > 0 && got.again > 0))
        return false;
    *p = got;
    return true;
}

static bool recall(struct placement *p, const char *key, const char *file)
{
    enum { LONGEST = 1 << 20 };
    struct buf text = {0};
    bool found = false;
    const char *line = file && buf_read_file(&text, file, LONGEST, NULL) ? buf_str(&text) : NULL;
    for (; line; line = strchr(line, '\n'), line += line != NULL)
        found |= figures_of(line, key, p);
    buf_free(&text);
    return found;
}

/* The next time measures again where this cannot be written. */
static void remember(const struct placement *p, const char *key, const char *file)
{
    struct buf line = {0};
    buf_addf(&line, "%.1f %.1f %.1f %s\n", p->device, p->host, p->again, key);
    if (file)
        buf_append_file(file, line.data, line.len);
    buf_free(&line);
}

static double read_of(struct dev *d, bool in_host, size_t bytes)
{
    struct err ignored;
    d->weights_in_host = in_host;
    return d->read_gb_s(d, bytes, &ignored);
}

void placement_find(struct placement *p, struct dev *d, const char *key, const char *file)
{
    const bool before = d->weights_in_host;
    *p = (struct placement){0};
    if (recall(p, key, file))
        return;
    const struct placement now = {read_of(d, false, whole), read_of(d, true, whole), read_of(d, true, little)};
    d->weights_in_host = before;
    if (now.device <= 0 || now.host <= 0 || now.again <= 0)     /* no memory for one of them: nothing to compare */
        return;
    *p = now;
    remember(p, key, file);
}

void placement_say(const struct placement *p, struct buf *out)
{
    if (p->device <= 0)
        return;
    buf_addf(out, "in %s memory: pinned memory of the host is read at %.0f GB/s, device memory at %.0f",
             placement_prefers_host(p) ? "pinned host" : "device", p->host, p->device);
    if (p->host >= faster * p->device && !placement_prefers_host(p))
        buf_addf(out, "; no cache holds it (%.0f GB/s when it is read again), and prompts read weights several times", p->again);
}
