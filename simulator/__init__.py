"""A whole lab on loopback: nodes, switch, control plane and vCenter, without hardware. Command `sim`."""
