# Rendered from the lab file: change its images section, not this.
FROM docker.io/library/debian:12-slim
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
 && apt-get install --yes --no-install-recommends --allow-change-held-packages --allow-downgrades \
      ibverbs-providers \
      ibverbs-utils \
      iputils-ping \
      openmpi-bin \
      openssh-client \
      openssh-server \
      python3-mpi4py \
 && rm -rf /var/lib/apt/lists/*
RUN mkdir -p /build /run/sshd \
 && printf '%s\n' 'StrictModes no' 'UsePAM no' 'PasswordAuthentication no' 'PermitRootLogin prohibit-password' 'MaxStartups 100' > /etc/ssh/sshd_config.d/mpi.conf \
 && for set in PATH="$PATH" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" OPAL_PREFIX="${OPAL_PREFIX:-}"; do [ -z "${set#*=}" ] || printf ' %s' "$set"; done > /build/set \
 && echo "SetEnv$(cat /build/set)" >> /etc/ssh/sshd_config.d/mpi.conf \
 && printf '%s\n' 'Host *' 'StrictHostKeyChecking no' 'UserKnownHostsFile /dev/null' 'LogLevel ERROR' > /etc/ssh/ssh_config.d/mpi.conf \
 && rm -rf /build
RUN /usr/sbin/sshd -t \
 && mpirun --version > /dev/null \
 && ompi_info --parsable | grep pml:ucx > /dev/null \
 && python3 -c 'import mpi4py'
LABEL rocelab.dev/recipe=13ace19062fb
