"""esxcli on an ESXi host through the vCenter, without SSH to the host.

The API has the calls, but pyVmomi does not describe them, so this file does. `govc host.esxcli`
works the same way.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from pyVmomi import VmomiSupport, vim

from components.fabric.vcenter.refusals import doing
from stacks.base import LabError

VERSION = "vim.version.version1"
SPOKEN = "urn:vim25/5.0"
"""The API version that commands are described in."""
LARGEST_BYTES = 1_000_000
"""Bound on an answer; the longest lists of a large host have some hundred kilobytes."""

ELEMENT = "DataObject"
"""Tag of each object in a list."""

_OPTIONAL = VmomiSupport.F_OPTIONAL


HOST, ARGUMENT = "vim.rocelab.Host", "vim.rocelab.SoapArgument"


def _describe() -> None:
    """Registers the types of the calls with pyVmomi."""
    fault, result, executer = (
        "vim.rocelab.SoapFault",
        "vim.rocelab.SoapResult",
        "vim.rocelab.MethodExecuter",
    )
    text = ("string", VERSION)
    properties = {
        ARGUMENT: [("name", *text, 0), ("val", *text, 0)],
        fault: [("faultMsg", *text, 0), ("faultDetail", *text, _OPTIONAL)],
        result: [("response", *text, _OPTIONAL), ("fault", fault, VERSION, _OPTIONAL)],
    }
    for name, described in properties.items():
        wire = f"ReflectManagedMethodExecuter{name.rsplit('.', 1)[1]}"
        VmomiSupport.CreateDataType(name, wire, "vmodl.DynamicData", VERSION, described)
    words = []
    for word in ("moid", "version", "method"):
        words.append((word, *text, 0, None))
    takes = (*words, ("argument", f"{ARGUMENT}[]", VERSION, _OPTIONAL, None))
    run = ("run", "ExecuteSoap", VERSION, takes, (_OPTIONAL, result, result), None, None)
    VmomiSupport.CreateManagedType(
        executer, "ManagedMethodExecuter", "vmodl.ManagedObject", VERSION, None, [run]
    )
    begin = (
        "begin",
        "RetrieveManagedMethodExecuter",
        VERSION,
        (),
        (0, executer, executer),
        None,
        None,
    )
    VmomiSupport.CreateManagedType(
        HOST, "RocelabHost", "vmodl.ManagedObject", VERSION, None, [begin]
    )


_describe()
_begin: Any = VmomiSupport.GetVmodlType(HOST).Begin.info
_argument: Any = VmomiSupport.GetVmodlType(ARGUMENT)


def esxcli(
    host: vim.HostSystem, place: str, command: str, /, **options: str
) -> list[dict[str, str]]:
    """The rows of a command's answer, such as of `rdma device stats get` with `device="vmrdma0"`.

    Args:
        host: where it runs.
        place: the host's name, for errors.
        command: its words.
        options: its long options without the dashes.

    Raises:
        LabError: when the host or the vCenter refuses it, with their text.
    """
    words = command.split()
    arguments = [f"--{name} {value}" for name, value in options.items()]
    shown = " ".join(["run esxcli", command, *arguments])
    given = []
    for name, value in options.items():
        given.append(_argument(name=name, val=f"<{name}>{escape(value)}</{name}>"))
    with doing(place, shown):
        executer = host._stub.InvokeMethod(host, _begin, ())
        answer = executer.Run(
            moid=f"ha-cli-handler-{'-'.join(words[:-1])}",
            version=SPOKEN,
            method=f"vim.EsxCLI.{'.'.join(words)}",
            argument=given,
        )
    if answer is None or answer.fault is not None:
        message = "no answer"
        if answer:
            message = _said(answer.fault.faultMsg, answer.fault.faultDetail or "")
        raise LabError(f"{place}: cannot {shown}: {message}")
    return rows_of(answer.response or "")


def rows_of(answer: str) -> list[dict[str, str]]:
    """The rows of an answer, by field; those of an object within one as `DriverInfo.Version`. Lists
    are left out.

    Raises:
        LabError: when it is not an answer of esxcli.
    """
    # no answer has a document type, which could blow it up
    if len(answer) > LARGEST_BYTES or "<!" in answer:
        raise LabError(f"an answer of {len(answer)} bytes is not XML of esxcli")
    try:
        # without a document type there is nothing to expand
        root = ET.fromstring(answer)  # noqa: S314
    except ET.ParseError as error:
        raise LabError(f"an answer of esxcli cannot be read: {error}") from None
    objects: Sequence[ET.Element] = [
        element for element in root if _plain(element.tag) == ELEMENT
    ] or [root]
    return [dict(_fields(element)) for element in objects]


def _fields(of: ET.Element) -> Iterator[tuple[str, str]]:
    for field in of:
        name = _plain(field.tag)
        if not len(field):
            yield name, (field.text or "").strip()
        # fields are capitalised; what a list is made of bears the name of its type, such as string
        elif all(_plain(part.tag)[:1].isupper() and _plain(part.tag) != ELEMENT for part in field):
            for part in field:
                if not len(part):
                    yield f"{name}.{_plain(part.tag)}", (part.text or "").strip()


def number_of(row: Mapping[str, str], name: str) -> int | None:
    """A number by its name, in any spelling; None without one."""
    text = text_of(row, name)
    return int(text) if text.isdecimal() else None


def text_of(row: Mapping[str, str], name: str) -> str:
    """A field by its name in any spelling: `Bytes sent` is `BytesSent` in the API; empty without
    one.
    """
    letters = _letters(name)
    for key, value in row.items():
        if _letters(key) == letters:
            return value
    return ""


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _plain(tag: str) -> str:
    return tag.rsplit("}", 1)[-1]


def _said(message: str, detail: str) -> str:
    own = re.findall(r"<errMsg[^>]*>([^<]+)</errMsg>", detail)
    return " ".join(own or [message]).strip()[:200]
