"""The frame switch between the nodes' NICs: real VLANs and MTUs, cables that can be pulled, loss and delay."""
