"""The bandwidth of a NIC's PCIe link without packet headers, from its texts in sysfs."""

import re

from stacks.frozen import frozen

TLP_BYTES = 26
"""Around the data of a memory write: framing 4, sequence 2, header 16 (64-bit address), LCRC 4
(PCIe 3.0 chapters 2 and 4). Acknowledgements and credits cost a few per cent more, which no ceiling
counts."""
FLIT_TLP_BYTES = 16
"""From Gen6 a packet has only its header; framing and checksum belong to the flit."""
FLIT_SHARE = 236 / 256
"""Bytes of a 256-byte flit that carry packets (PCIe 6.0)."""

GENERATION_OF = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""By transfer rate of a lane in GT/s."""
WIDTHS = (1, 2, 4, 8, 12, 16, 32)
PAYLOAD_BYTES = 256
"""Of a packet: the usual MaxPayload."""


@frozen
class PcieLink:
    """A link as it was trained."""

    gtransfers_s: float
    """Of one lane."""
    lanes: int

    @property
    def generation(self) -> int:
        """1 to 6."""
        return GENERATION_OF[self.gtransfers_s]

    @property
    def raw_gbit_s(self) -> float:
        """Bits each way after the line's encoding, in 10^9 a second."""
        share = 8 / 10
        if self.generation >= 6:
            share = FLIT_SHARE
        elif self.generation >= 3:
            share = 128 / 130
        return self.gtransfers_s * self.lanes * share

    def payload_gbit_s(self) -> float:
        """Data each way, in 10^9 bits a second, when every packet is full."""
        around = FLIT_TLP_BYTES if self.generation >= 6 else TLP_BYTES
        return self.raw_gbit_s * PAYLOAD_BYTES / (PAYLOAD_BYTES + around)


def pcie_link(speed: str, width: str) -> PcieLink | None:
    """The link that two sysfs texts describe, such as `16.0 GT/s PCIe` and `16`, or None.

    A virtual function's files say `Unknown` and 0 or 255: its link is that of its PF.
    """
    rate = re.fullmatch(r"(\d+(?:\.\d+)?) ?GT/s(?: PCIe)?", speed.strip())
    lanes = re.fullmatch(r"x?(\d{1,3})", width.strip())
    if rate is None or lanes is None:
        return None
    if float(rate[1]) not in GENERATION_OF or int(lanes[1]) not in WIDTHS:
        return None
    return PcieLink(gtransfers_s=float(rate[1]), lanes=int(lanes[1]))
