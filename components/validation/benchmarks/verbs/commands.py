"""The commands that run on a host for a test. Values are arguments, never parts of a script."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from components.validation.benchmarks.plan import End
from components.validation.benchmarks.verbs.plan import Stage, VerbsPlan

LISTENING = "@listening"
GREW = "@grew"
TAKEN = 98
"""Exit code: something else listens on the test's port."""
HELD = 75
"""Exit code: another run holds the lease."""
LATE = 124
"""Exit code of `timeout`: the program was still at work."""
LEASE_FILE = "/run/rocelab-bench.lease"
PATIENT = 17
"""Of perftest's --qp-timeout: 4 us x 2^17 are half a second, 2^14 (its own) are 67 ms. An emulated
machine that shares two cores with others answers later than that, and soft-RoCE that sends
everything again breaks the queue pair. Seven tries of it still end within five seconds where
nothing passes."""
NO_CLOCK = "Correlation coefficient r^2"
"""perftest prints it when it could not measure the CPU's clock; all its numbers are then 0 or
wrong."""

BOUNDED = """
limit=$1 port=$2 device=$3 interface=$4
shift 4
PATH=/usr/sbin:/sbin:$PATH
listens() {
  case " $* " in
    *" -R "*) rdma resource show cm_id 2>/dev/null |
      grep -q " state LISTEN .* src-addr [^ ]*:$port *$" ;;
    *) ss -Hltn "sport = :$port" | grep -q . ;;
  esac
}
count() {
  if [ -z "$device" ]; then return; fi
  (
    cd "/sys/class/infiniband/$device/ports/1" 2>/dev/null || exit
    grep -s . counters/symbol_error counters/link_downed counters/port_rcv_errors \\
      counters/port_xmit_discards hw_counters/out_of_sequence hw_counters/packet_seq_err \\
      hw_counters/rnr_nak_retry_err hw_counters/local_ack_timeout_err \\
      hw_counters/np_cnp_sent hw_counters/rp_cnp_handled \\
      hw_counters/np_ecn_marked_roce_packets hw_counters/rx_icrc_encapsulated \\
      hw_counters/roce_adp_retrans hw_counters/out_of_seq_request \\
      hw_counters/rcvd_rnr_err hw_counters/retry_exceeded_err \\
      hw_counters/completer_retry_err hw_counters/duplicate_request |
      sed 's|.*/||; s|:| |'
  )
  ethtool -S "$interface" 2>/dev/null |
    sed -n 's/^ *\\([rt]x_prio[0-7]_pause\\|[rt]x_discards_phy\\|rx_out_of_buffer\\): */\\1 /p'
}
if [ "$port" != 0 ] && listens "$@"; then exit 98; fi
exec 3<&0
before=$(count)
timeout -k 2 "$limit" "$@" </dev/null 3<&- &
run=$!
{ cat <&3; kill -s TERM -- "-$run" || kill "$run"; } >/dev/null 2>&1 &
watch=$!
exec 3<&-
if [ "$port" != 0 ]; then
  until listens "$@"; do
    if ! kill -0 "$run" 2>/dev/null; then port=0 && break; fi
    sleep 0.05
  done
  if [ "$port" != 0 ]; then echo @listening >&2; fi
fi
wait "$run"
code=$?
kill "$watch" 2>/dev/null
if [ -n "$before" ]; then
  { echo "$before"; echo @; count; } |
    awk '$1 == "@" { now = 1; next } !now { was[$1] = $2; next }
         ($1 in was) && $2 > was[$1] { printf "@grew %s %.0f\\n", $1, $2 - was[$1] }' >&2
fi
exit "$code"
"""
"""Runs a program until its time limit, or until the session's input closes because the caller is
gone.

The whole process group is ended: a `timeout` that is killed right after its fork leaves its program
behind. perftest's server waits forever for exactly one connection, so the port is listed and never
probed; with -R it is not a TCP port but one of the RDMA connection manager. Counters of errors and
congestion are compared before and after; those of mlx5 and of soft-RoCE have other names.
"""

LEASE = """
exec 2>&1
if ! flock -n -E 75 "$2" sh -c 'echo "$1" >"$2"; echo held; cat >/dev/null' sh "$1" "$2"; then
  cat "$2"
  exit 75
fi
"""
"""Holds the host's lease until the session's input closes; the kernel drops the lock of a dead
holder."""

REACH = """
running=0
while [ $# -gt 0 ]; do
  {
    found=none
    for wait in 1 5; do
      if ping -q -n -c 2 -i 0.2 -W $wait -M do -s "$3" -I "$1" "$2" >/dev/null 2>&1; then
        found=large
      elif ping -q -n -c 2 -i 0.2 -W $wait -I "$1" "$2" >/dev/null 2>&1; then
        found=small
      fi
      [ $found = none ] || break
    done
    echo "reached $1 $2 $found"
  } &
  shift 3
  running=$((running + 1))
  if [ "$running" -ge 64 ]; then wait && running=0; fi
done
wait
"""
"""Pings all peers of a node at once, first with packets that fill a frame and must not be cut, then
with small ones.

A peer that gives no answer is tried once more with more patience: one that has just booted may need
seconds.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One end of a transfer, with the options of a run besides those of the stage."""

    end: End
    peer: End
    connects: bool
    """Whether it is the client; the server waits for it."""
    path_mtu_bytes: int
    gid_index: int
    port: int
    queue_pairs: int
    message_bytes: int
    pinned: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    """Words that put the buffer into GPU memory; empty: host memory."""


Sides = tuple[Side, Side]
"""Client and server."""


def bounded(command: Sequence[str], limit_s: int, port: int = 0, end: End | None = None) -> str:
    """The remote command that runs a program within a time limit.

    With a port it reports when the program listens.
    """
    counted = [end.device, end.interface] if end else ["", ""]
    return shlex.join(["sh", "-c", BOUNDED, "sh", str(limit_s), str(port), *counted, *command])


def lease(run_id: str, limit_s: int) -> str:
    """The remote command that holds the host's lease.

    As root: the file must serve every user of the lab.
    """
    return shlex.join(
        [
            "sudo",
            "-n",
            "timeout",
            "-k",
            "2",
            str(limit_s),
            "sh",
            "-c",
            LEASE,
            "sh",
            run_id,
            LEASE_FILE,
        ]
    )


def facts_words(tests: Sequence[str], ends: Sequence[End]) -> str:
    """The verb of the host program that reads the ports under test."""
    words = ["bench", " ".join(tests)]
    for end in ends:
        words += [end.device, end.interface]
    return shlex.join(words)


def reach(peers: Sequence[tuple[str, IPv4Address, int]]) -> str:
    """The remote command that pings peers: interface, address, and Ethernet MTU of each."""
    words = []
    for name, address, mtu_bytes in peers:
        words += [name, str(address), str(mtu_bytes - 28)]
    return shlex.join(["sh", "-c", REACH, "sh", *words])


def perftest(stage: Stage, side: Side, verbs: VerbsPlan, *, simulated: bool = False) -> list[str]:
    """One end of a test.

    Without --tclass the queue pair has traffic class 0, whose packets get neither PFC nor ECN: the
    inbox driver has no class of its own for programs that set none.

    Without -R and -m the queue pair takes the port's active MTU and prints it, so the header proves
    the path MTU.
    """
    options = {
        "-d": side.end.device,
        "-x": side.gid_index,
        "-p": side.port,
        "-s": side.message_bytes,
    }
    words = [stage.test, *(str(word) for pair in options.items() for word in pair), "-F"]
    if stage.bandwidth:
        words += ["-q", str(side.queue_pairs), "--report_gbits"]
        words += ["-b"] if stage.shape == "both_ways" else []
    words += ["-u", str(PATIENT)] if simulated else []
    words += side.gpu
    words += ["-R"] if verbs.rdma_cm else []
    # the connection manager makes the address vector, and takes the byte by another option
    option = "--tos" if verbs.rdma_cm else "--tclass"
    words += [f"{option}={verbs.traffic_class}"] if verbs.traffic_class is not None else []
    duration_s = verbs.duration_of(stage)
    words += ["-D", str(duration_s)] if duration_s is not None else ["-n", str(stage.iterations)]
    return [*side.pinned, *words, *([str(side.peer.address)] if side.connects else [])]


def grown(err: str) -> dict[str, int]:
    """The counters that grew at one end of a run."""
    rows = (line.split() for line in err.splitlines() if line.startswith(GREW))
    return {words[1]: int(words[2]) for words in rows if len(words) == 3 and words[2].isdecimal()}
