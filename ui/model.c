/* `q35chat model ...`. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/unicode.h"
#include "option/options.h"
#include "prepare/hybrid.h"
#include "prepare/inspect.h"
#include "prepare/mtp.h"
#include "prepare/verify.h"
#include "ui/exits.h"
#include "ui/subcommand.h"
#include "ui/tui/look.h"

static int refused(const struct err *e)
{
    struct buf safe = {0};
    unicode_safe(&safe, e->msg, strlen(e->msg));
    fprintf(stderr, "q35chat: %s\n", buf_str(&safe));
    buf_free(&safe);
    return EXIT_FAILED;
}

static int print_json(json_t *j)
{
    struct buf text = {0};
    json_print(&text, j, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    json_decref(j);
    puts(text.data);
    buf_free(&text);
    return fflush(stdout) || ferror(stdout) ? EXIT_FAILED : EXIT_ANSWERED;
}

/* --- inspect, verify ---------------------------------------------------------------------------------------------- */

int model_inspect(const struct args *a)
{
    struct buf out = {0};
    struct err e = {0};
    const char *bandwidth = args_text(a, "bandwidth");
    struct inspect_options o = {.json = args_on(a, "json"), .bandwidth_gb_s = bandwidth ? strtod(bandwidth, NULL) : 0};
    bool ok = inspect_run(args_word(a, 0), &o, &out, &e);
    fputs(buf_str(&out), stdout);
    buf_free(&out);
    return !ok ? refused(&e) : fflush(stdout) || ferror(stdout) ? EXIT_FAILED : EXIT_ANSWERED;
}

static json_t *finding_json(const struct finding *f)
{
    return json_pack("{s:b, s:s, s:s?, s:s?, s:s, s:s?, s:s?}", "fault", f->fault, "kind", f->kind, "file", f->file, "tensor", f->tensor,
                     "found", f->found, "expected", f->expected, "remedy", f->remedy);
}

static json_t *verify_json(const struct verify_report *r, const char *dir)
{
    json_t *list = json_array();
    for (int i = 0; i < r->n; i++)
        json_array_append_new(list, finding_json(&r->list[i]));
    return json_pack("{s:s, s:b, s:b, s:i, s:i, s:i, s:I, s:i, s:o}", "dir", dir, "sound", !r->n_faults, "stopped", r->stopped, "files", r->n_files,
                     "tensors", r->n_tensors, "hashed_files", r->n_hashed, "read_bytes", (json_int_t)r->read_bytes, "faults", r->n_faults,
                     "findings", list);
}

/* Of faults of one kind the first few: a directory that lacks a shard lacks thousands of tensors. */
static void print_findings(const struct verify_report *r)
{
    enum { EACH = 10 };
    for (int i = 0, same = 0; i < r->n; i++) {
        struct buf line = {0}, safe = {0};
        same = i && !strcmp(r->list[i].kind, r->list[i - 1].kind) ? same + 1 : 0;
        bool last = i + 1 == r->n || strcmp(r->list[i].kind, r->list[i + 1].kind);
        if (same < EACH)
            verify_sentence(&r->list[i], &line);
        else if (last)
            buf_addf(&line, "       and %d more of this kind (--json has them all)", same - EACH + 1);
        unicode_safe(&safe, buf_str(&line), line.len);
        if (safe.len)
            puts(buf_str(&safe));
        buf_free(&line);
        buf_free(&safe);
    }
}

int model_verify(const struct args *a)
{
    struct verify_report r;
    struct err e = {0};
    const char *dir = args_word(a, 0);
    if (!verify_run(dir, &(struct verify_options){.full = args_on(a, "full")}, &r, &e))
        return refused(&e);
    int status = r.n_faults ? EXIT_FAILED : EXIT_ANSWERED;
    if (args_on(a, "json")) {
        int written = print_json(verify_json(&r, dir));
        status = status ? status : written;
    } else {
        struct buf safe = {0};
        unicode_safe(&safe, dir, strlen(dir));
        print_findings(&r);
        printf("%s: %s", buf_str(&safe), r.n_faults ? "" : "sound: ");
        buf_free(&safe);
        if (r.n_faults)
            printf("%d fault%s in ", r.n_faults, r.n_faults == 1 ? "" : "s");
        printf("%d files with %d tensors, %.2f MB of them read%s\n", r.n_files, r.n_tensors, (double)r.read_bytes * 1e-6,
               r.stopped ? "; what is in them was not looked at, mend these first" : args_on(a, "full") ? "" : " (--full reads all)");
        status = fflush(stdout) || ferror(stdout) ? EXIT_FAILED : status;
    }
    verify_free(&r);
    return status;
}

/* --- build-hybrid ------------------------------------------------------------------------------------------------- */

/* arg: lines are only added; then its end alone is told. */
static void show_progress(void *arg, uint64_t done, uint64_t total)
{
    bool adds = *(bool *)arg;
    if (adds && done != total)
        return;
    fprintf(stderr, "%sFP8: %.3f of %.3f GB%s", adds ? "" : "\r", (double)done * 1e-9, (double)total * 1e-9, done == total ? "\n" : " ");
}

static json_t *hybrid_json(const struct hybrid_report *r, const struct source *fp8, const struct hybrid_options *o)
{
    static const char *const states[] = {"built", "planned", "there"};
    json_t *files = json_array();
    for (int i = 0; i < r->n_files; i++)
        json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "name", r->files[i].name, "bytes", (json_int_t)r->files[i].bytes,
                                               "how", r->files[i].how));
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:o}", "state", states[r->state], "out", o->out,
                     "layout", o->compact ? "compact" : "linked", "fp8_matrices", r->n_matrices, "fp8_bytes", (json_int_t)r->fp8_bytes,
                     "fp8_read_bytes", (json_int_t)atomic_load(&fp8->n_bytes), "fp8_reads", (json_int_t)atomic_load(&fp8->n_reads),
                     "stale_bytes", (json_int_t)r->stale_bytes, "files", files);
}

static void print_hybrid(const struct hybrid_report *r, const struct source *fp8, const struct hybrid_options *o)
{
    if (r->state == HYBRID_THERE) {
        printf("%s was built before from these checkpoints: nothing to do\n", o->out);
        return;
    }
    for (int i = 0; i < r->n_files; i++)
        printf("%12.2f MB  %-14s %s\n", (double)r->files[i].bytes * 1e-6, r->files[i].how, r->files[i].name);
    printf("%s %s: %d matrices of shared experts in FP8, %.2f MB; read %.2f MB of the FP8 checkpoint\n", o->out,
           r->state == HYBRID_PLANNED ? "would be built" : "is built", r->n_matrices, (double)r->fp8_bytes * 1e-6,
           (double)atomic_load(&fp8->n_bytes) * 1e-6);
    if (r->state == HYBRID_PLANNED)
        printf("it takes %.2f MB of the disk in addition\n", (double)r->written_bytes * 1e-6);
    if (!o->compact && r->stale_bytes)
        printf("%.2f MB in the shards do not count any more. q35chat never reads them; vLLM reads whole shards and wants --compact.\n",
               (double)r->stale_bytes * 1e-6);
}

int model_build_hybrid(const struct args *a)
{
    struct err e = {0};
    struct source int4 = {0}, fp8 = {0};
    struct hybrid_report r = {0};
    bool json = args_on(a, "json"), adds = options_accessible() || look_is_plain(getenv("TERM"));
    struct hybrid_options o = {
        .out = args_text(a, "out"), .program = "q35chat " Q35_VERSION, .compact = args_on(a, "compact"), .dry_run = args_on(a, "dry-run"),
        .hash = args_on(a, "hash"), .progress = isatty(2) && !json ? show_progress : NULL, .arg = &adds,
    };
    int status = EXIT_ANSWERED;
    if (!source_open_local(&int4, args_text(a, "int4"), &e) || !source_open(&fp8, args_text(a, "fp8"), &e)
        || !hybrid_build(int4.name, &fp8, &o, &r, &e))
        status = refused(&e);
    else if (json)
        status = print_json(hybrid_json(&r, &fp8, &o));
    else
        print_hybrid(&r, &fp8, &o);
    hybrid_report_free(&r);
    source_close(&int4);
    source_close(&fp8);
    return status;
}

/* --- add-mtp ------------------------------------------------------------------------------------------------------ */

int model_add_mtp(const struct args *a)
{
    static const char *const did[] = {"were added, and the index lists them", "are listed in the index now", "are there and listed: nothing to do"};
    static const char *const states[] = {"added", "indexed", "there"};
    struct err e = {0};
    struct source from = {0};
    struct mtp_report r;
    const char *dir = args_word(a, 0), *name = args_text(a, "from");
    bool ok = (!name || source_open(&from, name, &e)) && mtp_add(dir, name ? &from : NULL, &r, &e);
    source_close(&from);
    if (!ok)
        return refused(&e);
    if (args_on(a, "json"))
        return print_json(json_pack("{s:s, s:s, s:i}", "state", states[r.state], "dir", dir, "tensors", r.n_tensors));
    printf("%s: %d tensors of the MTP block %s\n", dir, r.n_tensors, did[r.state]);
    return EXIT_ANSWERED;
}
