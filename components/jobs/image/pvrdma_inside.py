"""Whether an image supports PVRDMA, checked inside it: at the end of its build, and when a job's
rank starts.

`pvrdma.py` checks an image from outside, in more detail. This check is shell, because an image may
have nothing else.
"""

from pathlib import Path

PROVIDER = "vmw_pvrdma"
REFUSED = "this image does not support PVRDMA"
"""The beginning of the message, by which a log is searched."""
REMEDY = "rocelab image repair renders one that can"
VENDOR_LIBRARIES = ("libibverbs*", "ibverbs-*", "librdmacm*", "rdma-core*", "perftest*")
"""Packages whose builds are the vendor's or the distribution's, by the names that both share."""
VENDOR = "mlnx|mofed|doca"
"""Pattern in the versions of the vendor's builds, such as 51mlnx1-1.51246; case does not matter."""
VENDOR_FOLDER = "/opt/mellanox/DEBS"
"""NGC's entrypoint installs packages from here that fit the host's driver, over those of the
image."""
_LOOK = Path(__file__).with_name("pvrdma.sh").read_text()
"""The suffix of the providers that libibverbs loads is a string in the library itself."""


def at_start(root: str = "") -> str:
    """For a rank, which it ends with the sentence. NCCL itself fails loudly without libibverbs.
    `root` is for tests.
    """
    return "; ".join(_look("", f"; {REMEDY}", root)) + "; "


def at_build(root: str = "") -> tuple[str, ...]:
    """For a Dockerfile's RUN: commands that also fail if a vendor's build is still among the
    packages.
    """
    looked = "; \\\n      ".join(_look("there is no libibverbs", "", root))
    names = " ".join(f"'{name}'" for name in VENDOR_LIBRARIES)
    # it fails for a name without a package, which is fine
    listed = (
        "dpkg-query --show --showformat='${db:Status-Status} ${Package} "
        f"${{Version}}\\n' \\\n      {names}"
    )
    return (
        f"( {looked} )",
        f"! {{ {listed} 2> /dev/null || true; }} | grep -iE '^installed .*({VENDOR})' >&2",
    )


def refusal_in(log: str) -> str:
    """The sentence with which a rank ended itself; empty when none did."""
    for line in log.splitlines():
        if REFUSED in line:
            return line[line.index(REFUSED) :].strip()
    return ""


def _look(unfound: str, more: str, root: str) -> list[str]:
    values = {
        "unfound": unfound,
        "more": more,
        "root": root,
        "provider": PROVIDER,
        "refused": REFUSED,
    }
    text = _LOOK
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text.splitlines()
