# Run by kernel.py as root inside a fresh Debian 13 tree, with RELEASE set: replaces the kernel's soft-RoCE by one with
# /rdma_rxe.patch and the driver of VFs by a patient one, and leaves /kernel.tar with the kernel and its modules.
set -eu
modules=/usr/lib/modules/$RELEASE
cd /usr/src
rxe=drivers/infiniband/sw/rxe
vf=drivers/net/ethernet/intel/igbvf
tar -xJf linux-source-*.tar.xz --strip-components=1 --wildcards "*/$rxe" "*/$vf"
patch --quiet --fuzz=0 -d $rxe -p1 < /rdma_rxe.patch
# a VF waits 1 ms for its PF's answer to a reset, and then has no link for ever; an emulated PF takes longer
sed -i -E 's/(define E1000_VF_INIT_TIMEOUT[[:space:]]+)200\b/\120000/' $vf/*.h
grep -q 'E1000_VF_INIT_TIMEOUT[[:space:]]*20000' $vf/*.h
make -s -C "$modules/build" M=/usr/src/$rxe CONFIG_RDMA_RXE=m modules
make -s -C "$modules/build" M=/usr/src/$vf CONFIG_IGBVF=m modules
for module in $rxe/rdma_rxe $vf/igbvf; do
  strip --strip-debug $module.ko
  rm "$modules/kernel/$module".ko*
  cp $module.ko "$modules/kernel/${module%/*}/"
done
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
