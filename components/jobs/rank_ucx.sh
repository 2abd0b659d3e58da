found="";
for each in @interfaces@; do
  for device in "$each"/device/infiniband/*; do
    [ -e "$device" ] && found="$found${found:+,}${device##*/}:1";
  done;
done;
found="${found:-@shared@}";
[ -n "$found" ] || { echo "no RDMA device below @interfaces@" >&2; exit 1; };
export UCX_NET_DEVICES="$found";
exec "$@"
