"""Copies the pinned device plugin to ./upstream, lets it build against today's kubelet, and read today's configuration.

The newest that is a Go module is of November 2022, before v3.6.0. Lists of selectors came with v3.6.0; a list of one
means what that one alone meant before, and a longer one is refused, since this plugin would need to offer more than it
can.
"""

from engine.upstream import copy, edit

SERVER = "type resourceServer struct {\n"
EMBEDDED = """\tregisterapi.UnimplementedRegistrationServer
\tpluginapi.UnimplementedDevicePluginServer
"""
"""What the generated interfaces of gRPC ask for since 2023."""

FILTER = "func (rf *resourceFactory) GetDeviceFilter(rc *types.ResourceConfig) (interface{}, error) {\n"
UNWRAP = """\tif list := []json.RawMessage{}; json.Unmarshal(*rc.Selectors, &list) == nil {
\t\tif len(list) != 1 {
\t\t\treturn nil, fmt.Errorf("%d selectors, and this version takes one", len(list))
\t\t}
\t\t*rc.Selectors = list[0]
\t}
"""


def main() -> None:
    """Leaves ./upstream, and a go.mod that builds against it."""
    plugin = copy("github.com/k8snetworkplumbingwg/sriov-network-device-plugin")
    (plugin / "pkg/resources/testing.go").unlink()  # helpers of its tests
    server = plugin / "pkg/resources/server.go"
    edit(server, [(SERVER, SERVER + EMBEDDED)])
    server.write_text(server.read_text().replace("container.DevicesIDs", "container.DevicesIds"))
    edit(plugin / "pkg/factory/factory.go", [(FILTER, FILTER + UNWRAP)])


if __name__ == "__main__":
    main()
