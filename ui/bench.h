/* `q35chat bench ...`. */
#ifndef Q35_UI_BENCH_H
#define Q35_UI_BENCH_H

int bench_main(int argc, char **argv);          /* argv[1] is "bench"; the exit status */

#endif
