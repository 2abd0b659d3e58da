"""The command line `rocelab VERB`: arguments, output and exit codes. The layers do the work."""
