# Run by kernel.py as root inside a fresh Debian 13 tree, with RELEASE set: replaces the kernel's soft-RoCE by one with
# /rdma_rxe.patch, and leaves /kernel.tar with the kernel and its modules.
set -eu
modules=/usr/lib/modules/$RELEASE
cd /usr/src
tar -xJf linux-source-*.tar.xz --strip-components=4 --wildcards '*/drivers/infiniband/sw/rxe'
patch --quiet --fuzz=0 -d rxe -p1 < /rdma_rxe.patch
make -s -C "$modules/build" M=/usr/src/rxe CONFIG_RDMA_RXE=m modules
strip --strip-debug rxe/rdma_rxe.ko
rm "$modules"/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko*
cp rxe/rdma_rxe.ko "$modules/kernel/drivers/infiniband/sw/rxe/"
depmod "$RELEASE"
# what every node loads is not unpacked under emulation; the initrd's busybox unpacks nothing at all
for module in virtio_pci virtio_blk virtio_net virtio_rng ext4 igb igbvf vmxnet3 rdma_rxe rdma_ucm ib_umad \
  8021q bridge veth overlay qemu_fw_cfg; do
  modprobe -S "$RELEASE" --show-depends "$module"
done | awk '$1 == "insmod" && $2 ~ /\.xz$/ && !seen[$2]++ {print $2}' | xargs unxz
depmod "$RELEASE"
rm -rf "$modules/build" "$modules/source" "$modules/kernel/sound" "$modules/kernel/drivers/gpu"
mv "$modules/vmlinuz" "/boot/vmlinuz-$RELEASE"
tar -cf /kernel.tar -C / "boot/vmlinuz-$RELEASE" "usr/lib/modules/$RELEASE"
