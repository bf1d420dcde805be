#include "answer/stats.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const source_keys[] = {
#define DRAFT_SOURCE(ID, key, ...) key,
#include "config/draft_sources.def"
};

enum part { PROMPT, ANSWER };

/* ---- sums ---- */

static void add_drafts(struct stats *to, const struct stats *s, int sign)
{
    for (int by = 0; by < DRAFT_SOURCES; by++)
        for (int i = 0; i < LIMIT_DRAFTS; i++) {
            to->drafts[by][i].drafted += sign * s->drafts[by][i].drafted;
            to->drafts[by][i].accepted += sign * s->drafts[by][i].accepted;
        }
}

void stats_add(struct stats *to, const struct stats *s, bool continues)
{
#define STAT(type, name, part, ...) if (part == ANSWER || !continues) to->name += s->name;
#define TURN_STAT(...)
#define FIGURE(...)
#include "config/stats.def"
    if (!continues)
        to->refill = s->refill;
    add_drafts(to, s, 1);
}

struct stats stats_between(const struct stats *then, const struct stats *now)
{
    struct stats s = {0};
#define STAT(type, name, ...) s.name = now->name - then->name;
#define TURN_STAT(...)
#define FIGURE(...)
#include "config/stats.def"
    add_drafts(&s, now, 1);
    add_drafts(&s, then, -1);
    return s;
}

struct stats stats_unknown(void)
{
    struct stats s = {0};
#define STAT(type, name, ...) s.name = -1;
#define TURN_STAT(...)
#define FIGURE(...)
#include "config/stats.def"
    for (int by = 0; by < DRAFT_SOURCES; by++)
        for (int i = 0; i < LIMIT_DRAFTS; i++)
            s.drafts[by][i] = (struct draft_count){-1, -1};
    return s;
}

void stats_overwrite(struct stats *to, const struct stats *s)
{
#define STAT(type, name, ...) if (s->name >= 0) to->name = s->name;
#define TURN_STAT(...)
#define FIGURE(...)
#include "config/stats.def"
    for (int by = 0; by < DRAFT_SOURCES; by++)
        for (int i = 0; i < LIMIT_DRAFTS; i++)
            if (s->drafts[by][i].drafted >= 0)
                to->drafts[by][i] = s->drafts[by][i];
}

struct draft_count stats_drafts(const struct stats *s, enum draft_source by)
{
    struct draft_count sum = {0};
    for (int i = 0; i < LIMIT_DRAFTS; i++) {
        sum.drafted += s->drafts[by][i].drafted;
        sum.accepted += s->drafts[by][i].accepted;
    }
    return sum;
}

struct draft_count stats_all_drafts(const struct stats *s)
{
    struct draft_count sum = {0};
    for (int by = 0; by < DRAFT_SOURCES; by++) {
        const struct draft_count d = stats_drafts(s, (enum draft_source)by);
        sum.drafted += d.drafted;
        sum.accepted += d.accepted;
    }
    return sum;
}

const char *drafts_share_name(enum draft_source by)
{
    static const char *const names[] = {
#define DRAFT_SOURCE(ID, key, share, ...) share,
#include "config/draft_sources.def"
    };
    return names[by];
}

/* Returns the number of positions up to the last one at which a source has drafted. */
static int n_positions(const struct stats *s)
{
    int n = 0;
    for (int by = 0; by < DRAFT_SOURCES; by++)
        for (int i = n; i < LIMIT_DRAFTS; i++)
            if (s->drafts[by][i].drafted)
                n = i + 1;
    return n;
}

/* ---- between two q35chats ---- */

static void write_int(struct buf *out, const char *key, int n)        { buf_addf(out, "\"%s\": %d, ", key, n); }
static void write_double(struct buf *out, const char *key, double x)  { buf_addf(out, "\"%s\": %.15g, ", key, x); }

void stats_write(const struct stats *s, struct buf *out)
{
    const struct refill *r = &s->refill;
    const int n = n_positions(s);
    buf_addc(out, '{');
#define STAT(type, name, ...) write_##type(out, #name, s->name);
#define TURN_STAT(...)
#define FIGURE(...)
#include "config/stats.def"
    if (r->happened)
        buf_addf(out, "\"refill\": {\"resident\": %s, \"from_file\": %s, \"common\": %d, \"pos\": %d}, ", r->resident ? "true" : "false",
                 r->from_file ? "true" : "false", r->common, r->pos);
    buf_adds(out, "\"drafts\": {");
    for (int by = 0; by < DRAFT_SOURCES; by++) {
        buf_addf(out, "%s\"%s\": [", by ? ", " : "", source_keys[by]);
        for (int i = 0; i < n; i++)
            buf_addf(out, "%s[%d,%d]", i ? "," : "", s->drafts[by][i].drafted, s->drafts[by][i].accepted);
        buf_addc(out, ']');
    }
    buf_adds(out, "}}");
}

/* Returns a number of tokens or steps.  No answer has more than a context. */
static int count_of(const json_t *v)
{
    const json_int_t n = json_integer_value(v);
    return n < 0 ? 0 : n > LIMIT_CTX ? LIMIT_CTX : (int)n;
}

static int read_int(const json_t *v)        { return count_of(v); }
static double read_double(const json_t *v)  { return json_number_value(v); }

void stats_read(struct stats *s, const json_t *v)
{
    const json_t *refill = json_object_get(v, "refill"), *drafts = json_object_get(v, "drafts");
    *s = (struct stats){0};
#define STAT(type, name, ...) s->name = read_##type(json_object_get(v, #name));
#define TURN_STAT(...)
#define FIGURE(...)
#include "config/stats.def"
    if (refill)
        s->refill = (struct refill){.happened = true, .resident = json_is_true(json_object_get(refill, "resident")),
                                    .from_file = json_is_true(json_object_get(refill, "from_file")),
                                    .common = count_of(json_object_get(refill, "common")), .pos = count_of(json_object_get(refill, "pos"))};
    for (int by = 0; by < DRAFT_SOURCES; by++) {
        const json_t *list = json_object_get(drafts, source_keys[by]);
        for (size_t i = 0; i < json_array_size(list) && i < LIMIT_DRAFTS; i++) {
            const json_t *one = json_array_get(list, i);
            s->drafts[by][i] = (struct draft_count){count_of(json_array_get(one, 0)), count_of(json_array_get(one, 1))};
        }
    }
}

/* ---- --json ---- */

/* Sets j["a"]["b"] for the path "a.b", and takes the reference. */
static void set(json_t *j, const char *path, json_t *value)
{
    const char *dot = path ? strchr(path, '.') : NULL;
    if (!path) {
        json_decref(value);
    } else if (!dot) {
        json_object_set_new(j, path, value);
    } else {
        char outer[32];
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - path), path);
        if (!json_object_get(j, outer))
            json_object_set_new(j, outer, json_object());
        json_object_set_new(json_object_get(j, outer), dot + 1, value);
    }
}

static json_t *json_of_int(int n)             { return json_integer(n); }
static json_t *json_of_uint64_t(uint64_t n)   { return json_integer((json_int_t)n); }
static json_t *json_of_double(double x)       { return json_real(x); }

void stats_to_json(const struct stats *s, json_t *j)
{
    json_t *by_position = json_array(), *drafts = json_object();
    const int n = n_positions(s);
#define STAT(type, name, part, key) set(j, key, json_of_##type(s->name));
#define TURN_STAT(type, name, key) set(j, key, json_of_##type(s->name));
#define FIGURE(value, known, key) set(j, key, known ? json_real(value) : json_null());
#include "config/stats.def"
    for (int i = 0; i < n; i++)
        if (s->drafts[DRAFT_MTP][i].drafted)
            json_array_append_new(by_position, json_real(drafts_share(s->drafts[DRAFT_MTP][i])));
    for (int by = 0; by < DRAFT_SOURCES; by++) {
        json_t *list = json_array();
        for (int i = 0; i < n; i++)
            json_array_append_new(list, json_pack("[ii]", s->drafts[by][i].drafted, s->drafts[by][i].accepted));
        json_object_set_new(drafts, source_keys[by], list);
    }
    json_object_set_new(j, "acceptance_by_position", by_position);
    json_object_set_new(j, "drafts", drafts);
}
