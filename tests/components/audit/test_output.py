"""An audit in all its formats: complete, harmless, and without names where none are wanted."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from components.audit.audit import audit
from components.audit.findings import Audit
from components.audit.formats import as_html, as_markdown, as_text, document_of
from components.audit.registry import checks
from components.audit.rows import report_of
from components.audit.waivers import read_waivers
from components.cli.app import main
from components.finding import COMMENT_LIMIT
from components.inventory.document import dump, save
from components.inventory.look import LookRequest
from components.inventory.model import Attachment, Inventory
from components.inventory.reading import unknown
from tests.components.audit.spoilt import (
    SPOILS,
    both,
    case,
    cluster,
    earlier,
    healthy,
    lab,
    on_pf,
    pf,
    spoilt_in_twelve_ways,
)
from tests.components.inventory.fabricate import changed, fabricate
from tests.conftest import ROOT
from tests.messages import states

SECRET_NAMES = ("gpu0", "ens1", "ens2", "eno1", "10.11.", "198.18.", "leaf", "pod1", "02:00:", "rdma_1", "Ethernet8")
FORMATS = {
    "text": lambda found, names: as_text(report_of(found, names=names)),
    "markdown": lambda found, names: as_markdown(report_of(found, names=names)),
    "html": lambda found, names: as_html(report_of(found, names=names)),
    "json": lambda found, names: json.dumps(document_of(found, report_of(found, names=names))),
}


def everything(tmp_path: Path) -> Audit:
    """An audit with findings, waived ones, expired waivers, hosts not read and checks not made."""
    waivers = tmp_path / "waivers.yaml"
    waivers.write_text(
        "- {check: memlock, nodes: gpu01, reason: gpu01 is rebuilt, expires: 2027-01-01}\n"
        "- {check: iommu, nodes: gpu03, reason: gpu03 has VMs, expires: 2025-01-01}\n"
    )
    inventory = both(
        on_pf("gpu04", 1, lambda one: replace(one, fec=unknown("ens1np0: Operation not supported"))),
        lambda given: changed(given, "gpu05", lambda one: replace(one, unread="198.18.0.5:22 Connection refused")),
    )(spoilt_in_twelve_ways())
    return audit(inventory, lab(), earlier(inventory), read_waivers(waivers, checks(), date(2026, 11, 1)))


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_says_all_of_it(form: str, tmp_path: Path) -> None:
    found = everything(tmp_path)
    text = FORMATS[form](found, True)

    for one in found.findings:
        assert one.code in text
        assert json.dumps(checks()[one.code].remedy)[1:20] in text or form != "json"
    assert "gpu01 is rebuilt" in text
    assert states(text.replace("&#8203;", ""), "iommu", "gpu03", "2025-01-01")
    assert "Connection refused" in text
    assert "link-fec" in text


@pytest.mark.parametrize("form", FORMATS)
def test_without_names_no_format_names_anything(form: str, tmp_path: Path) -> None:
    text = FORMATS[form](everything(tmp_path), False)

    assert [name for name in SECRET_NAMES if name in text] == []
    assert "mtu-pf" in text


def test_without_names_no_finding_of_any_check_names_anything() -> None:
    for code in SPOILS:
        given = case(code)
        text = FORMATS["json"](audit(given.inventory, given.lab, given.earlier), False)
        assert [name for name in SECRET_NAMES if name in text] == [], code


@pytest.mark.parametrize("form", FORMATS)
def test_what_looks_like_a_secret_is_blanked(form: str) -> None:
    told = unknown("curl failed: Authorization: Bearer abcdefgh12345678")
    found = audit(on_pf("gpu01", 1, lambda one: replace(one, fec=told))(healthy()))

    assert "abcdefgh12345678" not in FORMATS[form](found, True)


def hostile() -> Inventory:
    name = "<script>alert(1)</script>|`@admin`\u202e\x1b[2J"
    inventory = pf("gpu01", 1, interfaces=(name,))(healthy())
    attachment = Attachment(namespace="default", name=name, resource_name=name)
    return cluster(attachments=(attachment,))(inventory)


def test_what_a_host_calls_itself_cannot_act() -> None:
    found = audit(hostile())

    markdown, page, text = (FORMATS[form](found, True) for form in ("markdown", "html", "text"))
    assert "<script" not in markdown + page
    assert "@admin" not in markdown
    assert "\x1b" not in text + markdown + page
    assert "\u202e" not in text + markdown + page
    assert all(line.count(" | ") == 4 for line in markdown.splitlines() if "rdma-name" in line and line[0] == "|")


def test_the_page_fetches_nothing_and_links_every_reason() -> None:
    page = FORMATS["html"](audit(spoilt_in_twelve_ways()), True)

    assert "Content-Security-Policy" in page
    assert "<script" not in page
    assert checks()["mtu-pf"].source in page


def test_a_comment_is_cut_from_its_mildest_end_and_keeps_its_headline() -> None:
    report = report_of(audit(spoilt_in_twelve_ways()))

    text = as_markdown(report, 1_000)

    assert len(text) <= 1_000
    assert report.headline in text
    assert "Left out" in text
    assert report.rows[0].code in text
    assert len(as_markdown(report)) <= COMMENT_LIMIT


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for render in FORMATS.values():
        assert render(everything(tmp_path), True) == render(everything(tmp_path), True)


def ended(*words: object) -> int:
    return main(["audit", *map(str, words)])


@pytest.fixture(scope="module")
def inventories() -> dict[str, bytes]:
    """Files with inventories by name."""
    unread = changed(healthy(), "gpu02", lambda one: replace(one, unread="Connection refused"))
    found = {
        "good": healthy(),
        "bad": SPOILS["mtu-pf"](healthy()),
        "mild": SPOILS["cnp"](healthy()),
        "unread": unread,
        "both": SPOILS["link-down"](changed(healthy(), "gpu03", lambda one: replace(one, unread="no route"))),
    }
    return {f"{name}.json": dump(inventory) for name, inventory in found.items()}


@pytest.fixture
def saved(inventories: dict[str, bytes], tmp_path: Path) -> Path:
    """A folder with inventories: `good.json`, `bad.json` with a finding of severity high, `unread.json`."""
    for name, content in inventories.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("good", [], 0),
        ("bad", [], 1),
        ("bad", ["--fail-on", "critical"], 0),
        ("mild", [], 0),
        ("mild", ["--fail-on", "medium"], 1),
        ("unread", [], 4),
        ("both", [], 1),
        ("missing", [], 2),
    ],
)
def test_the_exit_code_says_how_bad_it_is(
    name: str, options: list[str], code: int, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("--from", saved / f"{name}.json", *options) == code
    assert bool(capsys.readouterr().out) == (code != 2)


def test_a_file_that_is_no_inventory_is_bad_input(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (saved / "x.json").write_text("{}")

    assert ended("--from", saved / "x.json") == 2
    assert "rocelab look" in capsys.readouterr().err


def test_json_and_a_page_are_written_together(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("--from", saved / "bad.json", "--json", "--html", saved / "a.html") == 1

    document = json.loads(capsys.readouterr().out)
    assert (document["worst"], document["counts"]) == ("high", {"high": 1})
    [finding] = document["findings"]
    assert (finding["code"], finding["where"], finding["found"]) == ("mtu-pf", "gpu02 ens1np0", "1500")
    assert finding["evidence"] == {"source": "mtu_bytes", "at": "2026-11-01T12:00:00Z"}
    assert "mtu-pf" in (saved / "a.html").read_text()


def test_a_stack_file_is_compared_with(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The simulator's lab has the same names of hosts, and other NICs."""
    assert ended("--from", saved / "good.json", "--config-file", ROOT / "Pulumi.lab.yaml") == 1
    assert "rdma-name" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--stack", "nowhere"],
        ["--from", "good.json", "--hosts", "gpu01"],
        ["--from", "good.json", "--json", "--markdown"],
        ["--from", "good.json", "--fail-on", "any"],
        ["--from", "good.json", "--waivers", "no.yaml"],
    ],
)
def test_options_that_do_not_fit_together_are_bad_usage(
    words: list[str], saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved)

    assert ended(*words) == 2


def test_without_a_file_it_looks_first_and_keeps_stdout_for_the_audit(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def look(request: LookRequest, _say: object) -> Inventory:
        asked.append(request)
        return SPOILS["mtu-pf"](healthy())

    monkeypatch.chdir(saved)
    monkeypatch.setattr("components.cli.look.look", look)
    (saved / "known_hosts").write_text("")

    login = ("--hosts", "gpu[01-05]", "--user", "ops", "--known-hosts", "known_hosts")

    code = ended(*login, "--json", "--out", "new.json")

    assert code == 1
    assert [target.name for target in asked[0].hosts] == [f"gpu{n:02}" for n in range(1, 6)]
    assert json.loads(capsys.readouterr().out)["worst"] == "high"
    assert (saved / "new.json").stat().st_mode & 0o777 == 0o600


LARGE_HOSTS, LARGE_RAILS = 512, 8
MOST_MIB = 500
# Machines differ by a factor of three, so the bound is a multiple of what json takes for the files.
MOST_CPU = 2.0
TRIES = 3
USED = """
import resource
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
JSON = """
import json, sys
for name in sys.argv[1:]:
    json.load(open(name))
"""
AUDIT = """
import sys
from pathlib import Path
from components.audit.audit import audit
from components.audit.rows import report_of
from components.audit.formats import as_text
from components.inventory.document import load
earlier = load(Path(sys.argv[2]))
as_text(report_of(audit(load(Path(sys.argv[1])), None, earlier)))
"""


def cpu_s_and_mib(script: str, *files: Path) -> tuple[float, float]:
    """What a process of its own uses for it."""
    done = subprocess.run(
        [sys.executable, "-c", script + USED, *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    cpu_s, mib = map(float, done.stdout.split())
    return cpu_s, mib


@pytest.mark.whole
def test_512_hosts_take_little_more_cpu_than_json_does_and_at_most_500_mib(tmp_path: Path) -> None:
    inventory = fabricate(LARGE_HOSTS, LARGE_RAILS)
    for host in ("gpu07", "gpu200", "gpu511"):
        inventory = SPOILS["mtu-pf"](pf(host, 3, iommu_group_type="DMA")(inventory))
    save(inventory, tmp_path / "now.json")
    save(earlier(inventory), tmp_path / "before.json")
    del inventory

    files = (tmp_path / "now.json", tmp_path / "before.json")
    plain = [cpu_s_and_mib(JSON, *files) for _ in range(TRIES)]
    audits = [cpu_s_and_mib(AUDIT, *files) for _ in range(TRIES)]

    # other load can only raise the processor time, so the least counts
    least_json_cpu_s = min(cpu_s for cpu_s, _ in plain)
    least_audit_cpu_s = min(cpu_s for cpu_s, _ in audits)
    assert least_audit_cpu_s <= MOST_CPU * least_json_cpu_s
    assert max(mib for _, mib in audits) <= MOST_MIB
