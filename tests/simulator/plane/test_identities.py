"""Certificates and kubeconfigs of a cluster."""

import base64
import json
import ssl
import stat

from cryptography import x509
from cryptography.x509.oid import NameOID

from simulator.plane import kubeconfig, pki


def test_every_key_is_for_the_owner_only(layout):
    keys = sorted((layout.folder / "pki").glob("*.key"))

    assert len(keys) == len(pki.CLIENTS) + len(pki.SERVERS) + 2, "clients, servers, authority, service accounts"
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_certificates_stay_when_asked_for_again_and_change_with_the_address(layout):
    folder = layout.folder / "pki"
    first = (folder / "ca.crt").read_bytes()

    assert not pki.issue(folder, layout.address)
    assert (folder / "ca.crt").read_bytes() == first
    assert pki.issue(folder, "127.0.77.2"), "a server certificate for another address is of no use"


def test_an_interrupted_run_leaves_nothing_that_is_taken_for_whole(layout):
    folder = layout.folder / "pki"
    (folder / layout.address).unlink()

    assert pki.issue(folder, layout.address)


def test_strict_verification_accepts_the_authority(layout):
    context = ssl.create_default_context(cafile=layout.pki("ca.crt"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT

    certificate = x509.load_pem_x509_certificate(layout.pki("apiserver.crt").read_bytes())
    authority = x509.load_pem_x509_certificate(layout.pki("ca.crt").read_bytes())
    certificate.verify_directly_issued_by(authority)
    certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
    authority.extensions.get_extension_for_class(x509.KeyUsage)


def test_users_and_groups_are_those_that_kubernetes_has_rights_for(layout):
    def subject(name: str) -> tuple[str, list[str]]:
        found = x509.load_pem_x509_certificate(layout.pki(f"{name}.crt").read_bytes()).subject
        groups = [str(entry.value) for entry in found.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        return str(found.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value), groups

    assert subject("scheduler") == ("system:kube-scheduler", [])
    assert subject("admin") == ("rocelab-admin", ["system:masters"])


def test_a_kubeconfig_needs_no_other_file(layout):
    config = json.loads(kubeconfig.render(layout, "admin"))

    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert cluster["server"] == "https://127.0.77.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == layout.pki("ca.crt").read_bytes()
    assert base64.b64decode(user["client-key-data"]) == layout.pki("admin.key").read_bytes()


def test_who_acts_as_a_service_account_has_its_groups_and_no_more(layout):
    user = json.loads(kubeconfig.render(layout, "admin", ("mpi-operator", "runner")))["users"][0]["user"]

    assert user["as"] == "system:serviceaccount:mpi-operator:runner"
    assert "system:masters" not in user["as-groups"]
    assert "system:serviceaccounts:mpi-operator" in user["as-groups"]


def test_a_kubeconfig_is_written_for_the_owner_only(layout):
    kubeconfig.write(layout.kubeconfig, "first")
    kubeconfig.write(layout.kubeconfig, "second")

    assert layout.kubeconfig.read_text() == "second"
    assert stat.S_IMODE(layout.kubeconfig.stat().st_mode) == 0o600
