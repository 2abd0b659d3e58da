# Rendered from the lab file: change its images section, not this.
FROM docker.io/nvidia/cuda:12.8.1-devel-ubuntu24.04@sha256:4b9ed5fa8361736996499f64ecebf25d4ec37ff56e4d11323ccde10aa36e0c43
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
 && apt-get install --yes --no-install-recommends --allow-change-held-packages --allow-downgrades \
      libnccl2=2.25.1-1+cuda12.8 \
      libnccl-dev=2.25.1-1+cuda12.8 \
      build-essential \
      bzip2 \
      ca-certificates \
      git \
      ibverbs-providers \
      ibverbs-utils \
      iputils-ping \
      libibverbs-dev \
      openssh-client \
      openssh-server \
      perftest \
      perl \
      rdma-core \
      rdmacm-utils \
 && rm -rf /var/lib/apt/lists/*
ADD https://download.open-mpi.org/release/open-mpi/v4.1/openmpi-4.1.8.tar.bz2 /build/openmpi.tar.bz2
RUN echo '466f68e3132a1dc02710cc2011fafced8336d98359fa2dae4dddcfd5719f12a9  /build/openmpi.tar.bz2' | sha256sum --check --quiet \
 && mkdir -p /build/openmpi \
 && tar -xjf /build/openmpi.tar.bz2 --strip-components=1 -C /build/openmpi \
 && cd /build/openmpi \
 && ./configure --prefix=/usr/local --without-ucx --without-verbs --disable-oshmem --enable-mpirun-prefix-by-default > /build/configure.log \
 && make -j"$(nproc)" install > /build/make.log \
 && ldconfig \
 && rm -rf /build
RUN git init --quiet /build/nccl-tests \
 && cd /build/nccl-tests \
 && git fetch --quiet --depth 1 https://github.com/NVIDIA/nccl-tests.git a0b82b2260cf5152b9f8c061bbf7eaf0ba096432 \
 && git checkout --quiet FETCH_HEAD \
 && test "$(git rev-parse HEAD)" = a0b82b2260cf5152b9f8c061bbf7eaf0ba096432 \
 && make -j"$(nproc)" MPI=1 MPI_HOME=/usr/local NVCC_GENCODE='-gencode=arch=compute_70,code=sm_70 -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_90,code=compute_90' > /build/make.log \
 && install -t /usr/local/bin build/*_perf \
 && rm -rf /build
RUN mkdir -p /build /run/sshd \
 && printf '%s\n' 'StrictModes no' 'UsePAM no' 'PasswordAuthentication no' 'PermitRootLogin prohibit-password' 'MaxStartups 100' > /etc/ssh/sshd_config.d/mpi.conf \
 && for set in PATH="$PATH" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" OPAL_PREFIX="${OPAL_PREFIX:-}"; do [ -z "${set#*=}" ] || printf ' %s' "$set"; done > /build/set \
 && echo "SetEnv$(cat /build/set)" >> /etc/ssh/sshd_config.d/mpi.conf \
 && printf '%s\n' 'Host *' 'StrictHostKeyChecking no' 'UserKnownHostsFile /dev/null' 'LogLevel ERROR' > /etc/ssh/ssh_config.d/mpi.conf \
 && rm -rf /build
RUN /usr/sbin/sshd -t \
 && mpirun --version > /dev/null \
 && command -v all_reduce_perf > /dev/null \
 && command -v ib_write_bw > /dev/null \
 && command -v ibv_devinfo > /dev/null \
 && command -v ping > /dev/null \
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
LABEL rocelab.dev/recipe=6ff1288c8017
