/* Runs a program in a pty of a given size, like over a terminal cable of a given speed; its output goes to a glass (glass.h).
 *
 * The program is the leader of its own session, so that closing the cable hangs it up. */
#ifndef TESTS_PTY_CABLE_H
#define TESTS_PTY_CABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <termios.h>

#include "tests/pty/glass.h"

struct cable {
    int   master;               /* -1: hung up */
    pid_t pid;
    struct glass *glass;
    struct buf to_send;
    struct termios found;       /* terminal settings before the program */
    FILE *log;                  /* receives all output; NULL: no log */
    bool  frozen;               /* nothing is read */
    int   bits_per_s;           /* 0: no limit */
    int64_t read_until_ns;      /* time at which the read bytes have arrived */
    bool  ended;
    int   status;               /* as in a shell: 128 + signal */
};

void cable_open(struct cable *c, int rows, int cols, char **argv);
void cable_close(struct cable *c);                      /* kills the program if it still runs */
/* Moves bytes in both directions until something arrived or `ms` have passed. */
void cable_move(struct cable *c, int ms);
void cable_size(struct cable *c, int rows, int cols);
void cable_hang_up(struct cable *c);
bool cable_unchanged(const struct cable *c);            /* are the terminal settings as before the program? */
int64_t cable_cpu_ns(const struct cable *c);            /* CPU time of the program's main thread; -1: unknown */

#endif
