/* `q35chat debug COMMAND ...`. */
#ifndef Q35_UI_DEBUG_H
#define Q35_UI_DEBUG_H

int debug_main(int argc, char **argv);          /* argv[1] is "debug"; the exit status */
extern const char debug_options_help[];         /* the part of its help that names its options */

#endif
