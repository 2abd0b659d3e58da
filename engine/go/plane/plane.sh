#!/bin/sh
# The commands of the built `plane` with the official programs beside this file.
set -eu
programs=$(dirname "$(readlink -f "$0")")
name=$1
shift
if [ "$name" != etcd ]; then
  exec "$programs/kube-$name" "$@"
fi
# as in etcd.go: one member, its peer address on a free port, and no sync to disk
for flag in "$@"; do
  case $flag in
    --data-dir=*) data=${flag#*=} ;;
    --listen=*) clients=${flag#*=} ;;
    *) echo "plane etcd: unknown flag $flag" >&2 && exit 2 ;;
  esac
done
peers=http://127.0.0.1:0
exec "$programs/etcd" --unsafe-no-fsync --data-dir="$data" \
  --listen-client-urls="$clients" --advertise-client-urls="$clients" \
  --listen-peer-urls="$peers" --initial-advertise-peer-urls="$peers" --initial-cluster="default=$peers"
