"""Answers of esxcli as the vCenter passes them on; the calls themselves are proven against the simulated one."""

import pytest

from components.fabric.vcenter.esxcli import number_of, rows_of, text_of
from stacks.base import LabError

HEAD = (
    '<obj xmlns="urn:vim25" xmlns:xsd="http://www.w3.org/2001/XMLSchema" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
)


def test_each_object_of_a_list_is_a_row():
    answer = f'{HEAD}xsi:type="ArrayOfDataObject"><DataObject xsi:type="Stats"><Device>vmrdma0</Device></DataObject>'
    answer += '<DataObject xsi:type="Stats"><Device>vmrdma1</Device></DataObject></obj>'

    assert rows_of(answer) == [{"Device": "vmrdma0"}, {"Device": "vmrdma1"}]


def test_a_single_object_is_a_row_and_lists_within_it_are_left_out():
    answer = f'{HEAD}xsi:type="Stats"><BytesSent> 5 </BytesSent><Pages><string>a</string></Pages></obj>'

    assert rows_of(answer) == [{"BytesSent": "5"}]


def test_the_fields_of_an_object_within_one_bear_its_name():
    answer = (
        f'{HEAD}xsi:type="Nic"><DriverInfo xsi:type="DriverInfo"><Driver>nmlx5_core</Driver><Version>4.23</Version>'
    )
    answer += "</DriverInfo><Rows><DataObject><Name>a</Name></DataObject></Rows><Name>vmnic4</Name></obj>"

    assert rows_of(answer) == [
        {"DriverInfo.Driver": "nmlx5_core", "DriverInfo.Version": "4.23", "Name": "vmnic4"},
    ]


@pytest.mark.parametrize("name", ["BytesSent", "Bytes sent", "bytes_sent"])
def test_a_number_is_found_however_the_host_spells_its_name(name):
    assert number_of({"PacketsSent": "1", name: "12345678901234"}, "Bytes sent") == 12_345_678_901_234


@pytest.mark.parametrize("name", ["PairedUplink", "Paired Uplink", "pairedUplink"])
def test_a_text_is_found_however_the_host_spells_its_name_and_empty_without_one(name):
    assert text_of({"Uplink": "x", name: "vmnic4"}, "Paired Uplink") == "vmnic4"
    assert text_of({"Uplink": "x"}, "Paired Uplink") == ""


@pytest.mark.parametrize(
    "row", [{}, {"BytesSent": ""}, {"BytesSent": "n/a"}, {"BytesSent": "-1"}, {"PacketsSent": "1"}]
)
def test_a_missing_number_is_none_and_never_zero(row):
    assert number_of(row, "Bytes sent") is None


@pytest.mark.parametrize(
    "answer",
    ["", "not found", f"{HEAD}><BytesSent>5", '<!DOCTYPE a [<!ENTITY b "c">]><obj>&b;</obj>', "<obj>" * 300_000],
)
def test_what_is_no_answer_is_refused(answer):
    with pytest.raises(LabError, match="esxcli"):
        rows_of(answer)
