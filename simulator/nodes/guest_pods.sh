# Run by pods_image.py as root inside a node's tree, after guest.sh, with PAUSE set: adds what starts pods. The programs
# are there already, and /opt/images.tar with the images. The kubelet is enabled when a node is started, see node.py.
set -eu
units=/etc/systemd/system
mkdir -p /etc/containerd /opt/cni/bin /etc/cni/net.d
cp -a /usr/lib/cni/. /opt/cni/bin/

# systemd gives a device and a service 90 seconds; emulated, beside other work, this machine takes longer
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\nDefaultDeviceTimeoutSec=600\nDefaultTimeoutStartSec=600\n' > /etc/systemd/system.conf.d/lab.conf

# Linux 7 takes the processor from a program after 0.7 ms, and whenever another wakes up. Under emulation, QEMU then
# drops its translated addresses, and a node that starts pods does little else
cat > $units/lab-scheduler.service <<'X'
[Unit]
ConditionVirtualization=qemu
Before=containerd.service kubelet.service
[Service]
Type=oneshot
ExecStart=/bin/mount -t debugfs debugfs /sys/kernel/debug
ExecStart=/bin/sh -ec 'cd /sys/kernel/debug/sched; echo 30000000 > base_slice_ns; \
  for feature in HRTICK WAKEUP_PREEMPTION PREEMPT_SHORT; do echo NO_$$feature > features || :; done'
ExecStart=/bin/umount /sys/kernel/debug
[Install]
WantedBy=multi-user.target
X

# containerd asks each container every second what it uses, the kubelet every ten, and here nobody reads it: under
# emulation that alone takes half of the machine
cat > /etc/containerd/config.toml <<X
version = 3
[plugins.'io.containerd.cri.v1.images']
stats_collect_period = 3600
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '$PAUSE'
[plugins.'io.containerd.cri.v1.runtime']
stats_collect_period = '1h'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = true
X
cat > $units/containerd.service <<'X'
[Unit]
After=lab-kubernetes.service
[Service]
Type=notify
Environment=GOGC=400
ExecStart=/usr/local/bin/containerd
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
X
cat > $units/kubelet.service <<'X'
[Unit]
After=containerd.service
StartLimitIntervalSec=0
[Service]
EnvironmentFile=/etc/kubernetes/node
Environment=GOGC=400
# external: the addresses in the Node object are the simulator's, and stay as they are
ExecStart=/usr/local/bin/kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/etc/kubernetes/kubelet.conf \
  --hostname-override=${NODE_NAME} --cloud-provider=external --housekeeping-interval=1m
Restart=always
RestartSec=5
[Install]
WantedBy=multi-user.target
X

# -- identity: certificates, settings and the pod network of this node come in through QEMU's fw_cfg
cat > $units/lab-kubernetes.service <<'X'
[Unit]
Requires=sys-subsystem-net-devices-enp0s5.device
After=lab-identity.service sys-subsystem-net-devices-enp0s5.device
Before=containerd.service kubelet.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/tar -xf /sys/firmware/qemu_fw_cfg/by_name/opt/rocelab/kubernetes/raw -C /
ExecStart=/sbin/ip -force -batch /etc/kubernetes/network
[Install]
WantedBy=multi-user.target
X
printf '[Match]\nName=enp0s5\n[Link]\nUnmanaged=yes\n' > /etc/systemd/network/05-pods.network
# a machine that others keep busy takes longer than systemd's 90 s to find its NICs
mkdir $units/sys-subsystem-net-devices-enp0s5.device.d
printf '[Unit]\nJobRunningTimeoutSec=infinity\n' > $units/sys-subsystem-net-devices-enp0s5.device.d/patience.conf

# soft-RoCE below a PCI function would be renamed after it, as mlx5's devices are; the lab names it rxe0
ln -s /dev/null /etc/udev/rules.d/60-rdma-persistent-naming.rules

# a VF of a ConnectX comes with its RDMA device; here soft-RoCE is added to each, also when it is back from a pod that
# died with the device
cat > /usr/local/sbin/lab-vf-rdma <<'X'
#!/bin/sh -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
vf=/sys/bus/pci/devices/$1
modprobe rdma_rxe
tries=20
# while the module is being loaded for another VF, the kernel does not know the type yet
until [ -e "$vf/infiniband" ]; do
  name=rxe_$(echo "${1#*:}" | tr :. __)
  rdma link add "$name" type rxe netdev "$(ls "$vf/net")" && break
  tries=$((tries - 1))
  [ $tries -gt 0 ]
  sleep 1
done
X
chmod 755 /usr/local/sbin/lab-vf-rdma
echo 'ACTION=="add", SUBSYSTEM=="net", DRIVERS=="igbvf", RUN+="/usr/local/sbin/lab-vf-rdma $id"' \
  > /etc/udev/rules.d/90-lab-vf-rdma.rules

# -- the API, for pods: its service's address is on a dummy interface of this node, and leads through the door
printf '[Socket]\nListenStream=0.0.0.0:443\n[Install]\nWantedBy=sockets.target\n' > $units/lab-api.socket
printf '[Service]\nExecStart=/lib/systemd/systemd-socket-proxyd 192.168.1.8:6443\n' > $units/lab-api.service

# -- names of pods; the program is there already
cat > $units/lab-dns.service <<'X'
[Unit]
Requires=lab-kubernetes.service
After=lab-kubernetes.service
[Service]
EnvironmentFile=/etc/kubernetes/node
ExecStart=/usr/bin/python3 -I -S /usr/local/lib/rocelab/dns.py ${DNS_ADDRESS} ${API_SERVER}
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
X
systemctl enable -q lab-scheduler.service containerd.service lab-kubernetes.service lab-api.socket lab-dns.service

# -- containerd's store: under emulation unpacking images takes minutes, here a second
fill=$(mktemp -d)
cat > "$fill/config.toml" <<'X'
version = 3
disabled_plugins = ['io.containerd.grpc.v1.cri', 'io.containerd.cri.v1.images', 'io.containerd.cri.v1.runtime',
  'io.containerd.nri.v1.nri', 'io.containerd.internal.v1.restart', 'io.containerd.podsandbox.controller.v1.podsandbox']
X
containerd --config "$fill/config.toml" > "$fill/log" 2>&1 &
runtime=$!
tries=100
until ctr version > /dev/null 2>&1; do
  tries=$((tries - 1))
  [ $tries -gt 0 ] || { cat "$fill/log"; exit 1; }
  sleep 0.2
done
ctr -n k8s.io images import --local --snapshotter overlayfs /opt/images.tar || { cat "$fill/log"; exit 1; }
kill $runtime
wait $runtime || true
rm -rf "$fill" /opt/images.tar /run/containerd /pods.sh
