/* wire [-t SECONDS] [-l FILE] COLSxROWS PROGRAM ARGUMENTS... < SCRIPT
 *
 * Runs a program in a terminal and does what the script says, a verb a line.  A check prints "ok NAME", or "not ok NAME: why" and
 * the screen, which ends the run: what comes behind it would make no sense.  What is waited for may take SECONDS.
 * FILE gets all that the terminal was sent.
 *
 * Texts take \r \n \t \e \\ and \ooo.  Lines that begin with # are comments.
 *
 *   see NAME: TEXT         waits until the screen has it            type TEXT          sends keys
 *   gone NAME: TEXT        waits until it has not                   send FILE          sends what is in a file
 *   never NAME: TEXT       it has not now                           resize COLSxROWS
 *   screen NAME: FILE      waits until the screen is FILE's;        storm SEED N       N sizes from 1x1 to 200x60
 *                          $GOLDEN: writes FILE.  What comes        signal NAME
 *                          last must have been waited for
 *   keep                   remembers the screen                     freeze, thaw       reads nothing; goes on
 *   same NAME              waits until it is that again             baud N             0: as fast as it goes
 *   sh NAME: COMMAND       waits until it succeeds                  hangup             closes the terminal
 *   clean NAME: MODES      waits until the terminal's modes are these; nothing strange was sent so far
 *   title NAME: TEXT       waits until the title has it             mark               counts from here
 *   colors NAME: N         colours that were chosen so far          bells NAME: N      beeps so far
 *   bytes NAME: MOST N     since mark, for each of N tokens at most so many
 *   cpu NAME               prints the main thread's share since mark
 *   took NAME: TEXT        waits until the screen has it; prints how long that took since mark
 *   echo NAME: N           types N digits, up to 70, into an empty draft; prints how long each took to appear
 *   insist NAME: KEYS TEXT types the keys each 0.8 s, until the screen has no TEXT: for what is deaf at first
 *   end NAME: STATUS       waits until the program ends so (one of these numbers), all it did to the terminal is undone, and it sent nothing strange
 *
 * Wherever screens are compared, figures that depend on the machine's speed are masked, and what depends on their width: blanks in
 * their lines are squeezed, and the status line ends with the speed. */
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "tests/pty/cable.h"

static struct {
    struct cable cable;
    int     patience_s;
    struct buf kept;
    size_t  marked_bytes;
    int64_t marked_ns, marked_cpu_ns;
    bool    awaited;                    /* something was waited for since keys were typed */
    bool    failed;
} w = {.patience_s = 60};

/* --- texts -------------------------------------------------------------------------------------------------------- */

static void unescape(const char *s, struct buf *out)
{
    for (; *s; s++) {
        const char *plain = "rnte\\", *code = "\r\n\t\033\\", *at;
        if (*s != '\\') {
            buf_addc(out, *s);
        } else if (s[1] >= '0' && s[1] <= '7') {
            char c = 0;
            for (int i = 0; i < 3 && s[1] >= '0' && s[1] <= '7'; i++)
                c = (char)(c * 8 + *++s - '0');
            buf_addc(out, c);
        } else if (s[1] && (at = strchr(plain, s[1]))) {
            buf_addc(out, code[at - plain]);
            s++;
        } else {
            buf_addc(out, '\\');
        }
    }
}

static bool mask_once(struct buf *line, const char *pattern, const char *by)
{
    regex_t r;
    regmatch_t m;
    struct buf out = {0};
    CHECK(regcomp(&r, pattern, REG_EXTENDED) == 0);
    bool found = !regexec(&r, buf_str(line), 1, &m, 0);
    if (found) {
        buf_add(&out, line->data, (size_t)m.rm_so);
        buf_adds(&out, by);
        buf_adds(&out, line->data + m.rm_eo);
        buf_reset(line);
        buf_add(line, buf_str(&out), out.len);
    }
    regfree(&r);
    buf_free(&out);
    return found;
}

static void squeeze(struct buf *line)
{
    size_t n = 0;
    for (size_t i = 0; i < line->len; i++)
        if (line->data[i] != ' ' || !n || line->data[n - 1] != ' ')
            line->data[n++] = line->data[i];
    line->len = n;
    line->data[n] = 0;
}

static void mask_line(struct buf *line)
{
    static const char *const rules[][2] = {
        {"[0-9.]+k? tok/s.*", "# tok/s ..."}, {"thought [^,]*,", "thought #,"}, {" [0-9.]+ s  ", " # s  "}, {"[0-9.]+/[0-9.]+ GiB", "#/# GiB"},
        {"^q35chat [0-9.]+ ", "q35chat # "},
    };
    bool masked = false;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        masked = mask_once(line, rules[i][0], rules[i][1]) || masked;
    if (masked)
        squeeze(line);
}

static void masked(const char *text, struct buf *out)
{
    for (size_t n; *text; text += n) {
        struct buf line = {0};
        n = strcspn(text, "\n");
        buf_add(&line, text, n);
        mask_line(&line);
        buf_adds(out, buf_str(&line));
        buf_addc(out, '\n');
        n += text[n] == '\n';
        buf_free(&line);
    }
}

static void screen(struct buf *out)
{
    struct buf plain = {0};
    glass_text(w.cable.glass, &plain);
    masked(buf_str(&plain), out);
    buf_free(&plain);
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

static void ok(const char *name)
{
    printf("ok %s\n", name);
}

static void bad(const char *name, const char *why, const char *what)
{
    struct buf shown = {0};
    glass_text(w.cable.glass, &shown);
    printf("not ok %s: %s%s\n%s%s", name, why, what, buf_str(&shown), w.cable.ended ? "(the program has ended)\n" : "");
    buf_free(&shown);
    w.failed = true;
}

/* Moves bytes until the condition holds; false: it did not in all the time, or never will. */
typedef bool condition(const char *arg);

static bool await(condition *holds, const char *arg)
{
    int64_t until = clock_ns() + (int64_t)w.patience_s * 1000000000;
    while (!holds(arg)) {
        if (clock_ns() > until || (w.cable.ended && w.cable.master < 0))
            return false;
        bool over = w.cable.ended;              /* what it wrote last may still be on its way */
        cable_move(&w.cable, 20);
        if (over && !w.cable.bits_per_s)
            until = until < clock_ns() + 200000000 ? until : clock_ns() + 200000000;
    }
    return true;
}

static bool on_screen(const char *text)
{
    struct buf shown = {0}, wanted = {0};
    glass_text(w.cable.glass, &shown);
    unescape(text, &wanted);
    bool found = strstr(buf_str(&shown), buf_str(&wanted));
    buf_free(&shown);
    buf_free(&wanted);
    return found;
}

static bool off_screen(const char *text)
{
    return !on_screen(text);
}

static bool screen_is(const char *text)
{
    struct buf shown = {0};
    screen(&shown);
    bool same = !strcmp(buf_str(&shown), text);
    buf_free(&shown);
    return same;
}

static bool in_title(const char *text)
{
    return strstr(glass_title(w.cable.glass), text);
}

static bool succeeds(const char *command)
{
    int status = system(command);
    cable_move(&w.cable, 50);
    return status == 0;
}

static bool has_ended(const char *ignored)
{
    (void)ignored;
    return w.cable.ended;
}

/* --- verbs -------------------------------------------------------------------------------------------------------- */

static void check(const char *name, condition *holds, const char *arg, const char *why)
{
    if (await(holds, arg))
        ok(name);
    else
        bad(name, why, arg);
}

static void do_see(const char *name, const char *text)
{
    check(name, on_screen, text, "the screen has no ");
}

static void do_gone(const char *name, const char *text)
{
    check(name, off_screen, text, "the screen still has ");
}

static void do_never(const char *name, const char *text)
{
    if (on_screen(text))
        bad(name, "the screen has ", text);
    else
        ok(name);
}

static void do_sh(const char *name, const char *command)
{
    check(name, succeeds, command, "this never succeeded: ");
}

static void do_title(const char *name, const char *text)
{
    check(name, in_title, text, "the title has no ");
}

static bool quiet(const char *ignored)
{
    (void)ignored;
    size_t before = glass_bytes(w.cable.glass);
    for (int64_t until = clock_ns() + 400000000; clock_ns() < until;)
        cable_move(&w.cable, 50);
    return glass_bytes(w.cable.glass) == before;
}

static void do_screen(const char *name, const char *path)
{
    struct buf file = {0}, shown = {0};
    struct err e = {0};
    if (!w.awaited) {
        bad(name, "nothing was waited for since keys were typed, and GOLDEN=1 would not know when to write ", path);
        return;
    }
    if (getenv("GOLDEN")) {                     /* only here time tells that a screen is complete: a person reads the difference */
        await(quiet, "");
        screen(&shown);
        FILE *f = fopen(path, "w");
        CHECK(f && fputs(buf_str(&shown), f) >= 0 && !fclose(f));
    } else if (!file_read(&file, path, 1 << 20, &e)) {
        bad(name, e.msg, "");
    }
    if (w.failed || shown.len || await(screen_is, buf_str(&file)))
        w.failed ? (void)0 : ok(name);
    else
        bad(name, "it is not what is in ", path);
    buf_free(&file);
    buf_free(&shown);
}

static void do_keep(const char *name, const char *arg)
{
    (void)name, (void)arg;
    await(quiet, "");                   /* a slow program may still be drawing the frame of which a part was seen */
    buf_reset(&w.kept);
    screen(&w.kept);
}

static void do_same(const char *name, const char *arg)
{
    (void)arg;
    check(name, screen_is, buf_str(&w.kept), "the screen is not this any more:\n");
}

static void do_type(const char *name, const char *text)
{
    (void)name;
    unescape(text, &w.cable.to_send);
    cable_move(&w.cable, 0);
}

static void do_insist(const char *name, const char *arg)
{
    struct buf keys = {0};
    const char *text = arg + strcspn(arg, " ");
    buf_add(&keys, arg, (size_t)(text - arg));
    text += *text == ' ';
    int64_t until = clock_ns() + (int64_t)w.patience_s * 1000000000;
    while (on_screen(text) && clock_ns() < until) {
        do_type("", keys.data);
        for (int64_t again = clock_ns() + 800000000; on_screen(text) && clock_ns() < again;)
            cable_move(&w.cable, 20);
    }
    do_gone(name, text);
    buf_free(&keys);
}

static void do_send(const char *name, const char *path)
{
    struct buf file = {0};
    struct err e = {0};
    if (!file_read(&file, path, 1 << 28, &e))
        bad(name, e.msg, "");
    buf_add(&w.cable.to_send, buf_str(&file), file.len);
    buf_free(&file);
}

static void do_resize(const char *name, const char *size)
{
    int rows, cols;
    (void)name;
    CHECK(sscanf(size, "%dx%d", &cols, &rows) == 2);
    cable_size(&w.cable, rows, cols);
}

static void do_storm(const char *name, const char *arg)
{
    unsigned seed;
    int n;
    (void)name;
    CHECK(sscanf(arg, "%u %d", &seed, &n) == 2);
    for (int i = 0; i < n; i++) {
        seed = seed * 1103515245 + 12345;
        int cols = 1 + (int)(seed >> 8) % 200, rows = 1 + (int)(seed >> 16) % 60;
        cable_size(&w.cable, i % 16 ? rows : 1, i % 16 ? cols : 1);
        cable_move(&w.cable, i % 4 ? 2 : 60);   /* some alone, some faster than it draws */
    }
}

static void do_signal(const char *name, const char *what)
{
    static const struct { const char *name; int sig; } signals[] = {
        {"HUP", SIGHUP}, {"INT", SIGINT}, {"TERM", SIGTERM}, {"KILL", SIGKILL}, {"ABRT", SIGABRT}, {"SEGV", SIGSEGV}, {"QUIT", SIGQUIT},
        {"TSTP", SIGTSTP}, {"CONT", SIGCONT}, {"WINCH", SIGWINCH},
    };
    (void)name;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!strcmp(signals[i].name, what)) {
            kill(w.cable.pid, signals[i].sig);
            return;
        }
    bad(what, "there is no such signal", "");
}

static void do_freeze(const char *name, const char *arg)
{
    (void)name, (void)arg;
    w.cable.frozen = true;
}

static void do_thaw(const char *name, const char *arg)
{
    (void)name, (void)arg;
    w.cable.frozen = false;
}

static void do_baud(const char *name, const char *n)
{
    (void)name;
    w.cable.bits_per_s = atoi(n);
}

static void do_hangup(const char *name, const char *arg)
{
    (void)name, (void)arg;
    cable_hang_up(&w.cable);
}

static void do_mark(const char *name, const char *arg)
{
    (void)name, (void)arg;
    w.marked_bytes = glass_bytes(w.cable.glass);
    w.marked_ns = clock_ns();
    w.marked_cpu_ns = cable_cpu_ns(&w.cable);
}

static void is_number(const char *name, int found, const char *expected)
{
    char text[32];
    snprintf(text, sizeof text, "%d", found);
    if (found == atoi(expected))
        ok(name);
    else
        bad(name, "there were ", text);
}

static void do_colors(const char *name, const char *n)
{
    is_number(name, glass_colors(w.cable.glass), n);
}

static void do_bells(const char *name, const char *n)
{
    is_number(name, glass_bells(w.cable.glass), n);
}

static void do_bytes(const char *name, const char *arg)
{
    double most;
    int tokens;
    char text[96];
    CHECK(sscanf(arg, "%lf %d", &most, &tokens) == 2);
    double each = (double)(glass_bytes(w.cable.glass) - w.marked_bytes) / tokens;
    snprintf(text, sizeof text, "%s: %.1f bytes a token, of %d, in %.1f s", name, each, tokens, clock_ms_since(w.marked_ns) / 1000);
    if (each <= most)
        ok(text);
    else
        bad(name, text + strlen(name) + 2, "");
}

static void do_cpu(const char *name, const char *arg)
{
    (void)arg;
    double wall = (double)(clock_ns() - w.marked_ns), cpu = (double)(cable_cpu_ns(&w.cable) - w.marked_cpu_ns);
    printf("ok %s: the main thread used %.2f %% of a core\n", name, 100 * cpu / wall);
}

static void do_took(const char *name, const char *text)
{
    while (off_screen(text) && clock_ms_since(w.marked_ns) < 1000 * w.patience_s)
        cable_move(&w.cable, 1);
    if (off_screen(text))
        bad(name, "the screen has no ", text);
    else
        printf("ok %s: %.0f ms\n", name, clock_ms_since(w.marked_ns));
}

static bool modes_are(const char *expected)
{
    struct buf modes = {0};
    glass_modes(w.cable.glass, &modes);
    bool same = !strcmp(buf_str(&modes), expected);
    buf_free(&modes);
    return same;
}

static void do_clean(const char *name, const char *expected)
{
    struct buf modes = {0};
    bool right = await(modes_are, expected);
    glass_modes(w.cable.glass, &modes);
    if (*glass_strange(w.cable.glass))
        bad(name, "the terminal was sent ", glass_strange(w.cable.glass));
    else if (!right)
        bad(name, "the terminal has ", buf_str(&modes));
    else
        ok(name);
    buf_free(&modes);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void do_echo(const char *name, const char *arg)
{
    double ms[70];
    int n = atoi(arg);
    struct buf typed = {0};
    CHECK(n > 0 && n <= 70);
    buf_adds(&typed, "> ");
    for (int i = 0; i < n; i++) {
        buf_addc(&typed, (char)('0' + (i % 2 ? i / 2 % 10 : i / 20)));
        buf_addc(&w.cable.to_send, typed.data[typed.len - 1]);
        int64_t sent = clock_ns();
        while (off_screen(typed.data) && clock_ms_since(sent) < 1000 * w.patience_s)
            cable_move(&w.cable, 1);
        ms[i] = clock_ms_since(sent);
    }
    qsort(ms, (size_t)n, sizeof *ms, by_size);
    printf("ok %s: a key was seen after %.1f ms in the median, %.1f ms for nine of ten, %.1f ms at most\n", name, ms[n / 2], ms[n * 9 / 10],
           ms[n - 1]);
    buf_free(&typed);
}

static void do_end(const char *name, const char *status)
{
    struct buf modes = {0};
    char found[16];
    if (!await(has_ended, "")) {
        bad(name, "the program has not ended", "");
        return;
    }
    w.cable.frozen = false;
    for (size_t before = 1; before != glass_bytes(w.cable.glass) && w.cable.master >= 0;) {
        before = glass_bytes(w.cable.glass);
        cable_move(&w.cable, 20);
    }
    glass_modes(w.cable.glass, &modes);
    snprintf(found, sizeof found, "%d", w.cable.status);
    bool expected = false;
    for (const char *p = status; *p && !expected; p += strcspn(p, " "), p += *p == ' ')
        expected = atoi(p) == w.cable.status;
    bool killed = w.cable.status == 128 + SIGKILL || w.cable.master < 0;        /* nothing can be undone, or nobody sees it */
    if (!expected)
        bad(name, "its status is ", found);
    else if (*glass_strange(w.cable.glass))
        bad(name, "the terminal was sent ", glass_strange(w.cable.glass));
    else if (!killed && modes.len)
        bad(name, "the terminal is left with ", modes.data);
    else if (!killed && !cable_unchanged(&w.cable))
        bad(name, "the settings of the line are not as before", "");
    else
        ok(name);
    buf_free(&modes);
}

/* --- scripts ------------------------------------------------------------------------------------------------------ */

typedef void verb(const char *name, const char *arg);
enum counts { NOTHING, WAITS, ACTS };
static const struct { const char *name; verb *does; bool named; enum counts counts; } verbs[] = {
    {"see", do_see, true, WAITS}, {"gone", do_gone, true, WAITS}, {"never", do_never, true}, {"screen", do_screen, true}, {"keep", do_keep, false},
    {"same", do_same, true, WAITS}, {"sh", do_sh, true, WAITS}, {"title", do_title, true}, {"colors", do_colors, true}, {"bells", do_bells, true},
    {"bytes", do_bytes, true}, {"cpu", do_cpu, true}, {"took", do_took, true, WAITS}, {"echo", do_echo, true, ACTS}, {"end", do_end, true},
    {"insist", do_insist, true, WAITS},
    {"type", do_type, false, ACTS},
    {"send", do_send, false, ACTS}, {"resize", do_resize, false, ACTS}, {"storm", do_storm, false, ACTS}, {"signal", do_signal, false},
    {"freeze", do_freeze, false}, {"thaw", do_thaw, false}, {"baud", do_baud, false}, {"hangup", do_hangup, false}, {"mark", do_mark, false},
    {"clean", do_clean, true},
};

static void do_line(char *line)
{
    char *arg = line + strcspn(line, " ");
    if (*arg)
        *arg++ = 0;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, line))
            continue;
        char *name = arg, *colon = verbs[i].named ? strstr(arg, ": ") : NULL;
        if (colon)
            *colon = 0;
        w.awaited = verbs[i].counts == WAITS || (w.awaited && verbs[i].counts == NOTHING);
        verbs[i].does(verbs[i].named ? name : line, colon ? colon + 2 : verbs[i].named ? "" : arg);
        fflush(stdout);
        return;
    }
    bad(line, "there is no such verb", "");
}

int main(int argc, char **argv)
{
    int opt, rows, cols;
    char *line = NULL;
    size_t size = 0;
    while ((opt = getopt(argc, argv, "+t:l:")) != -1)
        if (opt == 't')
            w.patience_s = atoi(optarg);
        else if (opt != 'l' || !(w.cable.log = fopen(optarg, "we")))
            return 2;
    if (optind + 2 > argc || sscanf(argv[optind], "%dx%d", &cols, &rows) != 2)
        return 2;
    cable_open(&w.cable, rows, cols, argv + optind + 1);
    while (!w.failed && getline(&line, &size, stdin) >= 0) {
        line[strcspn(line, "\n")] = 0;
        if (*line && *line != '#')
            do_line(line);
    }
    cable_close(&w.cable);
    if (w.cable.log)
        fclose(w.cable.log);
    buf_free(&w.kept);
    free(line);
    return w.failed;
}
