#include "ui/tui/numbers.h"

void number_tokens(struct buf *out, double n)
{
    if (n < 999.5)
        buf_addf(out, "%.0f", n);
    else if (n < 99950)
        buf_addf(out, "%.1fk", n / 1e3);
    else if (n < 999500)
        buf_addf(out, "%.0fk", n / 1e3);
    else
        buf_addf(out, "%.1fM", n / 1e6);
}

void number_context(struct buf *out, int n)
{
    if (n >= 1024 && n % 1024 == 0)
        buf_addf(out, "%dk", n / 1024);
    else
        number_tokens(out, n);
}

void number_count(struct buf *out, long n)
{
    if (n >= 1000) {
        number_count(out, n / 1000);
        buf_addf(out, ",%03ld", n % 1000);
    } else {
        buf_addf(out, "%ld", n);
    }
}

void number_bytes(struct buf *out, size_t n)
{
    if (n < 1000)
        buf_addf(out, "%zu byte%s", n, n == 1 ? "" : "s");
    else if (n < 999950)
        buf_addf(out, "%.1f kB", (double)n / 1e3);
    else
        buf_addf(out, "%.1f MB", (double)n / 1e6);
}

void number_rate(struct buf *out, double per_s)
{
    if (per_s < 99.95)
        buf_addf(out, "%.1f", per_s);
    else
        number_tokens(out, per_s);
}

void number_joules(struct buf *out, double n)
{
    if (n < 999.5)
        buf_addf(out, "%.0f J", n);
    else
        buf_addf(out, "%.1f kJ", n / 1e3);
}

void number_turn(struct buf *out, int n_read, double read_ms, int n_tokens, double answer_ms)
{
    if (n_read > 0) {
        buf_adds(out, "read ");
        number_tokens(out, n_read);
        buf_addf(out, " in %.1f s, ", read_ms / 1000);
    }
    number_count(out, n_tokens);
    buf_addf(out, " tok in %.1f s", answer_ms / 1000);
}

void number_about(struct buf *out, int seconds)
{
    if (seconds < 100)
        buf_addf(out, "about %d s", seconds);
    else
        buf_addf(out, "about %d min", (seconds + 59) / 60);
}

void number_clock(struct buf *out, int seconds)
{
    if (seconds < 0)
        seconds = 0;
    if (seconds >= 3600)
        buf_addf(out, "%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
    else
        buf_addf(out, "%d:%02d", seconds / 60, seconds % 60);
}
