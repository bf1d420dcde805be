/* A program at the other end of a terminal's cable: a pty of a size, what it writes goes to a glass, as fast as the cable is.
 *
 * The program is the leader of a session of its own, so that closing the cable hangs it up. */
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
    struct termios found;       /* how the line was before the program */
    FILE *log;                  /* gets all that is read; NULL: nothing does */
    bool  frozen;               /* nothing is read */
    int   bits_per_s;           /* 0: as fast as it goes */
    int64_t read_until_ns;      /* what was read has been on its way until then */
    bool  ended;
    int   status;               /* as a shell tells it: 128 and the signal */
};

void cable_open(struct cable *c, int rows, int cols, char **argv);
void cable_close(struct cable *c);                      /* kills what still runs */
/* Moves bytes both ways, until something came or `ms` have passed. */
void cable_move(struct cable *c, int ms);
void cable_size(struct cable *c, int rows, int cols);
void cable_hang_up(struct cable *c);
bool cable_unchanged(const struct cable *c);            /* the line is as it was before the program */
int64_t cable_cpu_ns(const struct cable *c);            /* that the program's main thread has used; -1: not known */

#endif
