"""What the tests expect of each switch OS.

A new one needs a sample and an entry in each table; only REFUSALS is for those with a command line (`talk="cli"`),
and only RESTORED for those whose ports refer to named profiles.
"""

import json

from tests.conftest import ROOT

PORTS = {
    "onyx": ("1/1", "1/2", "1/3", "1/4"),
    "nvue": ("swp1", "swp2", "swp3s0", "swp3s1"),
    "sonic": ("Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"),
    "eos": ("Ethernet1/1", "Ethernet2/1", "Ethernet3/1", "Ethernet4/1"),
}
"""Four ports, as the OS names them."""
SAMPLES = ROOT / "tests" / "samples" / "switches"


def answers_of(system: str) -> dict[str, str]:
    """Written answers, see the samples' README: JSON ones as the text that they are on the wire."""
    content = json.loads((SAMPLES / f"{system}.json").read_text())
    return {command: text if isinstance(text, str) else json.dumps(text) for command, text in content.items()}


WRONG = {
    # system: (in which answer, what, by what, the field, as it is found)
    "onyx": [
        ("show interfaces ethernet", "9216 bytes", "1500 bytes", "mtu_bytes", 1500),
        ("congestion-control", "1500 KB", "1550 KB", "ecn_tc3", "150-1550 KB"),
        ("show qos", '"L3"', '"both"', "trust", "both"),
        ("show dcb ets", '"Strict"', '"WRR"', "scheduling_tc6", "wrr 0"),
        ("priority-flow-control", '"Enabled"', '"Disabled"', "pfc_3", "off"),
        ("switchport", '"111"', '"111,112"', "vlans", "trunk, untagged 4094, tagged 111-112"),
    ],
    "nvue": [
        ("swp1", "9216", "1500", "mtu_bytes", 1500),
        ("nv show qos", "1500000", "1550000", "ecn_tc3", "150-1550 KB"),
        ("nv show qos", '"l3"', '"l2"', "trust", "pcp"),
        ("nv show qos", '"mode": "strict"', '"mode": "dwrr"', "scheduling_tc6", "wrr 0"),
        ("nv show qos", '"3": {}', '"4": {}', "pfc_3", "off"),
        ("nv show qos", '"bw-percent": 50', '"bw-percent": 0', "scheduling_tc6", "strict, no share for 3"),
        ("swp1", '"111": {}', '"112": {}', "vlans", "trunk, untagged 4094, tagged 112"),
        ("swp1", '"state": "enable"', '"state": "disable"', "pfc_watchdog", "off"),
    ],
    "sonic": [
        ("sonic-cfggen", '"9216"', '"9100"', "mtu_bytes", 9100),
        ("sonic-cfggen", '"1500000"', '"1550000"', "ecn_tc3", "150-1550 KB"),
        ("sonic-cfggen", '"26": "3"', '"26": "1"', "dscp_26", 1),
        ("sonic-cfggen", '"STRICT"', '"DWRR"', "scheduling_tc6", "wrr 0"),
        ("sonic-cfggen", '"pfc_enable": "3",', '"pfc_enable": "4",', "pfc_3", "off"),
        ("sonic-cfggen", "Vlan111|", "Vlan112|", "vlans", "trunk, untagged 4094, tagged 112"),
        ("sonic-cfggen", '"PFC_WD": {"Ethernet0"', '"PFC_WD": {"Ethernet8"', "pfc_watchdog", "off"),
    ],
    "eos": [
        ("Ethernet1/1", "mtu 9214", "mtu 1500", "mtu_bytes", 1500),
        ("Ethernet1/1", "1500 kbytes", "1550 kbytes", "ecn_tc3", "150-1550 KB"),
        ("Ethernet1/1", "qos trust dscp", "qos trust cos", "trust", "pcp"),
        ("Ethernet1/1", "priority strict", "no priority", "scheduling_tc6", "wrr 0"),
        ("Ethernet1/1", "priority-flow-control on", "!", "pfc_3", "off"),
        ("Ethernet1/1", "vlan 111,4094", "vlan 112,4094", "vlans", "trunk, untagged 4094, tagged 112"),
        ("include", "dscp 26 to traffic-class 3", "dscp 26 to traffic-class 5", "dscp_26", 5),
    ],
}
"""Each a sample with one thing altered. That must change exactly one field: which, and how it is found."""

UNCONFIGURED = {
    "onyx": {
        "vlans": "access, untagged 1",
        "mtu_bytes": 1500,
        "trust": "pcp",
        "dscp_26": 3,
        "dscp_48": 6,
        "ecn_tc3": "off",
        "pfc_3": "off",
        "scheduling_tc6": "wrr 12",
    },
    "nvue": {
        "vlans": "access, untagged 10",
        "mtu_bytes": 9216,
        "trust": "pcp",
        "dscp_26": 3,
        "dscp_48": 6,
        "ecn_tc3": "off",
        "pfc_3": "off",
        "pfc_watchdog": "off",
        "scheduling_tc6": "wrr 0",
    },
    "sonic": {
        "vlans": "routed, untagged none",
        "mtu_bytes": 9100,
        "trust": "dscp",
        "dscp_26": 1,
        "dscp_48": 6,
        "ecn_tc3": "1048-2097 KB",
        "pfc_3": "on",
        "pfc_watchdog": "off",
        "scheduling_tc6": "wrr 0",
    },
    "eos": {
        "vlans": "access, untagged 10",
        "mtu_bytes": 1500,
        "trust": "pcp",
        "dscp_26": 3,
        "dscp_48": 6,
        "ecn_tc3": "off",
        "pfc_3": "off",
        "scheduling_tc6": "wrr 0",
    },
}
"""The second port of the sample: no lab has configured it, so most of this is the system's default."""

RESTORED = {
    "nvue": {
        "mapping": (
            ("trust", "dscp_26"),
            "nv set interface swp2 qos mapping profile old",
            "nv unset interface swp2 qos mapping",
        ),
        "congestion-control": (
            ("ecn_tc3",),
            "nv set interface swp2 qos congestion-control profile old",
            "nv unset interface swp2 qos congestion-control",
        ),
        "pfc": (("pfc_3",), "nv set interface swp2 qos pfc profile old", "nv unset interface swp2 qos pfc"),
        "egress-scheduler": (
            ("scheduling_tc6",),
            "nv set interface swp2 qos egress-scheduler profile old",
            "nv unset interface swp2 qos egress-scheduler",
        ),
    },
    "sonic": {
        "dscp_to_tc_map": (
            ("trust", "dscp_26"),
            "sonic-db-cli CONFIG_DB hmset 'PORT_QOS_MAP|Ethernet4' dscp_to_tc_map old",
            "sonic-db-cli CONFIG_DB hdel 'PORT_QOS_MAP|Ethernet4' dscp_to_tc_map",
        ),
        "wred_profile": (
            ("ecn_tc3",),
            "sonic-db-cli CONFIG_DB hmset 'QUEUE|Ethernet4|3' wred_profile old",
            "sonic-db-cli CONFIG_DB hdel 'QUEUE|Ethernet4|3' wred_profile",
        ),
        "scheduler": (
            ("scheduling_tc6",),
            "sonic-db-cli CONFIG_DB hmset 'QUEUE|Ethernet4|6' scheduler old",
            "sonic-db-cli CONFIG_DB hdel 'QUEUE|Ethernet4|6' scheduler",
        ),
    },
}
"""How an undo gives the second port its profiles back, by their kind: the fields that go by the profile, what is sent
for each if the port had the profile `old`, and what if it had none."""

REVISIONS = "nv config revision -o json"
ORDER = {
    "onyx": [
        "show running-config",
        "configure terminal",
        "interface ethernet 1/1 mtu 9216 force",
        "exit",
        "configuration write",
    ],
    "nvue": [
        REVISIONS,
        "nv config show -o commands",
        "nv config detach",
        "nv set interface swp1 link mtu 9216",
        "nv config apply --confirm 300s -m rocelab:lab -y",
        "nv config apply --confirm-yes",
        "nv config save",
    ],
    "sonic": ["sudo config interface mtu Ethernet0 9216", "sudo config save -y"],
    "eos": [
        "show configuration sessions",
        "show running-config",
        "configure session rocelab-lab",
        "interface Ethernet1/1",
        "mtu 9214",
        "exit",
        "commit timer 00:05:00",
        "configure session rocelab-lab commit",
        "write memory",
    ],
}
"""What is sent to raise the MTU of the first port, and what is looked at on the way."""

BACK = {
    "onyx": ["configure terminal", "interface ethernet 1/1 mtu 1500 force", "exit"],
    "nvue": ["nv config apply --confirm-no"],
    "sonic": ["sudo config interface mtu Ethernet0 9100"],
    "eos": ["configure session rocelab-lab abort"],
}
"""What is sent last when the switch says yes and does nothing."""

MTU = {
    "onyx": ("interface ethernet 1/1 mtu 9216 force", "interface ethernet 1/1 mtu 1500 force"),
    "nvue": ("nv set interface swp1 link mtu 9216", "nv set interface swp1 link mtu 1500"),
    "sonic": ("sudo config interface mtu Ethernet0 9216", "sudo config interface mtu Ethernet0 9100"),
    "eos": ("mtu 9214", "mtu 1500"),
}
"""The command that gives the first port its MTU, and the one that gives it back the MTU that it has in WRONG."""

CANCEL: dict[str, list[str]] = {"onyx": ["exit"], "nvue": ["nv config detach"], "sonic": [], "eos": ["abort"]}
"""What follows a refused command: it drops what is staged, or leaves the configuration mode."""

REFUSALS = {
    "onyx": [('% Unrecognized command "mtu 9216"', 'Unrecognized command "mtu 9216"')],
    "eos": [
        ("% Invalid input", "Invalid input"),
        ("Ethernet1/1\n % LLDP is not enabled\n", "LLDP is not enabled"),
    ],
}
"""What a command line prints when it refuses a command, and the reason in it."""
