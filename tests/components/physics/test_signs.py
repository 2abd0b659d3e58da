"""Signs in logs: each one by lines that public threads quote, and by lines that must not show it."""

import pytest

from components.physics.signs import LOG_SIGNS, reasons_in, signs_in

LINES = {
    "GPU_FAULT": "NVRM: Xid (PCI:0000:8f:00): 31, pid=4023, name=sendrecv_perf",
    "NET_ERROR": "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer with status=12 vendor err 129",
    "VIRTUAL_MACHINE": "Hypervisor vendor: KVM",
    "ACS": "ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-",
    "ECE": "UCX_RC_ECE=auto: ECE is negotiated",
    "BOND": " Dual-port : OFF  Device : mlx5_bond_0",
    "NO_FLOW_CONTROL": "the fabric does not have proper flow control",
    "SHARP": "-x NCCL_COLLNET_ENABLE=1",
    "GPUDIRECT_OFF": "n1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for GPU 0[0] / HCA 0",
}


def codes(text: str) -> list[str]:
    return [sign.code for sign, _ in signs_in(text)]


def test_every_sign_has_a_line_that_shows_it() -> None:
    assert {sign.code for sign in LOG_SIGNS} == set(LINES)
    for code, line in LINES.items():
        assert code in codes(line)


@pytest.mark.parametrize(
    "line",
    [
        "ACSCtl: SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-",
        "NCCL INFO Plugin Path : /hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so",
        "NVLink SHARP accelerates the all-reduce within a node",
        "NCCL_COLLNET_ENABLE=0",
    ],
)
def test_a_harmless_line_shows_nothing(line: str) -> None:
    assert codes(line) == []


def test_a_log_without_a_number_gives_its_own_reason() -> None:
    log = f"# Using devices\n{LINES['NET_ERROR']}\n{LINES['VIRTUAL_MACHINE']}\n"

    (reason,) = reasons_in(log)

    assert "status=12" in reason
