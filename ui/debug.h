/* `q35chat debug ...` and `q35chat model inspect DIR`: argument parsing for the commands of src/debug. */
#ifndef Q35_UI_DEBUG_H
#define Q35_UI_DEBUG_H

int debug_run(int argc, char **argv);           /* argv[1] is "debug"; the exit status */
int model_run(int argc, char **argv);           /* argv[1] is "model" */

#endif
