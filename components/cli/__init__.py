"""The command line `rocelab VERB`: arguments, output and exit codes. What a verb does stands in its layer."""
