/* The subcommands of the hocket program. Each gets its own arguments (argv[0] is "hocket NAME") and returns the exit
 * status: 0 well, 1 the work failed, 2 wrong usage. */
#ifndef HKI_TOOLS_TOOLS_H
#define HKI_TOOLS_TOOLS_H

int hki_tool_run(int argc, char **argv);
int hki_tool_info(int argc, char **argv);
int hki_tool_verify(int argc, char **argv);
int hki_tool_sim(int argc, char **argv);
int hki_tool_explain(int argc, char **argv);
int hki_tool_tune(int argc, char **argv);
int hki_tool_bench(int argc, char **argv); /* bench/bench.c */

#endif
