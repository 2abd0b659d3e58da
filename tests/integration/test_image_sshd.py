"""The image's SSH settings on a real sshd: it takes the key as it is mounted, and gives ranks an environment."""

import re
from pathlib import Path

import pytest

from tests.components.jobs.recipes import RECIPES
from tests.integration.stack import on_node

pytestmark = [pytest.mark.sim, pytest.mark.whole]

PORT = 2299

SCRIPT = """
set -eu
d=$(mktemp -d /tmp/mpi.XXXXXX)
trap 'sudo sh -c "kill $(sudo cat $d/pid 2>/dev/null) 2>/dev/null; rm -rf $d"' EXIT
mkdir $d/mounted
ssh-keygen -q -t ecdsa -b 521 -N '' -f $d/id
cp $d/id.pub $d/mounted/authorized_keys
# the operator's secret as kubelet mounts it for a container of another group
chmod 777 $d $d/mounted
chmod 666 $d/mounted/authorized_keys
cat > $d/settings <<'RUN'
SETTINGS
RUN
sed -i "s#/etc/ssh/[a-z]*_config.d/#$d/#; s#/build#$d/build#g; s#/run/sshd#$d/run#" $d/settings
LD_LIBRARY_PATH=/opt/lib PATH=/opt/mpi/bin:$PATH bash -euo pipefail $d/settings
printf 'AuthorizedKeysFile %s\\nPidFile %s\\nListenAddress 127.0.0.1\\nPort PORT\\nSTRICT' \\
  $d/mounted/authorized_keys $d/pid > $d/conf
cat $d/server >> $d/conf
sudo /usr/sbin/sshd -t -f $d/conf
sudo /usr/sbin/sshd -f $d/conf
sudo ssh -F $d/client -o BatchMode=yes -i $d/id -p PORT root@127.0.0.1 'whoami; printenv PATH LD_LIBRARY_PATH' 2>&1 \\
  || echo refused
"""


def script(*, strict: bool = False) -> str:
    """What a node is to do; `strict` leaves sshd's own default on, which comes first and therefore counts."""
    settings = next(
        run for run in re.findall(r"^RUN ((?:.*\\\n)*.*)$", RECIPES["training"], re.MULTILINE) if "SetEnv" in run
    )
    server = settings.replace("sshd_config.d/mpi.conf", "sshd_config.d/server").replace(
        "ssh_config.d/mpi.conf", "ssh_config.d/client"
    )
    text = SCRIPT.replace("SETTINGS", server).replace("PORT", str(PORT))
    return text.replace("STRICT", "StrictModes yes\\n" if strict else "")


def test_ranks_get_in_with_the_mounted_key_and_find_the_image_s_programs(simulator: Path) -> None:
    del simulator  # it has to run
    said = on_node("gpu01", script()).splitlines()

    assert said[0] == "root"
    assert said[1].startswith("/opt/mpi/bin:"), "else MPI's daemon is not found on the other node"
    assert said[2] == "/opt/lib"


def test_sshd_s_own_default_would_refuse_that_key(simulator: Path) -> None:
    """Why the setting is there: without it every job ends at its first connection."""
    del simulator
    assert on_node("gpu01", script(strict=True)).splitlines()[-1] == "refused"
