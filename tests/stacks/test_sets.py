"""Sets of names. The names of random sets were compared with ClusterShell 1.10.1's once; those below are among them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stacks.sets import MOST_NAMES, folded, names_of
from tests.messages import states


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu01", ["gpu01"]),
        ("gpu[01-04,10-20/5]", ["gpu01", "gpu02", "gpu03", "gpu04", "gpu10", "gpu15", "gpu20"]),
        ("gpu[8-11]", ["gpu8", "gpu9", "gpu10", "gpu11"]),
        ("gpu[008-010]-ib", ["gpu008-ib", "gpu009-ib", "gpu010-ib"]),
        ("Ethernet[0-12/4]", ["Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"]),
        ("swp[3, 1]", ["swp3", "swp1"]),
        ("1/[1-3]", ["1/1", "1/2", "1/3"]),
    ],
)
def test_a_set_has_the_names_that_cluster_tools_give_it_in_the_order_of_its_text(text: str, names: list[str]) -> None:
    assert list(names_of(text)) == names


RANGES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 8), st.integers(1, 4)), min_size=1, max_size=6)
"""Of each range its distance from the last one, how many numbers it has, and the step between them."""


@given(width=st.sampled_from([1, 3, 4]), ranges=RANGES)
def test_any_numbers_written_as_ranges_come_back(width: int, ranges: list[tuple[int, int, int]]) -> None:
    last, parts, numbers = 0, [], []
    for distance, length, step in ranges:
        first = last + distance
        run = [f"{number:0{width}d}" for number in range(first, first + length * step, step)]
        numbers += run
        parts.append(run[0] if length == 1 else f"{run[0]}-{run[-1]}/{step}")
        last = int(run[-1])

    assert names_of(f"n[{','.join(parts)}]x") == tuple(f"n{number}x" for number in numbers)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu[1-3][1-2]", ["one pair of brackets"]),
        ("gpu[1-3", ["one pair of brackets"]),
        ("gpu[]", ["''", "range"]),
        ("gpu[a-c]", ["'a-c'", "range"]),
        ("gpu[1-3,,5]", ["''", "range"]),
        ("gpu[5-1]", ["5-1", "swap"]),
        ("gpu[1-9/0]", ["1-9/0", "step 0"]),
        ("gpu[1-064]", [1, "064", "length"]),
        ("gpu[01-100]", ["01", 100, "length"]),
        ("gpu[01,2]", ["01", 2, "length"]),
        ("gpu[1-4,3]", ["gpu3", "twice"]),
        ("gpu[1-1000000]", [f"more than {MOST_NAMES} names"]),
        ("gpu[1-9000,10001-19000]", [f"more than {MOST_NAMES} names"]),
    ],
)
def test_what_is_no_set_is_refused_with_the_part_that_is_wrong(text: str, says: list[str | int]) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # what it says is asserted below
        names_of(text)
    assert states(str(refused.value), *says)


@pytest.mark.parametrize(
    ("names", "sets"),
    [
        ([], ()),
        (["gpu01"], ("gpu01",)),
        (["gpu02", "gpu01", "gpu03", "gpu07", "gpu01"], ("gpu[01-03,07]",)),
        (["gpu9", "gpu10", "gpu11"], ("gpu[9-11]",)),
        (["gpu08", "gpu09", "gpu10", "gpu100"], ("gpu100", "gpu[08-10]")),
        (["enp5s0", "enp132s0", "enp6s0"], ("enp[5-6,132]s0",)),
        (["rack1-gpu01", "rack1-gpu02", "rack2-gpu01"], ("rack1-gpu[01-02]", "rack2-gpu01")),
        (["storage", "gpu2", "login"], ("gpu2", "login", "storage")),
        (["odd[1]", "odd[2]"], ("odd[1]", "odd[2]")),
        (["n12345678901", "n12345678902"], ("n12345678901", "n12345678902")),
    ],
)
def test_names_fold_into_as_few_sets_as_hold_them(names: list[str], sets: tuple[str, ...]) -> None:
    assert folded(names) == sets


NAMES = st.builds(
    "{}{:0{}d}{}".format,
    st.sampled_from(["gpu", "rack1-gpu"]),
    st.integers(0, 200),
    st.integers(1, 3),
    st.sampled_from(["", "-ib"]),
)


@given(names=st.sets(NAMES, min_size=1, max_size=40))
def test_folded_names_unfold_to_the_same_names(names: set[str]) -> None:
    found = [name for text in folded(names) for name in names_of(text)]

    assert sorted(found) == sorted(names)
