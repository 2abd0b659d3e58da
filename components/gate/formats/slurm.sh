#!/bin/sh
# The gate of this node for Slurm: HealthCheckProgram in slurm.conf, or a line of its script.
# Exit code 0: open, 1: closed, 4: unknown. As HealthCheckProgram Slurm ignores it, and nothing is
# drained; a Prolog that fails drains the node. With DRAIN=yes this script drains a closed node.
DRAIN=no
node=${SLURMD_NODENAME:-$(hostname -s)}
result=@FOLDER@/$node
if [ -n "$(find "$result" -mmin -@MINUTES@ 2>/dev/null)" ]; then
    line=$(head -n 1 "$result")
else
    line="unknown: $result is missing, or older than @MINUTES@ minutes"
fi
case $line in
open*) exit 0 ;;
closed*) code=1 ;;
*) code=4 ;;
esac
echo "$line"
logger -t rocelab-gate -- "$line" 2>/dev/null
if [ "$DRAIN" = yes ] && [ "$code" = 1 ]; then
    scontrol update nodename="$node" state=drain reason="rocelab: $line"
fi
exit "$code"
