found=""; index="";
for each in @interfaces@; do
  for device in "$each"/device/infiniband/*; do
    [ -e "$device" ] || continue;
    found="$found${found:+,}${device##*/}"; own=none;
    for type in $(grep -slx "RoCE v2" "$device"/ports/1/gid_attrs/types/*); do
      number="${type##*/}";
      grep -sqx "${each##*/}" "$device/ports/1/gid_attrs/ndevs/$number" &&
        grep -sq "^0000:0000:0000:0000:0000:ffff:" "$device/ports/1/gids/$number" &&
        own="$number" && break;
    done;
    [ "${index:-$own}" = "$own" ] && index="$own" || index=none;
  done;
done;
[ -n "$found" ] || found="@shared@";
[ -z "$found" ] || export NCCL_IB_HCA="=$found";
[ "${index:-none}" = none ] || export NCCL_IB_GID_INDEX="$index";
exec "$@"
