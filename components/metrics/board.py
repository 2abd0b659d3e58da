"""The Grafana board of a lab. Pure."""

from components.cluster.manifests import Manifest, render
from stacks.lab import Lab

WIDTH, HEIGHT, ACROSS = 12, 8, 2


def board_of(lab: Lab) -> Manifest:
    """The board: what is wrong first, then links, traffic, losses, pauses, modules and GPUs."""
    of_lab = f'lab="{lab.name}"'

    def rate(name: str, factor: int = 1) -> str:
        times = f" * {factor}" if factor != 1 else ""
        return f'rate(rocelab_port_events_total{{{of_lab},counter=~"{name}"}}[5m]){times}'

    lossy = "packet_seq_err|local_ack_timeout_err|roce_slow_restart|rcvd_seq_err|rx_discards_phy"
    series = (
        ("Alerts", "short", f'ALERTS{{alertname=~"Rocelab.*",{of_lab}}}', "{{alertname}} {{node}}"),
        ("Verdict", "short", f"rocelab_verdict{{{of_lab}}}", "{{axis}}"),
        ("Links without carrier", "short", f"rocelab_port_up{{{of_lab}}} == 0", PORT),
        (
            "Links that went down, per 5 minutes",
            "short",
            f"increase(rocelab_port_carrier_down_total{{{of_lab}}}[5m]) > 0",
            PORT,
        ),
        ("RDMA sent", "bps", rate("port_xmit_data", 32), PORT),
        ("RDMA received", "bps", rate("port_rcv_data", 32), PORT),
        ("Lost packets", "pps", f"{rate(lossy)} > 0", f"{PORT} {{{{counter}}}}"),
        ("Pauses received", "pps", f"{rate('rx_prio[0-7]_pause')} > 0", f"{PORT} {{{{counter}}}}"),
        ("Congestion notifications", "pps", f"{rate('np_cnp_sent|rp_cnp_handled')} > 0", PORT),
        (
            "Bits that FEC corrected",
            "short",
            f"{rate('rx_corrected_bits_phy|fec_corrected_bits')} > 0",
            PORT,
        ),
        ("Module temperature", "celsius", f"rocelab_module_temperature_celsius{{{of_lab}}}", PORT),
        (
            "Optical power",
            "dBm",
            f"rocelab_module_power_dbm{{{of_lab}}}",
            f"{PORT} {{{{direction}}}} {{{{lane}}}}",
        ),
        ("GPU temperature", "celsius", f"rocelab_gpu_temperature_celsius{{{of_lab}}}", GPU),
        ("GPU states", "short", f"rocelab_gpu_state{{{of_lab}}} == 1", f"{GPU} {{{{state}}}}"),
    )
    panels = []
    for number, (title, unit, expr, legend) in enumerate(series):
        row, column = divmod(number, ACROSS)
        place = {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT}
        panel = {"title": title, "unit": unit, "expr": expr, "legend": legend, "place": place}
        panels.append({"id": number + 1, **panel})
    return render(
        "metrics/dashboard", title=f"rocelab {lab.name}", uid=f"rocelab-{lab.name}", panels=panels
    )


PORT, GPU = "{{node}} {{rail}}", "{{node}} {{gpu}}"
"""Legends of Grafana, which fills in the labels."""
