"""The network below PVRDMA: a lab that does nothing for it is told what is wanted, once and without a fault."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from components.fabric.preflight.judge import unlossless
from stacks.fabric import DistributedSwitch
from stacks.lab import Lab
from stacks.qos import Qos
from tests.messages import states

HOST = SimpleNamespace(vmkernel=object())
PLAIN = SimpleNamespace(vmkernel=None)
LOSSLESS = Qos(mode="lossless")


def said(host: Any = HOST, **others: Any) -> list[str]:
    """Of a lab with one distributed switch that has this host."""
    fabric = SimpleNamespace(switches=[DistributedSwitch.model_construct(hosts=(host,))])
    given = {"simulated": False, "fabric": fabric, "qos": None, "switches": (), **others}
    return list(unlossless(cast(Lab, SimpleNamespace(**given))))


@pytest.mark.parametrize(
    "others", [{}, {"qos": LOSSLESS}, {"switches": ("a switch",)}, {"qos": Qos(), "switches": ("a switch",)}]
)
def test_a_lab_that_may_drop_frames_gets_a_warning_about_pvrdma(others: dict[str, Any]) -> None:
    [warned] = said(**others)

    assert states(warned, "PVRDMA", "switches", "qos.mode: lossless", "nmlx5_core", "pfctx", "pfcrx")


@pytest.mark.parametrize(
    "others", [{"qos": LOSSLESS, "switches": ("a switch",)}, {"simulated": True}, {"fabric": None}, {"host": PLAIN}]
)
def test_lossless_simulated_and_other_labs_without_pvrdma_get_no_warning(others: dict[str, Any]) -> None:
    assert said(**others) == []
