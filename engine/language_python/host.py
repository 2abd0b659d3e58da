"""The language host: a gRPC server that runs Python programs for the engine.

Standard output carries the port, then only what the program prints. The host ends on SIGINT at once, because the engine
waits up to five seconds for it, and when its engine is gone.
"""

# ruff: noqa: N802  (the protocol names the methods)

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent import futures
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

# grpc and protobuf ship no types
import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2, json_format  # type: ignore[import-untyped]


def _register_bare(*names: str) -> None:
    """Registers packages without running their `__init__`, so that a module in them is imported alone."""
    for name in names:
        spec = find_spec(name)
        sys.modules[name] = package = ModuleType(name)
        package.__path__ = list(spec.submodule_search_locations or ()) if spec else []


# The engine starts two hosts per command and waits for each. The rest of the SDK doubles what they import.
_register_bare("pulumi", "pulumi.runtime")
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2  # noqa: E402, TID251

VERSION = "3.259.0"
SHOWN = 32
"""Exit code of a program whose error has been shown already."""

LONGEST_CONFIG_BYTES = 128 * 1024 - len("PULUMI_CONFIG=") - 1
"""Linux passes at most 128 KiB in one environment variable, name and end included (MAX_ARG_STRLEN)."""

PARENT_POLL_S = 1.0
"""How long a host may outlive its engine."""


class NoPythonError(Exception):
    """The project names an environment that does not exist; the text says how to create it."""


def interpreter(root: Path, options: Mapping[str, object]) -> Path:
    """The Python of the `virtualenv` in Pulumi.yaml; without one, PULUMI_PYTHON_CMD or the Python on PATH.

    Args:
        root: folder of Pulumi.yaml, the base of a relative path.
        options: `runtime.options` of Pulumi.yaml.

    Raises:
        NoPythonError: if the named environment has no Python.
    """
    name = options.get("virtualenv")
    if not name:
        return Path(os.environ.get("PULUMI_PYTHON_CMD") or "python3")
    python = root / str(name) / "bin" / "python"
    if not python.exists():
        raise NoPythonError(f"Pulumi.yaml names virtualenv {name}, but {python} does not exist; run: make setup")
    return python


def activated(python: Path) -> dict[str, str]:
    """The environment after `activate` of a virtualenv."""
    env = dict(os.environ)
    if python.is_absolute():
        env["VIRTUAL_ENV"] = str(python.parent.parent)
        env["PATH"] = f"{python.parent}{os.pathsep}{env.get('PATH', os.defpath)}"
        env.pop("PYTHONHOME", None)
    return env


class Host(language_pb2_grpc.LanguageRuntimeServicer):
    """What the CLI needs of a language; code generation and packaging are not implemented."""

    def __init__(self, runner: Path, engine: str) -> None:
        self._runner = runner
        self._engine = engine
        self._program: subprocess.Popen[bytes] | None = None

    def Handshake(
        self, request: language_pb2.LanguageHandshakeRequest, context: grpc.ServicerContext
    ) -> language_pb2.LanguageHandshakeResponse:
        """Receives the engine's address."""
        self._engine = request.engine_address or self._engine
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        """The version of this host, which is the CLI's."""
        return plugin_pb2.PluginInfo(version=VERSION)

    def About(self, request: language_pb2.AboutRequest, context: grpc.ServicerContext) -> language_pb2.AboutResponse:
        """For `pulumi about`: the interpreter that runs programs."""
        python = self._python(request.info, context)
        program = "import platform; print(platform.python_version())"
        done = subprocess.run([python, "-c", program], capture_output=True, check=False)
        return language_pb2.AboutResponse(executable=str(python), version=done.stdout.decode().strip())

    def GetRequiredPlugins(
        self, request: language_pb2.GetRequiredPluginsRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPluginsResponse:
        """The older form of `GetRequiredPackages`."""
        return language_pb2.GetRequiredPluginsResponse()

    def GetRequiredPackages(
        self, request: language_pb2.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPackagesResponse:
        """None: the engine finds plugins on PATH when a resource needs them.

        All SDKs are installed for every lab. Listing their plugins would require vSphere's plugin in labs without it.
        """
        return language_pb2.GetRequiredPackagesResponse()

    def RuntimeOptionsPrompts(
        self, request: language_pb2.RuntimeOptionsRequest, context: grpc.ServicerContext
    ) -> language_pb2.RuntimeOptionsResponse:
        """None for `pulumi new`: Pulumi.yaml names toolchain and environment."""
        return language_pb2.RuntimeOptionsResponse()

    def Template(
        self, request: language_pb2.TemplateRequest, context: grpc.ServicerContext
    ) -> language_pb2.TemplateResponse:
        """Nothing to do after a template has been copied."""
        return language_pb2.TemplateResponse()

    def GetProgramDependencies(
        self, request: language_pb2.GetProgramDependenciesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetProgramDependenciesResponse:
        """Packages of the program's environment; without `transitiveDependencies`, those that no other needs."""
        flags = ["--format=json", "--disable-pip-version-check"]
        if not request.transitiveDependencies:
            flags.append("--not-required")
        python = self._python(request.info, context)
        done = subprocess.run([python, "-m", "pip", "list", *flags], capture_output=True, check=False)
        if done.returncode:
            context.abort(grpc.StatusCode.UNKNOWN, f"pip list: {done.stderr.decode(errors='replace').strip()}")
        found = [language_pb2.DependencyInfo(name=it["name"], version=it["version"]) for it in json.loads(done.stdout)]
        return language_pb2.GetProgramDependenciesResponse(dependencies=found)

    def InstallDependencies(
        self, request: language_pb2.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        """For `pulumi install`: installs requirements.txt, with pip checking its hashes."""
        folder = Path(request.directory)
        options = json_format.MessageToDict(request.info.options)
        environment = folder / str(options.get("virtualenv") or ".venv")
        python = environment / "bin" / "python"
        commands: list[list[str | Path]] = [] if python.exists() else [[sys.executable, "-m", "venv", environment]]
        commands.append([python, "-m", "pip", "install", "--no-input", "-r", folder / "requirements.txt"])
        for command in commands:
            with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
                for line in process.stdout or ():
                    yield language_pb2.InstallDependenciesResponse(stdout=line)
            if process.returncode:
                context.abort(grpc.StatusCode.UNKNOWN, f"installing packages ended with {process.returncode}")

    def Run(self, request: language_pb2.RunRequest, context: grpc.ServicerContext) -> language_pb2.RunResponse:
        """Runs the program to its end."""
        try:
            python = interpreter(
                Path(request.info.root_directory or request.pwd), json_format.MessageToDict(request.info.options)
            )
        except NoPythonError as error:
            return language_pb2.RunResponse(error=str(error))
        config = json.dumps(dict(request.config))
        if len(config) > LONGEST_CONFIG_BYTES:
            return language_pb2.RunResponse(
                error=f"the stack's configuration has {len(config)} bytes, but the variable that carries it "
                f"holds {LONGEST_CONFIG_BYTES}; move the lab to a stack file of its own and name it: "
                "rocelab:lab: {file: NAME.yaml}"
            )
        env = activated(python) | {
            "PULUMI_CONFIG": config,
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        shim = Path(__file__).with_name("program.py")
        arguments = self._runner_arguments(request)
        self._program = subprocess.Popen(
            [python, "-u", shim, self._runner, *arguments], env=env, cwd=request.pwd, stdin=subprocess.DEVNULL
        )
        code = self._program.wait()
        if code == SHOWN:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"Program exited with non-zero exit code: {code}" if code else "")

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """Ends a running program."""
        self.end_program()
        return empty_pb2.Empty()

    def end_program(self) -> None:
        """Ends the program if it runs: it is useless without its engine."""
        if self._program and self._program.poll() is None:
            self._program.terminate()

    def _runner_arguments(self, request: language_pb2.RunRequest) -> list[str]:
        values = {
            "monitor": request.monitor_address,
            "engine": self._engine,
            "project": request.project,
            "stack": request.stack,
            "pwd": request.pwd,
            "dry_run": str(request.dryRun).lower(),
            "parallel": str(request.parallel),
            "organization": request.organization,
            "root_directory": request.info.root_directory,
        }
        flags = [word for name, value in values.items() for word in (f"--{name}", value)]
        return [*flags, request.info.entry_point or request.program or ".", *request.args]

    def _python(self, info: language_pb2.ProgramInfo, context: grpc.ServicerContext) -> Path:
        try:
            return interpreter(Path(info.root_directory), json_format.MessageToDict(info.options))
        except NoPythonError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))  # raises
            raise


def main() -> None:
    """Arguments: the path that the engine started, then the engine's own arguments; the last is its address."""
    parent = os.getppid()
    me, *arguments = sys.argv[1:]
    engine = arguments[-1] if arguments else ""
    host = Host(Path(me).parent / "pulumi-language-python-exec", engine)

    def end() -> None:
        host.end_program()
        os._exit(0)  # at once: a graceful stop of the server would wait for the call that runs the program

    signal.signal(signal.SIGINT, lambda *_: end())
    signal.signal(signal.SIGTERM, lambda *_: end())
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    end()


if __name__ == "__main__":
    main()
