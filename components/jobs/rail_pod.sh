
sys=$1 dev=$2 proc=$3 peers=$4
shift 4
say() { echo "rocelab $*"; }
number=0
for rail; do
  number=$((number + 1))
  name=net$number net=$sys/class/net/net$number
  if [ ! -e "$net" ]; then say "no-interface $rail $name" && continue; fi
  say "interface $rail $name $(cat "$net/mtu")"
  if [ -e "$net/device" ]; then place=$(readlink -f "$net/device") && say "slot $rail ${place##*/}"; fi
  for device in "$sys"/class/infiniband/*; do
    for type in $(grep -slx "RoCE v2" "$device"/ports/1/gid_attrs/types/*); do
      if grep -sqx "$name" "$device/ports/1/gid_attrs/ndevs/${type##*/}"; then
        place=$(readlink -f "$device/device")
        say "gid $rail ${device##*/} ${place##*/} $(cat "$device/ports/1/gids/${type##*/}")"
        for verbs in "$device"/device/infiniband_verbs/*; do
          if [ -e "$dev/infiniband/${verbs##*/}" ]; then say "verbs $rail ${device##*/}"; fi
        done
      fi
    done
  done
  while read -r address _ _ scope _ owner; do
    if [ "$owner $scope" = "$name 20" ]; then say "link $rail $address"; fi
  done <"$proc/net/if_inet6"
done 2>/dev/null
# a file that the shell opens for another program is empty: it belongs to the process before that program
cat "$proc/self/environ" | tr '\0' '\n' | grep -v '^[^=]*_INFO=' | sed -n 's/^PCIDEVICE_\([^=]*\)=/rocelab given \1 /p'
if [ -e "$dev/infiniband/rdma_cm" ]; then say rdma_cm; fi
if ! command -v ping >/dev/null; then say no-ping; fi
say reported
until [ -s "$peers" ]; do sleep 0.5; done
running=0
while read -r kind rail name peer other address size source; do
  {
    answer=none
    if [ "$kind" = reach ]; then
      if ping -q -n -c 3 -i 0.2 -W 2 -M do -s "$size" -I "$source" "$address" >/dev/null 2>&1; then
        answer=large
      elif ping -q -n -c 3 -i 0.2 -W 2 -I "$source" "$address" >/dev/null 2>&1; then
        answer=small
      fi
    elif ping -6 -q -n -c 3 -i 0.2 -W 1 "$address%$name" >/dev/null 2>&1; then
      answer=small
    fi
    say "$kind $rail $peer $other $answer"
  } &
  running=$((running + 1))
  if [ "$running" -ge 16 ]; then wait && running=0; fi
done <"$peers"
wait
say done
exec sleep "$LIMIT"
