exec 2>&1
if ! flock -n -E 75 "$2" sh -c 'echo "$1" >"$2"; echo held; cat >/dev/null' sh "$1" "$2"; then
  cat "$2"
  exit 75
fi
