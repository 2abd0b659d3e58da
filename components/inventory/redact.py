"""Takes what identifies hosts, people and networks out of texts. Equal values stay equal.

Readers still understand the result: a placeholder has the form of its value, addresses of one
subnet stay in one subnet, an address in a GID or a GUID is the one of its interface, and special
addresses stay as they are.
"""

import hashlib
import hmac
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import TypeVar

T = TypeVar("T")

HEX = "[0-9a-fA-F]"
SECRET = re.compile(
    r"(?im)(?<![\w.-])"
    r"([\"']?[\w.-]*(?:passw(?:or)?d|psk|secret|token|private[-_]?key|wep-key\d?)[\"']?"
    r"[ \t]*[=:][ \t]*)(\S.*)$"
)
PUBLIC_KEY = re.compile(r"\b(ssh-[\w-]+|ecdsa-[\w-]+) (AAAA[\w+/=]+)")
PEM = re.compile(r"(-----BEGIN [^-]+-----).*?(-----END [^-]+-----)", re.DOTALL)
SERIAL = re.compile(
    r"(?im)(\bserial(?: ?(?:number|no\.?))?\b|\[SN\]|\bGPU UUID|\bS/?N\b|\basset[ _-]?tag\b)"
    r"([\"']?\s*[:=]\s*[\"']?)([\w./-]{4,})"
)
UDEV_SERIAL = re.compile(r"\b(ID_SERIAL(?:_SHORT)?=)(\S+)")
UUID = re.compile(
    rf"(?<![\w-]){HEX}{{8}}(?:-{HEX}{{4}}){{3}}-{HEX}{{12}}(?![\w-])|(?<!\w){HEX}{{32}}(?!\w)"
)
OCTETS = re.compile(rf"(?<![\w:-]){HEX}{{2}}(?:(:|-){HEX}{{2}})(?:\1{HEX}{{2}})*(?![\w:-])")
"""MACs, and the longer addresses of IPoIB and of PCI's serial numbers."""
GUID = re.compile(rf"(?<![\w:]){HEX}{{4}}(?::{HEX}{{4}}){{3}}(?![\w:])")
IPV6 = re.compile(
    rf"(?<![\w:.])(?:{HEX}{{0,4}}:){{2,7}}(?:{HEX}{{0,4}}|\d+\.\d+\.\d+\.\d+)(?![\w:])"
)
IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2})?(?![\w]|\.\d)")
SOCKET = re.compile(r"(?<![\w:])([0-9A-F]{8})(:[0-9A-F]{4})(?![\w:])")
"""Address and port in /proc/net/tcp."""
OFED = re.compile(r"(?i)ofed[\w-]*?\d+\.\d+-(?:\d+\.)+\d+")
"""Its version looks like an address."""
HOME = re.compile(r"(/home/)([\w.-]+)")
SHORTEST_NAME = 3
NAMES_OF_ALL = frozenset({"localhost", "none", "linux", "root", "lost+found"})
"""Names that identify nobody."""


class Redactor:
    """Learns texts and names first, then replaces.

    Args:
        key: makes placeholders that nobody without it can trace back.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._names: dict[str, str] = {}
        self._first_octets: dict[int, int] = {}
        self._octets_in_use: set[int] = set()
        self._networks: dict[int, dict[int, int]] = {}
        self._words: re.Pattern[str] | None = None
        self._compact: dict[str, str] = {}
        """MACs without separators, as udev names interfaces by them."""
        self.removed: dict[str, dict[str, str]] = defaultdict(dict)
        """Placeholder by value, by kind."""

    def learn_names(self, kind: str, names: Iterable[str]) -> None:
        """Names that are replaced wherever they are a whole word, such as `host1` for each host."""
        self._words = None
        for name in names:
            known = (
                len(name) < SHORTEST_NAME
                or name.lower() in NAMES_OF_ALL
                or name.lower() in self._names
            )
            if not known and not name.isdigit():
                number = len({text for text in self._names.values() if text.startswith(kind)}) + 1
                self._names[name.lower()] = f"{kind}{number}"

    def learn(self, texts: Iterable[str]) -> None:
        """Texts that will be redacted."""
        self._words = None
        for text in texts:
            for match in IPV4.finditer(text):
                self._octets_in_use.add(int(match[0].split(".")[0]))
            for match in OCTETS.finditer(text):
                mac = match[0].replace("-", ":").lower()
                if mac.count(":") == 5:
                    self._compact[mac.replace(":", "")] = self._mac(mac).replace(":", "")
            self.learn_names("user", (match[2] for match in HOME.finditer(text)))

    def value(self, value: T) -> T:
        """A JSON value whose texts and keys are redacted."""
        if isinstance(value, str):
            return self.text(value)  # type: ignore[return-value]
        if isinstance(value, Mapping):
            return {  # type: ignore[return-value]
                self.text(str(key)): self.value(item) for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.value(item) for item in value]  # type: ignore[return-value]
        return value

    def text(self, text: str) -> str:
        """A text without what identifies."""
        text = PEM.sub(
            lambda match: self._note("key", match[0], f"{match[1]}\nREMOVED\n{match[2]}"), text
        )
        text = PUBLIC_KEY.sub(
            lambda match: f"{match[1]} {self._hashed('key', match[2], 'KEY')}", text
        )
        text = SECRET.sub(self._secret, text)
        text = SERIAL.sub(
            lambda match: (
                f"{match[1]}{match[2]}{self._hashed('serial number', match[3], 'SERIAL')}"
            ),
            text,
        )
        text = UDEV_SERIAL.sub(
            lambda match: f"{match[1]}{self._hashed('serial number', match[2], 'SERIAL')}", text
        )
        text = UUID.sub(lambda match: self._uuid(match[0]), text)
        text = IPV6.sub(lambda match: self._ipv6_text(match[0]), text)
        text = GUID.sub(lambda match: self._guid(match[0]), text)
        text = OCTETS.sub(lambda match: self._octets(match[0], match[1]), text)
        text = SOCKET.sub(self._socket, text)
        versions = [match.span() for match in OFED.finditer(text)]
        text = IPV4.sub(lambda match: self._ipv4_text(match, versions), text)
        if self._words is None:
            self._words = self._pattern()
        return self._words.sub(self._word, text)

    def _pattern(self) -> re.Pattern[str]:
        """All names, the longest first, and all MACs without separators."""
        names = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        macs = "|".join(self._compact)
        return re.compile(
            rf"(?i)(?<![A-Za-z0-9])(?:{names or '(?!)'})(?![A-Za-z0-9])|{macs or '(?!)'}"
        )

    def _word(self, match: re.Match[str]) -> str:
        word = match[0].lower()
        if word in self._compact:
            return self._note("MAC", word, self._compact[word])
        return self._note("name", word, self._names[word])

    def _note(self, kind: str, value: str, placeholder: str) -> str:
        if value != placeholder:
            self.removed[kind][value] = placeholder
        return placeholder

    def _bits(self, kind: str, value: str) -> int:
        return int.from_bytes(
            hmac.digest(self._key, f"{kind} {value.lower()}".encode(), hashlib.sha256)
        )

    def _hashed(self, kind: str, value: str, word: str) -> str:
        return (
            value
            if value.startswith(word)
            else self._note(kind, value, f"{word}{self._bits(kind, value) % 10**8:08d}")
        )

    def _secret(self, match: re.Match[str]) -> str:
        return f"{match[1]}{self._note('key', match[2], 'REMOVED')}"

    def _uuid(self, value: str) -> str:
        if not set(value.lower()) - set("0-") or not set(value.lower()) - set("f-"):
            return value
        digits = iter(f"{self._bits('uuid', value):064x}")
        made = "".join(next(digits) if character != "-" else "-" for character in value)
        return self._note("UUID", value, made)

    def _mac(self, mac: str) -> str:
        """The vendor's half of a MAC stays."""
        octets = mac.lower().split(":")
        if set(mac) <= set("0:") or int(octets[0], 16) & 1:
            return mac
        vendor = octets[:3] if not int(octets[0], 16) & 2 else [octets[0], "00", "00"]
        tail = f"{self._bits('mac', mac) % 2**24:06x}"
        return ":".join([*vendor, tail[:2], tail[2:4], tail[4:]])

    def _octets(self, text: str, separator: str) -> str:
        octets = text.lower().split(separator)
        if len(octets) == 6:
            made = self._mac(":".join(octets)).replace(":", separator)
            return self._note("MAC", text, made)
        if len(octets) not in (8, 20) or not set(text) - set(f"0{separator}"):
            return text
        digits = f"{self._bits('guid', ''.join(octets)):064x}"
        made = separator.join(
            [*octets[:3], *(digits[2 * i : 2 * i + 2] for i in range(len(octets) - 3))]
        )
        return self._note("GUID", text, made)

    def _guid(self, text: str) -> str:
        digits = text.replace(":", "").lower()
        if set(digits) <= {"0"}:
            return text
        made = f"{digits[:6]}{self._bits('guid', digits) % 2**40:010x}"
        return self._note("GUID", text, ":".join(made[i : i + 4] for i in range(0, 16, 4)))

    def _ipv4_text(self, match: re.Match[str], versions: Iterable[tuple[int, int]]) -> str:
        start, end = match.span()
        if any(first <= start and end <= last for first, last in versions):
            return match[0]
        address, _, length = match[0].partition("/")
        try:
            number = int(IPv4Address(address))
        except AddressValueError:
            return match[0]
        made = self._ipv4(number)
        if length and int(length) < 24 and number % 2 ** (32 - int(length)) == 0:
            made &= -1 << (32 - int(length))  # a network, not a host in it
        return (
            self._note("IPv4 address", address, str(IPv4Address(made))) + match[0][len(address) :]
        )

    def _ipv4(self, number: int) -> int:
        """Keeps common prefixes from 8 bits on, and the last octet."""
        first = number >> 24
        if first in (0, 127, 255) or first >= 224 or number >> 16 == 0xA9FE:
            return number
        made = self._first_octet(first)
        for length in range(8, 24):
            bit = number >> (31 - length) & 1
            flip = self._bits("ipv4", f"{length} {number >> (32 - length)}") & 1
            made = made << 1 | bit ^ flip
        return made << 8 | number & 255

    def _first_octet(self, octet: int) -> int:
        """Another one, which no text has."""
        if octet not in self._first_octets:
            taken = self._octets_in_use | set(self._first_octets.values()) | {0, 127, 169}
            free = [number for number in range(10, 224) if number not in taken]
            self._first_octets[octet] = (
                free[self._bits("octet", str(octet)) % len(free)] if free else octet
            )
        return self._first_octets[octet]

    def _socket(self, match: re.Match[str]) -> str:
        number = int.from_bytes(bytes.fromhex(match[1]), "little")
        made = self._ipv4(number).to_bytes(4, "little").hex().upper()
        return self._note("IPv4 address", match[1], made) + match[2]

    def _ipv6_text(self, text: str) -> str:
        try:
            address = IPv6Address(text)
        except AddressValueError:
            return text
        made = self._ipv6(address)
        if made == address:
            return text
        same_form = made.exploded if len(text) == 39 else str(made)
        return self._note("IPv6 address", text, same_form)

    def _ipv6(self, address: IPv6Address) -> IPv6Address:
        if address.ipv4_mapped is not None:
            return IPv6Address(0xFFFF << 32 | self._ipv4(int(address.ipv4_mapped)))
        if int(address) < 2**16 or address.is_multicast:
            return address
        prefix, interface = divmod(int(address), 2**64)
        if not address.is_link_local:
            subnets = self._networks.setdefault(prefix >> 16, {0: 0})
            subnet = subnets.setdefault(prefix & 0xFFFF, len(subnets))
            prefix = 0x2001_0DB8 << 32 | list(self._networks).index(prefix >> 16) << 16 | subnet
        return IPv6Address(prefix << 64 | self._interface_id(interface))

    def _interface_id(self, interface: int) -> int:
        if interface < 2**16:
            return interface
        octets = interface.to_bytes(8)
        if octets[3:5] == b"\xff\xfe":  # made from the MAC
            mac = bytes([octets[0] ^ 2, *octets[1:3], *octets[5:]]).hex(":")
            made = bytes.fromhex(self._mac(mac).replace(":", ""))
            return int.from_bytes(bytes([made[0] ^ 2, *made[1:3], 0xFF, 0xFE, *made[3:]]))
        return self._bits("ipv6", str(interface)) % 2**64


def texts_of(value: object, act: Callable[[str], None]) -> None:
    """Gives each text of a JSON value, keys included."""
    if isinstance(value, str):
        act(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            act(str(key))
            texts_of(item, act)
    elif isinstance(value, list):
        for item in value:
            texts_of(item, act)
