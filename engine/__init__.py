"""How the Pulumi engine, its plugins and the simulator's Go programs get onto this machine."""
