"""Quality of service of RoCE: one object from which NIC, switch and NCCL settings follow, so that
they agree.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from stacks.base import Section

Dscp = Annotated[int, Field(ge=0, le=63)]
"""Differentiated services code point, the upper six bits of the IP header's TOS byte."""
Priority = Annotated[int, Field(ge=0, le=7)]
"""Priority, and the traffic class of the same number."""


class Qos(Section):
    """Trust, marking and congestion control of RoCE traffic.

    The defaults are those of Spectrum switches (Onyx `show roce`): DSCP 26 on priority 3,
    notifications on DSCP 48.
    """

    mode: Literal["lossy", "lossless"] = "lossy"
    """lossy: ECN only, as in the DeepOps RoCE guide. lossless: also priority flow control, on both
    NIC and switch."""
    dscp: Dscp = 26
    """Code point of RoCE traffic."""
    priority: Priority = 3
    """Priority and traffic class of RoCE traffic."""
    cnp_dscp: Dscp = 48
    """Code point of congestion notification packets."""
    cnp_priority: Priority = 6
    """Priority of congestion notification packets; the switch sends it first."""
    ecn_min_kbytes: int = Field(default=150, ge=1, le=10_000)
    """Fill level of a switch queue at which marking begins (the DeepOps RoCE guide)."""
    ecn_max_kbytes: int = Field(default=1500, ge=1, le=100_000)
    """Fill level of a switch queue from which every packet is marked (the DeepOps RoCE guide)."""

    @property
    def tos(self) -> int:
        """TOS byte of RoCE traffic: the code point, and the bits that say that it may be marked
        (ECT(0)).
        """
        return self.dscp << 2 | 2

    @model_validator(mode="after")
    def _classes_and_thresholds_make_sense(self) -> "Qos":
        if self.priority == self.cnp_priority or self.dscp == self.cnp_dscp:
            raise ValueError(
                "notifications share priority or DSCP with the traffic that they slow down; "
                "separate them"
            )
        if self.ecn_min_kbytes >= self.ecn_max_kbytes:
            raise ValueError(
                f"ecn_max_kbytes {self.ecn_max_kbytes} is not above ecn_min_kbytes "
                f"{self.ecn_min_kbytes}; raise it"
            )
        return self
