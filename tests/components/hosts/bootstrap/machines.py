"""Hosts of a lab whose cluster is made: the real host program on small kernels, joined by one fake API server."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from components.hosts.bootstrap.join import unite
from components.hosts.calls import Crew, Report, parse_report
from components.hosts.document import target_record
from components.hosts.program.main import perform
from components.hosts.records import HostRecord
from components.hosts.repair import Outcome
from components.ssh.connection import Endpoint, NoAnswerError
from stacks.hosts import HostPolicy
from stacks.lab import Lab
from tests.components.hosts.kube_kernel import KubeHost, Plane
from tests.labs import made_here

CA = Path(__file__).with_name("ca.crt").read_text()
CA_HASH = "sha256:fbe0bb99997781b30debfee08b460c1e353f22006c53ebffaaa9f4557ca434dd"
"""As kubeadm's guide computes it: openssl x509 -pubkey, openssl pkey -pubin -outform der, openssl dgst -sha256 -hex."""


def certificate(name: str = "kubernetes") -> str:
    """A certificate authority of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    signed = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=3650))
    return signed.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


class Machines:
    """Stands in for `Hosts`: a call runs the program on the machine of that address."""

    def __init__(self, folder: Path, planes: int = 1) -> None:
        self.lab = Lab.model_validate_json(json.dumps(made_here(planes)))
        self.plane = Plane(CA)
        self.plane.hashes = {CA_HASH}
        self.machines = {node.name: KubeHost(folder / node.name, plane=self.plane) for node in self.lab.nodes}
        for machine in self.machines.values():
            machine.packages = {"kubeadm": "1.36.3", "kubelet": "1.36.3"}
        self.names = {str(node.address): node.name for node in self.lab.nodes}
        self.silent: set[str] = set()
        self.killed_in: str = ""
        """Verb whose caller is killed while kubeadm works."""
        self.calls: list[tuple[str, str]] = []
        self.probed: list[str] = []
        self.at_work = 0
        self.most_at_work = 0
        self.sent: list[str] = []

    async def call(self, endpoint: Endpoint, verb: str, document: dict[str, Any]) -> Report:
        name = self.names[endpoint.address]
        if name in self.silent:
            raise NoAnswerError(f"{endpoint.place} gave no answer in time")
        if verb == "probe":
            self.probed.append(name)
        else:
            self.calls.append((verb, name))
            self.sent.append(json.dumps(document))
        self.at_work += verb == "cluster-join"
        self.most_at_work = max(self.most_at_work, self.at_work)
        await asyncio.sleep(0)
        self.at_work -= verb == "cluster-join"
        result = perform(verb, self.machines[name], json.dumps(document), b"program")
        return parse_report(json.dumps(result))

    def records(self, **states: str) -> dict[str, HostRecord]:
        return {
            node.name: target_record(
                self.lab, node.model_copy(update={"state": states.get(node.name, node.state)}), "ssh-ed25519 AAAA"
            )
            for node in self.lab.nodes
        }

    def unite(self, outcome: Outcome | None = None, known: Any = None, **states: str) -> Outcome:
        """One run over hosts whose own steps are done."""
        records = self.records(**states)
        done = outcome or Outcome()
        for name, record in records.items():
            if record.state == "active":
                status = "unreachable" if name in self.silent else "ready"
                done.results.setdefault(name, {"status": status})
                done.records.setdefault(name, record)
                if name not in self.silent:
                    done.facts.setdefault(name, {"machine_id": name})
        self.said: list[str] = []
        crew = Crew(hosts=self, policy=HostPolicy(), say=self.said.append)  # type: ignore[arg-type]
        asyncio.run(unite(crew, self.lab, records, done, known or {}))
        return done
