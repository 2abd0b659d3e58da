"""The job's own fields: where v2beta1 has them, and which it has no more."""

from components.jobs.convert.work import Map, Work, as_map, made
from stacks.words import plural

API = "kubeflow.org/v2beta1"
RUN_POLICY = (
    "cleanPodPolicy",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "schedulingPolicy",
)
IMPLEMENTATIONS = {"OpenMPI": "OpenMPI", "IntelMPI": "Intel", "Intel": "Intel", "MPICH": "MPICH"}
SERVER_S = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")


def convert_head(work: Work) -> None:
    """Version, and what the server wrote into an exported job."""
    version = work.job.get("apiVersion")
    if version != API:
        work.note(("apiVersion",), f"{version} is {API} now: today's operator defines no other")
        work.job["apiVersion"] = API
    if "status" in work.job:
        del work.job["status"]
        work.note(("status",), "left out: the operator's, not the user's")
    metadata = made(work.job, "metadata")
    for key in SERVER_S:
        if metadata.pop(key, None) is not None:
            work.note(("metadata", key), "left out: the API server's, not the user's")
    work.note(
        ("metadata", "name"),
        "pods and logs are found by training.kubeflow.org/job-name and …/job-role; selectors with mpi_job_name, "
        "mpi_role_type or group_name find nothing, without an error",
    )


def convert_spec(work: Work) -> None:
    """Fields that have moved, been renamed or gone, and those that must be said now."""
    spec = work.spec()
    _move_run_policy(work, spec)
    if "mainContainer" in spec:
        chosen = spec.pop("mainContainer")
        work.note(
            ("spec", "mainContainer"),
            f"{chosen}: gone, it would be dropped without a word. The launcher is a Job now: it ends when all of its "
            "containers have ended, so helpers beside this one belong into initContainers with restartPolicy: Always",
        )
    if "mpiDistribution" in spec:
        old = str(spec.pop("mpiDistribution"))
        spec["mpiImplementation"] = IMPLEMENTATIONS.get(old, old)
        work.note(("spec", "mpiDistribution"), f"would be dropped without a word; is mpiImplementation: {old} now")
    if "launcherCreationPolicy" not in spec:
        spec["launcherCreationPolicy"] = "WaitForWorkersReady"
        work.note(
            ("spec",), "launcherCreationPolicy: WaitForWorkersReady added: mpirun fails where no sshd answers yet"
        )
    for role, path, replica in work.replicas():
        if role not in ("Launcher", "Worker"):
            work.note(path, "no role of v2beta1 (Launcher, Worker): the operator ignores it")
        policy = replica.get("restartPolicy")
        if policy in ("Always", "ExitCode"):
            replica["restartPolicy"] = "OnFailure"
            work.note(
                (*path, "restartPolicy"), f"{policy} is refused by the operator (Never, OnFailure); OnFailure now"
            )
        if role == "Launcher" and replica.get("replicas", 1) != 1:
            work.note((*path, "replicas"), f"{replica['replicas']} is refused by the operator; there is 1 launcher")
            replica["replicas"] = 1


def _move_run_policy(work: Work, spec: Map) -> None:
    policy = made(spec, "runPolicy")
    for key in RUN_POLICY:
        if key not in spec:
            continue
        value = spec.pop(key)
        path = ("spec", key)
        if key in policy:
            work.note(path, f"dropped without a word; spec.runPolicy.{key} stands there already and counts")
            continue
        policy[key] = value
        work.note(path, f"would be dropped without a word here; is spec.runPolicy.{key} now{_harm(key)}")
    if policy.get("cleanPodPolicy") is None:
        policy["cleanPodPolicy"] = "Running"
        work.note(("spec",), "runPolicy.cleanPodPolicy: Running added: the default, None, keeps GPUs and VFs for ever")
    if "ttlSecondsAfterFinished" in policy:
        work.note(
            ("spec", "runPolicy", "ttlSecondsAfterFinished"),
            "deletes the launcher and with it the log: read it before",
        )
    if "schedulingPolicy" in policy:
        work.note(
            ("spec", "runPolicy", "schedulingPolicy"),
            "counts only where the operator runs with --gang-scheduling; the one of this program does not",
        )


def _harm(key: str) -> str:
    return ", or the workers would hold their GPUs and VFs for ever (default: None)" if key == "cleanPodPolicy" else ""


def worker_gpus(work: Work) -> int:
    """GPUs that one worker asks for."""
    counts = [
        as_map(as_map(container.get("resources")).get("limits")).get("nvidia.com/gpu", 0)
        for _, container in work.containers("Worker")
    ]
    return sum(int(str(count)) for count in counts if str(count).isdigit())


def convert_slots(work: Work) -> None:
    """Slots, which decide how many ranks a worker gets."""
    spec, gpus = work.spec(), worker_gpus(work)
    slots = spec.get("slotsPerWorker", 1)
    if gpus > 1 and "slotsPerWorker" not in spec:
        spec["slotsPerWorker"] = gpus
        work.note(("spec",), f"slotsPerWorker: {gpus} added: the default is 1, and a worker has {gpus} GPUs")
    elif gpus and slots != gpus:
        work.note(
            ("spec", "slotsPerWorker"),
            f"{slots} ranks a worker, and {plural(gpus, 'GPU')}: one of them is meant otherwise",
        )
    if not as_map(spec.get("mpiReplicaSpecs")):
        work.note(("spec",), "mpiReplicaSpecs: missing, and the operator refuses a job without a launcher")
