/* `q35chat bench ...`. */
#ifndef Q35_UI_BENCH_H
#define Q35_UI_BENCH_H

int bench_main(int argc, char **argv);          /* argv[1] is "bench"; the exit status */
extern const char bench_options_help[];         /* the part of its help that names its options */

#endif
