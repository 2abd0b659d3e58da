"""Labs whose cluster kubeadm creates, and the real kubeadm if it is installed."""

import json
import os
import shutil

from components.hosts.bootstrap.config import Invitation
from stacks.lab import Lab
from tests.conftest import ROOT
from tests.labs import made_here

INVITATION = Invitation(token="abcdef.0123456789abcdef", certificate_key="ab" * 32)
KUBEADM = shutil.which("kubeadm", path=f"{ROOT / '.engine/bin'}:{os.environ['PATH']}")


def lab_of(planes: int, **bootstrap: object) -> Lab:
    return Lab.model_validate_json(json.dumps(made_here(planes, **bootstrap)))


ONE = lab_of(1)
THREE = lab_of(3, reserved_cpus="0-3", topology_manager="single-numa-node", image_repository="registry.lab:5000/k8s")
