"""`rocelab job`."""

from typing import get_args

import click

from components.cli.options import json_option, say, show, stack_options, verb
from components.jobs.workers import Transport
from components.stack import Stack
from components.validation.benchmarks.jobs.plan import JOBS, job_of
from stacks.benchmarks import Benchmarks
from stacks.safe_yaml import to_yaml


@verb("rocelab job nccl --stack dgx --transport tcp | kubectl create -f -")
@click.argument("job", type=click.Choice(JOBS))
@stack_options
@click.option(
    "--transport",
    type=click.Choice(get_args(Transport)),
    default="roce",
    show_default=True,
    help="RDMA over VFs of the rails, TCP without VFs, or the hosts' own network.",
)
@click.option(
    "--device-resource",
    metavar="NAME",
    help="With host: the resource that provides /dev/infiniband, such as rdma/hca.",
)
@click.option("--image", metavar="IMAGE", help="Another image than the lab's.")
@json_option
def command(
    stack: Stack,
    job: str,
    transport: Transport,
    device_resource: str | None,
    image: str | None,
    as_json: bool,
) -> None:
    """Print a benchmark job for kubectl, as YAML or JSON.

    How to follow the job is printed on stderr.
    """
    lab = stack.lab()
    document = job_of(lab, job, transport, image=image, device_resource=device_resource)
    show(to_yaml(document), document, as_json=as_json)
    name = f"{job.replace('_', '-')}-{transport}"
    namespace = (lab.benchmarks or Benchmarks()).namespace
    launcher = f"training.kubeflow.org/job-name={name},training.kubeflow.org/job-role=launcher"
    say(f"follow it: kubectl logs -f -n {namespace} -l {launcher}")
