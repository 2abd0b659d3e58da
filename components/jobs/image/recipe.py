"""Dockerfiles of the benchmark images, from the lab file's recipes and `stacks/images.py`."""

import hashlib

from components.jobs.image.pvrdma_inside import VENDOR_FOLDER, VENDOR_LIBRARIES, at_build
from stacks.images import (
    HOROVOD_EXAMPLES,
    MPI_BASE,
    MPI_PACKAGES,
    NCCL_TESTS,
    OPEN_MPI,
    PING,
    SSH,
    SSH_CLIENT,
    SSHD,
    TF_BENCHMARKS,
    BenchmarkRecipe,
    GitSource,
    TrainingRecipe,
)

LABEL = "rocelab.dev/recipe"
BUILD_TOOLS = ("build-essential", "bzip2", "ca-certificates", "git", "perl")
PROGRAMS = ("all_reduce_perf", "ib_write_bw", "ibv_devinfo", "ping")
DISTRIBUTION_VERBS = (
    "ibverbs-providers",
    "ibverbs-utils",
    "libibverbs-dev",
    "perftest",
    "rdma-core",
    "rdmacm-utils",
)
VENDOR_VERBS = ("doca-ofed-userspace",)
VENDOR_KEY = "https://linux.mellanox.com/public/repo/doca/GPG-KEY-Mellanox.pub"
SCRIPTS = "/opt/benchmarks"


def benchmark_dockerfile(recipe: BenchmarkRecipe) -> str:
    """CUDA, NCCL, nccl-tests, Open MPI, perftest and sshd, in one stage.

    The base has the compiler anyway.
    """
    vendor = recipe.verbs == "vendor"
    packages = [
        f"libnccl2={recipe.nccl}",
        f"libnccl-dev={recipe.nccl}",
        *sorted((*BUILD_TOOLS, *PING, *SSH, *(VENDOR_VERBS if vendor else DISTRIBUTION_VERBS))),
    ]
    return _with_label(
        [
            *_head(recipe.base),
            *(_vendor_repository(recipe.vendor_repository) if vendor else []),
            _install(packages),
            *_open_mpi(),
            _nccl_tests(recipe.gpu_architectures),
            _ssh(),
            _check(
                "mpirun --version > /dev/null",
                *(f"command -v {name} > /dev/null" for name in PROGRAMS),
                *(() if vendor else at_build()),
            ),
        ]
    )


def mpi_dockerfile() -> str:
    """Open MPI over UCX, and sshd, from Debian; the all-reduce itself comes with its job."""
    return _with_label(
        [
            *_head(MPI_BASE),
            _install(sorted(MPI_PACKAGES)),
            _ssh(),
            _check(
                "mpirun --version > /dev/null",
                "ompi_info --parsable | grep pml:ucx > /dev/null",
                "python3 -c 'import mpi4py'",
            ),
        ]
    )


def training_dockerfile(recipe: TrainingRecipe) -> str:
    """TensorFlow and Horovod of NVIDIA's image, the two benchmarks at their commits, and sshd."""
    distribution = recipe.verbs == "distribution"
    horovod = f"{SCRIPTS}/tensorflow2_synthetic_benchmark.py"
    return _with_label(
        [
            *_head(recipe.base),
            *([_without_vendor_verbs()] if distribution else []),
            _install(
                sorted(
                    (*SSH, "ca-certificates", "git", *(DISTRIBUTION_VERBS if distribution else ()))
                )
            ),
            run_line(
                *_fetched(HOROVOD_EXAMPLES, "/build/horovod"),
                f"install -D -m 0644 -t {SCRIPTS} "
                "examples/tensorflow2/tensorflow2_synthetic_benchmark.py",
                "rm -rf /build",
            ),
            run_line(
                *_fetched(TF_BENCHMARKS, "/build/benchmarks"),
                f"cp -r scripts/tf_cnn_benchmarks {SCRIPTS}/",
                "rm -rf /build",
            ),
            _ssh(),
            _check(
                "mpirun --version > /dev/null",
                f"test -f {horovod}",
                f"test -f {SCRIPTS}/tf_cnn_benchmarks/tf_cnn_benchmarks.py",
                *(at_build() if distribution else ()),
            ),
        ]
    )


def recipe_digest(dockerfile: str) -> str:
    """Twelve digits that identify a recipe."""
    return hashlib.sha256(dockerfile.encode()).hexdigest()[:12]


def _with_label(parts: list[str]) -> str:
    text = "\n".join(parts) + "\n"
    return f"{text}LABEL {LABEL}={recipe_digest(text)}\n"


def _head(base: str) -> list[str]:
    return [
        "# Rendered from the lab file: change its images section, not this.",
        f"FROM {base}",
        # podman and buildah accept it only in the docker format, which the build command sets
        'SHELL ["/bin/bash", "-euo", "pipefail", "-c"]',
        "ENV DEBIAN_FRONTEND=noninteractive",
    ]


def run_line(*commands: str) -> str:
    return "RUN " + " \\\n && ".join(commands)


def _install(packages: list[str]) -> str:
    listed = " \\\n      ".join(packages)
    options = "--yes --no-install-recommends --allow-change-held-packages --allow-downgrades"
    return run_line(
        "apt-get update",
        f"apt-get install {options} \\\n      {listed}",
        "rm -rf /var/lib/apt/lists/*",
    )


def _vendor_repository(repository: str) -> list[str]:
    """DOCA-OFED's user space comes first, so that nothing links to the distribution's."""
    keyring = "/etc/apt/keyrings/doca.asc"
    return [
        f"ADD {VENDOR_KEY} {keyring}",
        # ADD makes files readable for root only, but apt verifies as another user
        run_line(
            f"chmod 0644 {keyring}",
            f"echo 'deb [signed-by={keyring}] {repository} ./' > /etc/apt/sources.list.d/doca.list",
        ),
    ]


def _without_vendor_verbs() -> str:
    """Removes the vendor's libraries by name, in any version; Ubuntu's then replace them."""
    names = " ".join(f"'{name}'" for name in VENDOR_LIBRARIES)
    sources = " ".join(
        f"/etc/apt/sources.list.d/*{vendor}*" for vendor in ("mlnx", "mellanox", "doca")
    )
    return run_line(
        "apt-get update",
        f"apt-get purge --yes --allow-change-held-packages {names}",
        f"rm -f {sources}",
        f"rm -rf {VENDOR_FOLDER} /var/lib/apt/lists/*",
    )


def _open_mpi() -> list[str]:
    """Only starts ranks.

    NCCL moves the data, so MPI gets neither UCX nor verbs and cannot use a rail.
    """
    return [
        f"ADD {OPEN_MPI.url} /build/openmpi.tar.bz2",
        run_line(
            f"echo '{OPEN_MPI.sha256}  /build/openmpi.tar.bz2' | sha256sum --check --quiet",
            "mkdir -p /build/openmpi",
            "tar -xjf /build/openmpi.tar.bz2 --strip-components=1 -C /build/openmpi",
            "cd /build/openmpi",
            "./configure --prefix=/usr/local --without-ucx --without-verbs --disable-oshmem "
            "--enable-mpirun-prefix-by-default > /build/configure.log",
            'make -j"$(nproc)" install > /build/make.log',
            "ldconfig",
            "rm -rf /build",
        ),
    ]


def _nccl_tests(architectures: tuple[int, ...]) -> str:
    # PTX of the newest architecture lets later GPUs run it
    code = []
    for number in architectures:
        code.append(f"-gencode=arch=compute_{number},code=sm_{number}")
    code.append(f"-gencode=arch=compute_{max(architectures)},code=compute_{max(architectures)}")
    return run_line(
        *_fetched(NCCL_TESTS, "/build/nccl-tests"),
        f"make -j\"$(nproc)\" MPI=1 MPI_HOME=/usr/local NVCC_GENCODE='{' '.join(code)}' > "
        "/build/make.log",
        "install -t /usr/local/bin build/*_perf",
        "rm -rf /build",
    )


def _fetched(source: GitSource, folder: str) -> list[str]:
    """One commit of a repository, and nothing else of it."""
    return [
        f"git init --quiet {folder}",
        f"cd {folder}",
        f"git fetch --quiet --depth 1 {source.url} {source.commit}",
        "git checkout --quiet FETCH_HEAD",
        f'test "$(git rev-parse HEAD)" = {source.commit}',
    ]


def _ssh() -> str:
    server = " ".join(f"'{line}'" for line in SSHD)
    client = " ".join(f"'{line}'" for line in SSH_CLIENT)
    environment = (
        'PATH="$PATH" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" OPAL_PREFIX="${OPAL_PREFIX:-}"'
    )
    return run_line(
        "mkdir -p /build /run/sshd",
        f"printf '%s\\n' {server} > /etc/ssh/sshd_config.d/mpi.conf",
        f'for set in {environment}; do [ -z "${{set#*=}}" ] || printf \' %s\' "$set"; done > '
        "/build/set",
        'echo "SetEnv$(cat /build/set)" >> /etc/ssh/sshd_config.d/mpi.conf',
        f"printf '%s\\n' {client} > /etc/ssh/ssh_config.d/mpi.conf",
        "rm -rf /build",
    )


def _check(*commands: str) -> str:
    """Makes the build fail, not a job."""
    return run_line("/usr/sbin/sshd -t", *commands)
