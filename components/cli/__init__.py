"""The command line `rocelab VERB`: arguments, output and exit codes. The layers have what a verb does."""
