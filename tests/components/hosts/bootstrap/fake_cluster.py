"""The cluster that nodes leave."""

from components.hosts.drain import DrainError


class FakeCluster:
    """An API server that keeps what was asked of it."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.stubborn: set[str] = set()
        self.nodes = {"cp01", "gpu01", "gpu02"}
        self.down = False

    def knows(self, node: str) -> bool:
        if self.down:
            raise DrainError("the Kubernetes API does not answer")
        return node in self.nodes

    def cordon(self, node: str) -> bool:
        self.did.append(f"cordon {node}")
        return True

    def empty(self, node: str) -> None:
        if node in self.stubborn:
            raise DrainError(f"{node} still runs default/job after 300 s")
        self.did.append(f"empty {node}")

    def uncordon(self, node: str) -> None:
        self.did.append(f"uncordon {node}")

    def reopen(self, node: str) -> None:
        self.did.append(f"reopen {node}")

    def forget(self, node: str) -> None:
        if self.down:
            raise DrainError("the Kubernetes API does not answer")
        self.did.append(f"forget {node}")
