
limit=$1 slots=$2 running=0
shift 2
while read -r host rest; do
  [ -n "$host" ] || continue
  {
    timeout -k 5 "$limit" mpirun --host "$host:$slots" "$@" </dev/null
    echo "exit $?"
  } 2>&1 | sed -e '/NCCL INFO/{/ via SHM\//!d;}' -e "s/^/[$host] /" &
  running=$((running + 1))
  if [ $((running % 16)) = 0 ]; then wait; fi
done </etc/mpi/hostfile
wait
