"""Properties of dynamic resources, as the engine's SDK hands them to a provider."""

from google.protobuf import struct_pb2
from pulumi.runtime import rpc

from components.fabric.props import mapping, string_map


def test_what_is_not_known_yet_is_left_out_of_words_and_numbers_are_whole() -> None:
    sent = struct_pb2.Struct()
    sent.update({"networks": {"rail-a": "dvportgroup-1", "rail-b": rpc.UNKNOWN}, "wanted": {"cpus": 8}})

    props = rpc.deserialize_properties(sent, keep_unknowns=True)

    assert string_map(props, "networks") == {"rail-a": "dvportgroup-1"}
    assert mapping(props["wanted"]) == {"cpus": 8}
