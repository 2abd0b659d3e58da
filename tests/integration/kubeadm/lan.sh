#!/bin/bash
# lan.sh FOLDER IMAGE LAYER NAME=ADDRESS...: a network of nodes, in namespaces that this shell was given for it. It is
# the first process of its namespace, so that all of them end, and all that they mounted goes, when it ends.
set -eu
folder=$1 image=$2 layer=$3
shift 3
here=$(dirname "$0")
mkdir -p "$folder/image"
mount -o ro,loop,noload "$image" "$folder/image"
ip link set lo up
ip link add lan type bridge
ip address add 10.9.0.254/24 dev lan
ip link set lan up
exec 9< /proc/self/ns/net
for node in "$@"; do
  name=${node%=*}
  bash "$here/node.sh" "$folder" "$layer" "$name" "${node#*=}" > "$folder/$name/console.log" 2>&1 &
done
echo started
wait
