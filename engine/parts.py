"""The table of parts: versions, where each part comes from, and how it is built.

The versions of the plugins are those of the SDKs in requirements.in (a test compares them). To raise one, see
README.md in this folder.
"""

from dataclasses import dataclass

PULUMI = "3.259.0"
KUBERNETES = "4.25.0"
VSPHERE = "4.18.2"
COMMAND = "1.2.1"
KUBERNETES_RELEASE = "1.36.3"
ETCD = "3.6.8"
KWOK = "0.8.0"
CONTAINERD = "2.3.7"

MULTUS = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"
PLUMBING = "github.com/k8snetworkplumbingwg"
CONTAINERD_MODULE = "github.com/containerd/containerd/v2"
SDK_MODULE = "github.com/pulumi/pulumi/sdk/v3"
VERSION_OF_PULUMI = f"{SDK_MODULE}/go/common/version.Version"
VERSION_OF_KUBERNETES = "github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version"

NOT_INLINED = (
    # generated: objects, clients and messages
    "k8s.io/api",
    "k8s.io/apiextensions-apiserver/pkg/apis",
    "k8s.io/apiextensions-apiserver/pkg/client",
    "k8s.io/client-go/applyconfigurations",
    "k8s.io/client-go/informers",
    "k8s.io/client-go/kubernetes",
    "k8s.io/client-go/listers",
    "k8s.io/metrics/pkg",
    "github.com/container-storage-interface/spec",
    "github.com/google/gnostic-models",
    "github.com/pulumi/pulumi/sdk/v3/go/pulumi",
    "github.com/pulumi/pulumi/sdk/v3/proto",
    "go.etcd.io/etcd/api",
    "go.opentelemetry.io/collector/pdata",
    "go.opentelemetry.io/otel/semconv",
    "go.opentelemetry.io/proto",
    "google.golang.org/genproto",
    # run once per command or per object: what is in no loop over bytes
    "github.com/ProtonMail/go-crypto",
    "github.com/alecthomas/chroma",
    "github.com/aws",
    "github.com/charmbracelet",
    "github.com/cloudflare/circl",
    "github.com/go-git",
    "github.com/google/go-tpm",
    "github.com/hashicorp/hcl",
    "github.com/pb33f",
    "github.com/pgavlin/goldmark",
    "github.com/pulumi/pulumi/pkg/v3/cmd",
    "github.com/pulumi/pulumi/pkg/v3/codegen",
    "helm.sh/helm",
    "k8s.io/kubectl",
    "k8s.io/kubernetes",
    "sigs.k8s.io/kustomize",
)
"""Packages that compile in two thirds of the time without inlining, and are still fast enough."""

COMPILER_FLAGS = ("all=-dwarf=false", *(f"{path}/...=-dwarf=false -l" for path in NOT_INLINED))
"""Without debugging information, which the linker drops anyway: a quarter of the compiler's work. All parts have the
same flags, so that Go compiles their common packages once."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """How a part is built from the Go module in its folder."""

    module: str = "go"
    """The folder of the Go module. The part's own sources are in its subfolder with the part's name."""

    package: str = "."
    """One Go package, or several separated by spaces; then each binary is named after its package's folder."""

    version_variable: str = ""
    """Set by the linker to `version`; empty where the program knows its version."""

    version: str = ""
    prepare: str = ""
    """A Python file of the folder, run in a scratch copy of it before the build."""

    flags: tuple[str, ...] = ()
    module_files: tuple[str, ...] = ()
    """Files of the Pulumi SDK's module, placed beside the binary."""

    is_standin: bool = False
    """Whether this build replaces an official plugin that cannot be built: for simulator stacks only."""

    seconds: int
    """Measured on two cores with empty caches. The longest build starts first."""

    disk_mb: int
    """Disk space for sources and compiled packages, with empty caches."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """An official download: a .tar.gz or a program."""

    url: str
    checksums: str = ""
    """URL of the published file with its sha256."""

    sha256: str = ""
    """Pinned here if none is published."""

    programs: tuple[str, ...] = ()
    """Programs to take from it; empty: the part's binaries."""

    @property
    def filename(self) -> str:
        """Name of the download in the checksums file."""
        return self.url.rpartition("/")[2]


SIMULATOR = frozenset({"virtual"})
CLUSTER = frozenset({"cluster"})
FABRIC = frozenset({"fabric"})
REAL_PODS = frozenset({"virtual", "simulator"})
"""Simulated labs whose section `simulator` has real kubelets."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One thing that must be in place."""

    name: str
    version: str
    binaries: tuple[str, ...]
    """Files in `.engine/bin`, or in `.engine/standins`; the first one is the program itself."""

    releases: tuple[Release, ...] = ()
    adapter: str = ""
    """A script in the module's folder that gives official programs the commands of the built one."""

    build: Build
    wanted_by: str
    """What does not work without it; shown by `engine/doctor` and in errors."""

    only_for: frozenset[str] = frozenset()
    """A lab needs the part if it has all of these kinds and sections; empty: every lab needs it."""

    @property
    def is_of_the_simulator(self) -> bool:
        """Whether only the simulator runs it. Your own installations of such parts are not used."""
        return self.only_for >= SIMULATOR

    @property
    def is_plugin(self) -> bool:
        """Whether Pulumi's engine starts it for a resource."""
        return self.binaries[0].startswith("pulumi-resource-")


def _plugin_release(name: str, version: str) -> tuple[Release, ...]:
    repository = f"https://github.com/pulumi/pulumi-{name}/releases/download/v{version}"
    archive = f"{repository}/pulumi-resource-{name}-v{version}-linux-amd64.tar.gz"
    return (Release(url=archive, checksums=f"{repository}/pulumi-{name}_{version}_checksums.txt"),)


def _kubernetes_releases(*programs: str) -> tuple[Release, ...]:
    folder = f"https://dl.k8s.io/v{KUBERNETES_RELEASE}/bin/linux/amd64"
    return tuple(
        Release(url=f"{folder}/{name}", checksums=f"{folder}/{name}.sha256", programs=(name,)) for name in programs
    )


LANGUAGE_HOST = "pulumi-language-python"

PARTS = (
    Part(
        name="pulumi",
        version=PULUMI,
        binaries=("pulumi", LANGUAGE_HOST, "pulumi-language-python-exec"),
        releases=(
            Release(
                url=f"https://get.pulumi.com/releases/sdk/pulumi-v{PULUMI}-linux-x64.tar.gz",
                checksums=f"https://get.pulumi.com/releases/sdk/pulumi-{PULUMI}-checksums.txt",
            ),
        ),
        build=Build(
            package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
            version_variable=VERSION_OF_PULUMI,
            version=f"v{PULUMI}",
            prepare="pulumi/trim.py",
            module_files=("python/cmd/pulumi-language-python-exec",),
            seconds=85,
            disk_mb=1800,
        ),
        wanted_by="every command",
    ),
    Part(
        name="kubernetes",
        version=KUBERNETES,
        binaries=("pulumi-resource-kubernetes",),
        releases=_plugin_release("kubernetes", KUBERNETES),
        build=Build(
            version_variable=VERSION_OF_KUBERNETES,
            version=KUBERNETES,
            package="./kubernetes",
            prepare="kubernetes/trim.py",
            seconds=165,
            disk_mb=2600,
        ),
        wanted_by="up, preview of a lab with a cluster",
        only_for=CLUSTER,
    ),
    Part(
        name="vsphere",
        version=VSPHERE,
        binaries=("pulumi-resource-vsphere",),
        releases=_plugin_release("vsphere", VSPHERE),
        build=Build(
            module="vsphere",
            version_variable="main.version",
            version=VSPHERE,
            prepare="complete.py",
            # A test dependency of the bridge cannot be had, so the module cannot be tidy.
            flags=("-mod=mod",),
            is_standin=True,
            seconds=100,
            disk_mb=1200,
        ),
        wanted_by="up, preview of a lab with a fabric",
        only_for=FABRIC,
    ),
    Part(
        name="command",
        version=COMMAND,
        binaries=("pulumi-resource-command",),
        releases=_plugin_release("command", COMMAND),
        build=Build(
            package="./command",
            prepare="command/adapt.py",
            version_variable="main.version",
            version=COMMAND,
            is_standin=True,
            seconds=18,
            disk_mb=400,
        ),
        wanted_by="up, preview",
    ),
    Part(
        name="plane",
        version=KUBERNETES_RELEASE,
        binaries=("plane",),
        releases=(
            *_kubernetes_releases("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
            Release(
                url=f"https://github.com/etcd-io/etcd/releases/download/v{ETCD}/etcd-v{ETCD}-linux-amd64.tar.gz",
                checksums=f"https://github.com/etcd-io/etcd/releases/download/v{ETCD}/SHA256SUMS",
                programs=("etcd",),
            ),
        ),
        adapter="plane/plane.sh",
        build=Build(package="./plane", prepare="plane/trim.py", seconds=180, disk_mb=2400),
        wanted_by="make up (the simulator's control plane)",
        only_for=SIMULATOR,
    ),
    Part(
        name="kwok",
        version=KWOK,
        binaries=("kwok",),
        releases=(
            Release(
                url=f"https://github.com/kubernetes-sigs/kwok/releases/download/v{KWOK}/kwok-linux-amd64",
                # kwok publishes no checksums; this one is from Arch's package kwok-bin 0.8.0
                sha256="f5a4385a2ae1b9dd7f8acae18e002a75c0ebba124ae9d7259aa8dadb50711f46",
                programs=("kwok",),
            ),
        ),
        build=Build(package="sigs.k8s.io/kwok/cmd/kwok", seconds=45, disk_mb=700),
        wanted_by="make up (the simulator's control plane)",
        only_for=SIMULATOR,
    ),
    Part(
        name="mpi-operator",
        version="0.8.0",
        binaries=("mpi-operator",),
        build=Build(
            package="github.com/kubeflow/mpi-operator/cmd/mpi-operator",
            prepare="mpi-operator/bind_health.py",
            seconds=90,
            disk_mb=700,
        ),
        wanted_by="make up (the simulator's control plane)",
        only_for=SIMULATOR,
    ),
    Part(
        name="vcenter",
        version="0.56.0",
        binaries=("vcenter",),
        build=Build(module="vcenter", seconds=30, disk_mb=400),
        wanted_by="make up of a lab with a fabric (its simulated vCenter)",
        only_for=SIMULATOR | FABRIC,
    ),
    Part(
        name="kubelet",
        version=KUBERNETES_RELEASE,
        binaries=("kubelet",),
        build=Build(
            package="k8s.io/kubernetes/cmd/kubelet",
            version_variable="k8s.io/component-base/version.gitVersion",
            version=f"v{KUBERNETES_RELEASE}",
            seconds=100,
            disk_mb=1000,
        ),
        wanted_by="make up of a lab with real pods",
        only_for=REAL_PODS,
    ),
    Part(
        name="containerd",
        version=CONTAINERD,
        binaries=("containerd", "containerd-shim-runc-v2", "ctr"),
        build=Build(
            module="containerd",
            package=" ".join(
                f"{CONTAINERD_MODULE}/cmd/{program}" for program in ("containerd", "containerd-shim-runc-v2", "ctr")
            ),
            version_variable=f"{CONTAINERD_MODULE}/version.Version",
            version=CONTAINERD,
            # leaves out what nothing here uses
            flags=("-tags=no_btrfs,no_devmapper,no_zfs,no_tracing",),
            seconds=105,
            disk_mb=900,
        ),
        wanted_by="make up of a lab with real pods",
        only_for=REAL_PODS,
    ),
    Part(
        name="multus",
        version="4.3.0",
        binaries=("multus-daemon", "multus-shim", "install_multus", "passthru-cni"),
        build=Build(
            module="pods",
            package=" ".join(
                f"{MULTUS}/cmd/{name}" for name in ("multus-daemon", "multus-shim", "install_multus", "passthru-cni")
            ),
            seconds=25,
            disk_mb=300,
        ),
        wanted_by="make up of a lab with real pods",
        only_for=REAL_PODS,
    ),
    *(
        Part(
            name=name,
            version="0.9.4",
            binaries=(name,),
            build=Build(module="pods", package=f"{PLUMBING}/whereabouts/cmd{folder}", seconds=15, disk_mb=100),
            wanted_by="make up of a lab with real pods",
            only_for=REAL_PODS,
        )
        for name, folder in (
            ("whereabouts", ""),
            ("whereabouts-control-loop", "/controlloop"),
            ("whereabouts-reconciler", "/reconciler"),
        )
    ),
    Part(
        name="rdma-cni",
        version="1.6.0",
        binaries=("rdma-cni",),
        build=Build(module="pods", package=f"{PLUMBING}/rdma-cni/cmd/rdma", seconds=5, disk_mb=50),
        wanted_by="make up of a lab with real pods",
        only_for=REAL_PODS,
    ),
    Part(
        name="sriov-cni",
        version="2.10.0",
        binaries=("sriov-cni",),
        build=Build(module="pods", package="./sriov-cni", is_standin=True, seconds=5, disk_mb=50),
        wanted_by="make up of a lab with real pods",
        only_for=REAL_PODS,
    ),
    Part(
        name="sriov-device-plugin",
        version="0.0.0-20221127172732",
        binaries=("sriovdp",),
        build=Build(
            module="pods",
            package=f"{PLUMBING}/sriov-network-device-plugin/cmd/sriovdp",
            prepare="sriov-device-plugin/adapt.py",
            seconds=10,
            disk_mb=100,
        ),
        wanted_by="make up of a lab with real pods",
        only_for=REAL_PODS,
    ),
)

TEST_PARTS = (
    Part(
        name="kubeadm",
        version=KUBERNETES_RELEASE,
        binaries=("kubeadm",),
        build=Build(
            package="k8s.io/kubernetes/cmd/kubeadm",
            version_variable="k8s.io/component-base/version.gitVersion",
            version=f"v{KUBERNETES_RELEASE}",
            seconds=95,
            disk_mb=1000,
        ),
        wanted_by="tests with kubeadm",
        only_for=SIMULATOR,
    ),
)
"""Only tests need these; `engine/setup --dev` places them."""
