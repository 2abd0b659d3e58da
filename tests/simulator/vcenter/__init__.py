"""The simulated vCenter's side of the simulator."""
