# Rendered from the lab file: change its images section, not this.
FROM nvcr.io/nvidia/tensorflow:24.03-tf2-py3
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
 && apt-get purge --yes --allow-change-held-packages 'libibverbs*' 'ibverbs-*' 'librdmacm*' 'rdma-core*' 'perftest*' \
 && rm -f /etc/apt/sources.list.d/*mlnx* /etc/apt/sources.list.d/*mellanox* /etc/apt/sources.list.d/*doca* \
 && rm -rf /opt/mellanox/DEBS /var/lib/apt/lists/*
RUN apt-get update \
 && apt-get install --yes --no-install-recommends --allow-change-held-packages --allow-downgrades \
      ca-certificates \
      git \
      ibverbs-providers \
      ibverbs-utils \
      libibverbs-dev \
      openssh-client \
      openssh-server \
      perftest \
      rdma-core \
      rdmacm-utils \
 && rm -rf /var/lib/apt/lists/*
RUN git init --quiet /build/horovod \
 && cd /build/horovod \
 && git fetch --quiet --depth 1 https://github.com/horovod/horovod.git 1d217b59949986d025f6db93c49943fb6b6cc78f \
 && git checkout --quiet FETCH_HEAD \
 && test "$(git rev-parse HEAD)" = 1d217b59949986d025f6db93c49943fb6b6cc78f \
 && install -D -m 0644 -t /opt/benchmarks examples/tensorflow2/tensorflow2_synthetic_benchmark.py \
 && rm -rf /build
RUN git init --quiet /build/benchmarks \
 && cd /build/benchmarks \
 && git fetch --quiet --depth 1 https://github.com/tensorflow/benchmarks.git 8fb79079265933ad39bea628b777af662f5bf15d \
 && git checkout --quiet FETCH_HEAD \
 && test "$(git rev-parse HEAD)" = 8fb79079265933ad39bea628b777af662f5bf15d \
 && cp -r scripts/tf_cnn_benchmarks /opt/benchmarks/ \
 && rm -rf /build
RUN mkdir -p /build /run/sshd \
 && printf '%s\n' 'StrictModes no' 'UsePAM no' 'PasswordAuthentication no' 'PermitRootLogin prohibit-password' 'MaxStartups 100' > /etc/ssh/sshd_config.d/mpi.conf \
 && for set in PATH="$PATH" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" OPAL_PREFIX="${OPAL_PREFIX:-}"; do [ -z "${set#*=}" ] || printf ' %s' "$set"; done > /build/set \
 && echo "SetEnv$(cat /build/set)" >> /etc/ssh/sshd_config.d/mpi.conf \
 && printf '%s\n' 'Host *' 'StrictHostKeyChecking no' 'UserKnownHostsFile /dev/null' 'LogLevel ERROR' > /etc/ssh/ssh_config.d/mpi.conf \
 && rm -rf /build
RUN /usr/sbin/sshd -t \
 && mpirun --version > /dev/null \
 && test -f /opt/benchmarks/tensorflow2_synthetic_benchmark.py \
 && test -f /opt/benchmarks/tf_cnn_benchmarks/tf_cnn_benchmarks.py \
 && ( why="there is no libibverbs"; \
      for library in /usr/lib/*/libibverbs.so.1 /usr/lib64/libibverbs.so.1; \
      do [ -e "$library" ] || continue; \
      abi=$(grep -ao 'rdmav[0-9][0-9]*' "$library" | sort -u | tail -n 1) || abi=; \
      provider="${library%.so.1}/libvmw_pvrdma-${abi:-rdmav}.so"; \
      why="$library loads drivers of ${abi:-rdmav} only, and there is no $provider"; \
      [ -e "$provider" ] || continue; \
      why="/etc/libibverbs.d has no vmw_pvrdma.driver"; \
      [ ! -e /etc/libibverbs.d/vmw_pvrdma.driver ] || why=""; \
      break; \
      done; \
      [ -z "$why" ] || { echo "this image does not support PVRDMA: $why" >&2; exit 1; } ) \
 && ! { dpkg-query --show --showformat='${db:Status-Status} ${Package} ${Version}\n' \
      'libibverbs*' 'ibverbs-*' 'librdmacm*' 'rdma-core*' 'perftest*' 2> /dev/null || true; } | grep -iE '^installed .*(mlnx|mofed|doca)' >&2
LABEL rocelab.dev/recipe=869defce0d4d
