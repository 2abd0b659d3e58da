running=0
while [ $# -gt 0 ]; do
  {
    found=none
    for wait in 1 5; do
      if ping -q -n -c 2 -i 0.2 -W $wait -M do -s "$3" -I "$1" "$2" >/dev/null 2>&1; then
        found=large
      elif ping -q -n -c 2 -i 0.2 -W $wait -I "$1" "$2" >/dev/null 2>&1; then
        found=small
      fi
      [ $found = none ] || break
    done
    echo "reached $1 $2 $found"
  } &
  shift 3
  running=$((running + 1))
  if [ "$running" -ge 64 ]; then wait && running=0; fi
done
wait
