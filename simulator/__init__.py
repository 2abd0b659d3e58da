"""A lab on loopback without hardware: nodes, switch, control plane and vCenter. Command `sim`."""
