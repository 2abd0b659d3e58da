# Rendered from the lab file: change its images section, not this.
FROM nvcr.io/nvidia/tensorflow:24.03-tf2-py3
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
 && apt-get install --yes --no-install-recommends --allow-change-held-packages --allow-downgrades \
      ca-certificates \
      git \
      openssh-client \
      openssh-server \
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
 && test -f /opt/benchmarks/tf_cnn_benchmarks/tf_cnn_benchmarks.py
LABEL rocelab.dev/recipe=2b3ce25dbd8f
