"""The parts of a stack's simulator."""

from dataclasses import dataclass
from pathlib import Path

from simulator.nodes.part import Nodes, RealPods
from simulator.packages.part import Packages
from simulator.part import CHECKOUT, Part, SimulatorError
from simulator.plane.kubelets import archive, section
from simulator.plane.layout import Layout
from simulator.plane.part import ControlPlane
from simulator.switch.part import FRONT, Switch
from simulator.vcenter.guests import command, powered
from simulator.vcenter.part import Guests, VCenter
from stacks.read import read_stack_file


@dataclass(frozen=True)
class Simulator:
    """The parts of one lab, which keep their files in `state`."""

    state: Path
    nodes: Nodes
    switch: Switch
    plane: ControlPlane
    others: tuple[Part, ...]
    unneeded: tuple[Part, ...]
    """Parts that this lab does not need; another stack may have left them running."""

    @property
    def parts(self) -> list[Part]:
        """All parts. The switch is first, because the nodes are cabled to it."""
        return [self.switch, self.nodes, *self.others]

    def chosen(self, names: list[str]) -> list[Part]:
        """The parts with these names; all without names.

        Raises:
            SimulatorError: if this lab has no part of that name.
        """
        known = {
            part.name.rpartition(" ")[2].lower(): part for part in self.parts
        }  # "plane" is enough for the control plane
        if unknown := [name for name in names if name not in known]:
            raise SimulatorError(f"no part {', '.join(unknown)}; this lab's parts: {', '.join(known)}")
        return [part for name, part in known.items() if not names or name in names]


def simulator_of(stack: str, state: Path) -> Simulator:
    """The simulator of a stack's lab.

    Raises:
        LabError: if the stack file is missing or invalid.
        SimulatorError: if the lab has real machines.
    """
    lab = read_stack_file(CHECKOUT / f"Pulumi.{stack}.yaml")
    if lab.kind != "virtual":
        raise SimulatorError(f"stack {stack} is of kind {lab.kind}; the simulator runs labs of kind virtual only")
    binaries = CHECKOUT / ".engine" / "bin"
    layout = Layout(state.absolute(), binaries)
    bill = section(lab).bill if lab.has_real_pods else None
    plane = ControlPlane(lab, state, binaries)
    real_pods = None
    if bill:
        real_pods = RealPods(binaries, bill, lambda address: archive(lab, layout, address), plane.nodes_failed)
    nodes = Nodes(lab, state, lambda: powered(state), real_pods)
    vcenter = VCenter(lab, state, binaries, Guests(command(stack), nodes.end_guests))
    needed: dict[Part, bool] = {plane: lab.cluster is not None, vcenter: lab.fabric is not None, Packages(state): True}
    return Simulator(
        state,
        nodes,
        Switch(lab, nodes.machines, state, FRONT),
        plane,
        others=tuple(part for part, is_needed in needed.items() if is_needed),
        unneeded=tuple(part for part, is_needed in needed.items() if not is_needed),
    )
