"""Copies between pinned host memory and each GPU, by the driver's libcuda alone.

It prints one JSON object: for each GPU by PCI address the best rates in 10^9 bytes a second, or why
there are none.
"""

import ctypes
import json
import os
import sys
import time
from typing import Dict, List, Set, Union

COPY_BYTES = 256 << 20
COPIES = 8
PCI_CHARACTERS = 32


class CudaError(Exception):
    """A call of the driver that failed."""


class Cuda:
    """The driver API; every call is checked."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            raise CudaError(f"{name}: {(text.value or b'error').decode()} ({code})")

    def number(self, name: str, *arguments: object) -> int:
        """What a call writes into its first argument."""
        value = ctypes.c_int()
        self.call(name, ctypes.byref(value), *arguments)
        return value.value

    def pointer(self, name: str, *arguments: object) -> ctypes.c_void_p:
        value = ctypes.c_void_p()
        self.call(name, ctypes.byref(value), *arguments)
        return value


def address_of(cuda: Cuda, device: int) -> str:
    """PCI address as the kernel writes it."""
    text = ctypes.create_string_buffer(PCI_CHARACTERS)
    cuda.call("cuDeviceGetPCIBusId", text, PCI_CHARACTERS, device)
    return text.value.decode().lower()


def run_near(address: str) -> None:
    """Stays on the CPUs of the GPU's NUMA node, so that the host's buffer is there too."""
    try:
        with open(f"/sys/bus/pci/devices/{address}/local_cpulist", encoding="ascii") as file:
            parts = file.read().strip().split(",")
        cpus: Set[int] = set()
        for part in parts:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
        os.sched_setaffinity(0, cpus & os.sched_getaffinity(0) or cpus)
    except (OSError, ValueError):
        return


def rates(cuda: Cuda, device: int) -> Dict[str, float]:
    """The best of some copies in each direction."""
    context = cuda.pointer("cuDevicePrimaryCtxRetain", device)
    try:
        cuda.call("cuCtxSetCurrent", context)
        size = ctypes.c_size_t(COPY_BYTES)
        on_gpu = cuda.pointer("cuMemAlloc_v2", size)
        on_host = cuda.pointer("cuMemHostAlloc", size, 0)
        best = {}
        directions = {
            "to_gpu": ("cuMemcpyHtoD_v2", on_gpu, on_host),
            "to_host": ("cuMemcpyDtoH_v2", on_host, on_gpu),
        }
        for direction, (copy, target, source) in directions.items():
            shortest_s = float("inf")
            for _ in range(COPIES):
                begun_s = time.perf_counter()
                cuda.call(copy, target, source, size)
                shortest_s = min(shortest_s, time.perf_counter() - begun_s)
            best[direction] = round(COPY_BYTES / shortest_s / 1e9, 2)
        return best
    finally:
        cuda.call("cuDevicePrimaryCtxRelease_v2", device)


def link(address: str) -> Dict[str, str]:
    """The PCIe link right after the copies: an idle GPU may slow it down."""
    texts = {}
    for name in ("speed", "width"):
        path = f"/sys/bus/pci/devices/{address}/current_link_{name}"
        try:
            with open(path, encoding="ascii") as file:
                texts[f"link_{name}"] = file.read().strip()
        except OSError:
            continue
    return texts


def copy_around() -> int:
    """The verb: it needs no document and takes no lock."""
    try:
        cuda = Cuda()
        devices: List[int] = [
            cuda.number("cuDeviceGet", at) for at in range(cuda.number("cuDeviceGetCount"))
        ]
    except (OSError, CudaError) as error:
        sys.stdout.write(json.dumps({"failed": str(error)}) + "\n")
        return 0
    own_cpus = os.sched_getaffinity(0)
    copied: Dict[str, Dict[str, Union[float, str]]] = {}
    for device in devices:
        address = address_of(cuda, device)
        run_near(address)
        try:
            copied[address] = {**rates(cuda, device), **link(address)}
        except CudaError as error:
            copied[address] = {"failed": str(error)}
        os.sched_setaffinity(0, own_cpus)
    sys.stdout.write(json.dumps({"gpus": copied}) + "\n")
    return 0
