# Rendered from the image itself: rocelab image repair
FROM nvcr.io/nvidia/tensorrt:20.12-py3
USER root
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get purge --yes --allow-change-held-packages ibverbs-providers ibverbs-utils libibverbs-dev libibverbs1 \
 && rm -rf /opt/mellanox/DEBS \
 && apt-get update \
 && apt-get install --yes --no-install-recommends --reinstall --allow-downgrades --target-release focal rdma-core libibverbs1 ibverbs-providers ibverbs-utils infiniband-diags perftest \
 && rm -rf /var/lib/apt/lists/* \
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
LABEL rocelab.dev/verbs=distribution
RUN make -C /workspace/tensorrt/samples -j4 \
 && /opt/tensorrt/python/python_setup.sh \
 && cd /workspace/tensorrt/data/mnist \
 && python download_pgms.py
ADD https://mirror.example/bitfusion-client-ubuntu2004_3.0.1-4_amd64.deb /build/bitfusion-client-ubuntu2004_3.0.1-4_amd64.deb
RUN echo '0000000000000000000000000000000000000000000000000000000000000000  /build/bitfusion-client-ubuntu2004_3.0.1-4_amd64.deb' | sha256sum --check --quiet \
 && apt-get update \
 && apt-get install --yes --no-install-recommends /build/bitfusion-client-ubuntu2004_3.0.1-4_amd64.deb \
 && rm -rf /build /var/lib/apt/lists/*
WORKDIR /workspace/tensorrt/bin
