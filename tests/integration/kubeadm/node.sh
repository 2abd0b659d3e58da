#!/bin/bash
# node.sh FOLDER LAYER NAME ADDRESS: one node, with a systemd of its own. Descriptor 9 is the network between nodes.
set -eu
folder=$1 layer=$2 name=$3 address=$4
node=$folder/$name root=$folder/$name/root

part_of=$(cat /proc/self/cgroup)  # at once: moving changes the file while it is read
if [ "${5:-}" != inside ]; then
  # a part of every hierarchy of cgroup v1 for it, under our own, which is then all that it can see
  while IFS=: read -r _ controllers own; do
    place=/sys/fs/cgroup/${controllers#name=}
    [ "$controllers" ] || place=/sys/fs/cgroup/unified
    [ -d "$place" ] || continue
    part=$place${own%/}/$(basename "$folder")
    mkdir -p "$part/$name"
    if [ "$controllers" = cpuset ]; then  # one without processors and memory takes nobody in
      for file in cpuset.cpus cpuset.mems; do
        for each in "$part" "$part/$name"; do cat "$place${own%/}/$file" > "$each/$file"; done
      done
    fi
    echo $$ > "$part/$name/cgroup.procs"
    echo "$part" >> "$node/cgroups"
  done <<< "$part_of"
  exec unshare --mount --uts --ipc --net --cgroup --pid --fork --kill-child bash "$0" "$folder" "$layer" "$name" \
    "$address" inside
fi

mount --make-rprivate /
mkdir -p "$root" "$node/upper" "$node/work"
mount -t overlay overlay -o "lowerdir=$layer:$folder/image,upperdir=$node/upper,workdir=$node/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
touch "$root/dev/kmsg"  # the kubelet wants to read it, and what the machine's kernel says is none of the node's business
mount --bind /dev/null "$root/dev/kmsg"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
for place in containerd kubelet etcd; do  # containers' overlays cannot lie on an overlay
  mkdir -p "$node/$place" "$root/var/lib/$place"
  mount --bind "$node/$place" "$root/var/lib/$place"
done

mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
while IFS=: read -r _ controllers _; do
  [ "$controllers" ] || continue
  place=$root/sys/fs/cgroup/${controllers#name=}
  mkdir "$place"
  options=$controllers
  [ "$controllers" = "${controllers#name=}" ] || options=none,$controllers
  mount -t cgroup -o "$options" cgroup "$place"
done <<< "$part_of"

# settings that are the whole machine's stay what they are; those that a kubelet sets look as if they were set
for part in kernel vm fs; do
  mount --bind "$root/proc/sys/$part" "$root/proc/sys/$part"
  mount -o remount,bind,ro "$root/proc/sys/$part"
done
mkdir -p "$node/settings"
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file=$node/settings/$(basename "${setting%=*}")
  echo "${setting#*=}" > "$file"
  mount --bind "$file" "$root/proc/sys/${setting%=*}"
done

hostname "$name"
echo "$name" > "$root/etc/hostname"
echo '127.0.0.1 localhost' > "$root/etc/hosts"
: > "$root/etc/fstab"
: > "$root/etc/resolv.conf"
echo "$name" | md5sum | cut -c1-32 > "$root/etc/machine-id"
units=$root/etc/systemd/system
for unit in lab-identity systemd-networkd systemd-modules-load systemd-sysctl systemd-udevd systemd-udev-trigger; do
  ln -sf /dev/null "$units/$unit.service"
done
ln -sf /dev/null "$units/systemd-networkd.socket"
mkdir -p "$units/multi-user.target.wants"
ln -sf ../containerd.service "$units/multi-user.target.wants/containerd.service"
install -m 600 "$node/host_key" "$root/etc/ssh/ssh_host_ed25519_key"
install -d -m 700 -o 1000 -g 1000 "$root/home/nvidia/.ssh"
install -m 600 -o 1000 -g 1000 "$folder/key.pub" "$root/home/nvidia/.ssh/authorized_keys"

ip link set lo up
nsenter --net=/proc/self/fd/9 ip link add "to-$name" type veth peer name eth0 netns $$
nsenter --net=/proc/self/fd/9 ip link set "to-$name" master lan up
ip address add "$address/24" dev eth0
ip link set eth0 up
ip route add default via 10.9.0.254

mkdir "$root/.old"
cd "$root"
pivot_root . .old
exec 9<&-
exec env -i container=other PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot . /bin/sh -c '
  umount -l /.old
  rmdir /.old
  exec /lib/systemd/systemd --log-target=console --show-status=0 < /dev/null'
