"""Raw outputs on their way from the run's store into the report."""

import gzip
import hashlib
import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from components.validation.store import raw_of, write_bundle


@given(raw=st.dictionaries(st.text(), st.text()))
def test_every_output_of_a_bundle_is_found_whatever_its_name_and_text(raw: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        digest = write_bundle(Path(folder), "run", raw)
        file = Path(folder) / "run.json.gz"
        written = json.loads(gzip.decompress(file.read_bytes()))

        found = raw_of(file, digest)

    assert set(written) == set(raw)
    assert [(one.name, one.size_bytes, one.sha256) for one in found] == [
        (name, len(text.encode()), hashlib.sha256(text.encode()).hexdigest()) for name, text in sorted(written.items())
    ]


@given(data=st.data())
def test_a_bundle_that_is_not_the_one_that_was_written_shows_nothing(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        digest = write_bundle(Path(folder), "run", {"rail-a/0.client": "98.01 Gbit/s", "hosts/gpu01": "$ sh look.sh"})
        file = Path(folder) / "run.json.gz"
        good = file.read_bytes()
        end = data.draw(st.integers(0, len(good) - 1))
        byte = data.draw(st.none() | st.integers(0, 255).filter(lambda value: value != good[end]))
        file.write_bytes(good[:end] if byte is None else good[:end] + bytes([byte]) + good[end + 1 :])

        assert raw_of(file, digest) == ()
