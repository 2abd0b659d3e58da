"""Whether an image can speak PVRDMA, asked from inside of it: at the end of its build, and when a job's rank starts.

`pvrdma.py` asks the same of an image from outside, with more to say. Here it is shell: an image has nothing else.
"""

PROVIDER = "vmw_pvrdma"
REFUSED = "this image cannot speak PVRDMA"
"""How the sentence begins, for those who look for it in a log."""
REMEDY = "rocelab image repair renders one that can"
VENDOR_LIBRARIES = ("libibverbs*", "ibverbs-*", "librdmacm*", "rdma-core*", "perftest*")
"""Packages whose builds are the vendor's or the distribution's, by the names that both share."""
VENDOR = "mlnx|mofed|doca"
"""What the vendor's own builds have in their version, such as 51mlnx1-1.51246: a pattern, in any case."""
VENDOR_FOLDER = "/opt/mellanox/DEBS"
"""NGC's entrypoint installs from there what fits the host's driver, over what stands in the image."""
_LOOK = (
    'why="{unfound}"',
    "for library in {root}/usr/lib/*/libibverbs.so.1 {root}/usr/lib64/libibverbs.so.1",
    'do [ -e "$library" ] || continue',
    # the suffix of the providers that it loads is a text in the library itself
    "abi=$(grep -ao 'rdmav[0-9][0-9]*' \"$library\" | sort -u | tail -n 1) || abi=",
    'provider="${{library%.so.1}}/lib{provider}-${{abi:-rdmav}}.so"',
    'why="$library loads drivers of ${{abi:-rdmav}} only, and there is no $provider"',
    '[ -e "$provider" ] || continue',
    'why="/etc/libibverbs.d has no {provider}.driver"',
    '[ ! -e {root}/etc/libibverbs.d/{provider}.driver ] || why=""',
    "break",
    "done",
    '[ -z "$why" ] || {{ echo "{refused}: $why{more}" >&2; exit 1; }}',
)


def at_start(root: str = "") -> str:
    """For a rank, which it ends with the sentence. A libibverbs somewhere else is left to NCCL, which fails loudly.

    Args:
        root: where the image lies, for tests.
    """
    return "; ".join(_look("", f"; {REMEDY}", root)) + "; "


def at_build(root: str = "") -> tuple[str, ...]:
    """For a Dockerfile's RUN: commands that fail, also where a vendor's build was left among the packages."""
    looked = "; \\\n      ".join(_look("there is no libibverbs", "", root))
    names = " ".join(f"'{name}'" for name in VENDOR_LIBRARIES)
    # it fails for a name that no package has, which says nothing
    listed = f"dpkg-query --show --showformat='${{db:Status-Status}} ${{Package}} ${{Version}}\\n' \\\n      {names}"
    return (
        f"( {looked} )",
        f"! {{ {listed} 2> /dev/null || true; }} | grep -iE '^installed .*({VENDOR})' >&2",
    )


def refusal_in(log: str) -> str:
    """The sentence with which a rank ended itself; empty when none did."""
    return next((line[line.index(REFUSED) :].strip() for line in log.splitlines() if REFUSED in line), "")


def _look(unfound: str, more: str, root: str) -> list[str]:
    values = {"unfound": unfound, "more": more, "root": root, "provider": PROVIDER, "refused": REFUSED}
    return [line.format(**values) for line in _LOOK]
