# Rendered from the image itself: python -m components.jobs.image.pvrdma repair
FROM nvcr.io/nvidia/tensorrt:20.12-py3
USER root
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get purge --yes --allow-change-held-packages ibverbs-providers ibverbs-utils libibverbs-dev libibverbs1 \
 && rm -rf /opt/mellanox/DEBS \
 && apt-get update \
 && apt-get install --yes --no-install-recommends --reinstall --allow-downgrades --target-release focal rdma-core libibverbs1 ibverbs-providers ibverbs-utils infiniband-diags perftest \
 && rm -rf /var/lib/apt/lists/* \
 && test -e /etc/libibverbs.d/vmw_pvrdma.driver \
 && ls /usr/lib/*/libibverbs/libvmw_pvrdma-rdmav*.so
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
