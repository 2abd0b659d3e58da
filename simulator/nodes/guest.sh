# Run by image.py as root inside a fresh Debian 12 tree, with GUEST_USER set: makes it a lab node's root disk.
# Leaves the kernel and a tiny initrd in /boot. Nothing in here is specific to one lab or one node.
set -eu
kernel=$(ls /usr/lib/modules)
units=/etc/systemd/system

# -- access: key login and sudo, as the hosts of a real lab have it
useradd --create-home --shell /bin/bash "$GUEST_USER"
echo "$GUEST_USER ALL=(ALL) NOPASSWD:ALL" > /etc/sudoers.d/lab
printf '* soft memlock unlimited\n* hard memlock unlimited\n' > /etc/security/limits.d/rdma.conf
rm -f /etc/ssh/ssh_host_* /etc/update-motd.d/*
# MaxStartups: behind QEMU's port forward every client is one source, and parallel tests would be refused
printf 'HostKey /etc/ssh/ssh_host_ed25519_key\nUseDNS no\nMaxStartups 100:30:200\n' > /etc/ssh/sshd_config.d/lab.conf

# -- identity: keys come in through QEMU's fw_cfg, so that one image serves every node of every lab
cat > /usr/local/sbin/lab-identity <<'X'
#!/bin/sh -e
modprobe qemu_fw_cfg
given=/sys/firmware/qemu_fw_cfg/by_name/opt/rocelab
install -m 600 $given/host_key/raw /etc/ssh/ssh_host_ed25519_key
for home in /home/*; do
  user=${home##*/}
  install -d -m 700 -o "$user" -g "$user" "$home/.ssh"
  install -m 600 -o "$user" -g "$user" $given/authorized_key/raw "$home/.ssh/authorized_keys"
done
X
chmod 755 /usr/local/sbin/lab-identity
cat > $units/lab-identity.service <<'X'
[Unit]
DefaultDependencies=no
After=local-fs.target
Before=ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/lab-identity
[Install]
WantedBy=multi-user.target
X
printf '[Match]\nDriver=virtio_net\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' \
  > /etc/systemd/network/10-management.network
echo '127.0.0.1 localhost' > /etc/hosts
echo '/dev/vda / ext4 defaults,noatime 0 1' > /etc/fstab
systemctl enable -q lab-identity.service systemd-networkd.service ssh.service

# -- PVRDMA: Debian's kernel has no vmw_pvrdma, so soft-RoCE answers to that name (emulated). As the driver does, it
# takes its addresses from the netdevs of vmxnet3 when it starts, which udev does too early, as on Ubuntu
cat > /usr/local/sbin/lab-pvrdma <<'X'
#!/bin/sh -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
modprobe --ignore-install rdma_rxe
number=0
for driver in /sys/class/net/*/device/driver; do
  [ "$(basename "$(readlink "$driver")")" = vmxnet3 ] || continue
  netdev=${driver#/sys/class/net/}
  netdev=${netdev%%/*}
  [ "$(ip -4 -o address show dev "$netdev" up)" ] || continue
  rdma link add vmw_pvrdma$number type rxe netdev "$netdev"
  number=$((number + 1))
done
X
chmod 755 /usr/local/sbin/lab-pvrdma
printf 'alias vmw_pvrdma rdma_rxe\ninstall rdma_rxe /usr/local/sbin/lab-pvrdma\n' > /etc/modprobe.d/lab-pvrdma.conf
echo 'ACTION=="add", SUBSYSTEM=="pci", ATTR{vendor}=="0x15ad", ATTR{device}=="0x07b0", RUN+="/sbin/modprobe vmw_pvrdma"' \
  > /etc/udev/rules.d/90-lab-pvrdma.rules

# a host program's Python starts in 80 ms; its hook for crash reports, which nobody reads here, would add to that
rm -f /etc/python3*/sitecustomize.py

# -- boot time: under pure emulation each unit costs tenths of a second, so what a lab node never needs goes.
# Do not mask systemd-user-sessions (logins would be refused) nor systemd-logind (systemctl reboot would complain);
# logind is merely not started before D-Bus asks for it.
rm -f /usr/lib/systemd/system/multi-user.target.wants/systemd-logind.service
rm -f /usr/lib/systemd/system-generators/systemd-*
systemctl mask -q systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
  e2scrub_all.timer e2scrub_reap.service fstrim.timer man-db.timer logrotate.timer systemd-tmpfiles-clean.timer \
  systemd-random-seed.service systemd-pstore.service systemd-hwdb-update.service systemd-journal-flush.service \
  systemd-journal-catalog-update.service systemd-update-utmp.service systemd-update-utmp-runlevel.service \
  systemd-machine-id-commit.service systemd-sysusers.service systemd-udev-settle.service ldconfig.service \
  systemd-network-generator.service systemd-boot-system-token.service proc-sys-fs-binfmt_misc.automount \
  getty.target getty@tty1.service serial-getty@ttyS0.service rdma-ndd.service sys-kernel-debug.mount \
  sys-kernel-tracing.mount sys-fs-fuse-connections.mount dev-hugepages.mount dev-mqueue.mount \
  modprobe@drm.service modprobe@efi_pstore.service modprobe@fuse.service modprobe@dm_mod.service modprobe@loop.service
systemctl set-default -q multi-user.target
mkdir -p /etc/systemd/journald.conf.d
printf '[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n' > /etc/systemd/journald.conf.d/lab.conf
printf 'blacklist %s\n' bochs i2c_i801 iTCO_wdt pcspkr lpc_ich > /etc/modprobe.d/lab.conf
echo 0123456789abcdef0123456789abcdef > /etc/machine-id  # each node overrides it on the kernel command line
touch -d 2099-01-01 /etc/.updated /var/.updated          # or systemd does its first-boot work on every fresh disk

# -- initrd: the stock one takes longer to run than the rest of the kernel's start
tree=$(mktemp -d)
mkdir -p "$tree/bin" "$tree/dev" "$tree/proc" "$tree/mnt" "$tree/modules"
cp /bin/busybox "$tree/bin/busybox"
ln -s busybox "$tree/bin/sh"
for module in virtio_pci virtio_blk ext4 crc32c_generic; do
  modprobe -S "$kernel" --show-depends $module
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' > "$tree/order"
xargs -a "$tree/order" cp -t "$tree/modules"
sed -i 's#.*/#/modules/#' "$tree/order"
cat > "$tree/init" <<'X'
#!/bin/sh
alias box=/bin/busybox
box mount -t devtmpfs dev /dev
while read -r module; do box insmod "$module"; done < /order
if [ "$rocelab_probe" ]; then box echo 'rocelab: the kernel runs'; box reboot -f; fi  # see accelerator.py
tries=200
while [ ! -b /dev/vda ] && [ $tries -gt 0 ]; do box usleep 50000; tries=$((tries - 1)); done
box mount -t ext4 -o rw,noatime /dev/vda /mnt || { echo 'lab initrd: no root disk'; exec /bin/sh; }
box mount --move /dev /mnt/dev
exec /bin/busybox switch_root /mnt /sbin/init
X
chmod 755 "$tree/init"
(cd "$tree" && find . | cpio --quiet -o -H newc) > /boot/initrd
mv /boot/vmlinuz-* /boot/vmlinuz
rm -rf "$tree" /boot/initrd.img-* /boot/System.map-* /var/lib/apt/lists/* /var/cache/apt/* /etc/apt/apt.conf.d/*mmdebstrap
: > /etc/apt/sources.list  # a node reaches no network; the builder's mirror is nobody's business
