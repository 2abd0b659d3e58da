"""Reads the JSON of an iperf3 client (`-J`), the baseline over TCP. Judges nothing."""

from dataclasses import dataclass

from components.validation.parsers.documents import Document, counted, document_of, measured, part, parts
from components.validation.parsers.lines import ResultFormatError

WHAT = "iperf3's result"
APART = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Iperf3:
    """One run over TCP."""

    version: str
    streams: int
    received_gbit_s: float
    """What arrived, in 10^9 bits a second."""
    sent_gbit_s: float
    retransmits: int
    """Over all streams."""
    seconds: float


def parse_iperf3(text: str) -> Iperf3:
    """Reads a run. Bytes, time and rate are three of which two tell the third, and the streams add up to the sum.

    Raises:
        ResultFormatError: with the reason, iperf3's own if it names one; a number is never guessed.
    """
    document = document_of(text[text.find("{") :] if "{" in text else text, WHAT)
    if error := document.get("error"):
        raise ResultFormatError(f"iperf3: {str(error)[:160]}")
    start, end = part(document, "start", WHAT), part(document, "end", WHAT)
    protocol = part(start, "test_start", WHAT).get("protocol")
    if protocol != "TCP":
        raise ResultFormatError(f"{WHAT}: over {str(protocol)[:20]}, and TCP was expected")
    sent, received = part(end, "sum_sent", WHAT), part(end, "sum_received", WHAT)
    streams = parts(end, "streams", WHAT)
    for key, total in (("sender", sent), ("receiver", received)):
        added = sum(counted(part(stream, key, WHAT), "bytes", key) for stream in streams)
        if added != counted(total, "bytes", key):
            raise ResultFormatError(f"{WHAT}: the streams' bytes add up to {added}, the sum says {total['bytes']}")
    retransmits = counted(sent, "retransmits", WHAT)
    added = sum(counted(part(stream, "sender", WHAT), "retransmits", "sender") for stream in streams)
    if added != retransmits:
        raise ResultFormatError(f"{WHAT}: the streams' retransmits add up to {added}, the sum says {retransmits}")
    return Iperf3(
        version=str(start.get("version", ""))[:40],
        streams=len(streams),
        received_gbit_s=_rate(received, "received"),
        sent_gbit_s=_rate(sent, "sent"),
        retransmits=retransmits,
        seconds=measured(received, "seconds", WHAT),
    )


def _rate(total: Document, what: str) -> float:
    """The rate, worked out from bytes and time, which has to be the printed one."""
    seconds, bits_s = measured(total, "seconds", what), measured(total, "bits_per_second", what)
    computed = counted(total, "bytes", what) * 8 / seconds if seconds > 0 else 0.0
    if computed <= 0 or abs(computed - bits_s) > APART * computed:
        raise ResultFormatError(
            f"{WHAT}, {what}: {bits_s} bits a second printed and {computed:.0f} computed contradict"
        )
    return computed / 1e9
