limit=$1 port=$2 device=$3 interface=$4
shift 4
PATH=/usr/sbin:/sbin:$PATH
listens() {
  case " $* " in
    *" -R "*) rdma resource show cm_id 2>/dev/null |
      grep -q " state LISTEN .* src-addr [^ ]*:$port *$" ;;
    *) ss -Hltn "sport = :$port" | grep -q . ;;
  esac
}
count() {
  if [ -z "$device" ]; then return; fi
  (
    cd "/sys/class/infiniband/$device/ports/1" 2>/dev/null || exit
    grep -s . counters/symbol_error counters/link_downed counters/port_rcv_errors \
      counters/port_xmit_discards hw_counters/out_of_sequence hw_counters/packet_seq_err \
      hw_counters/rnr_nak_retry_err hw_counters/local_ack_timeout_err \
      hw_counters/np_cnp_sent hw_counters/rp_cnp_handled \
      hw_counters/np_ecn_marked_roce_packets hw_counters/rx_icrc_encapsulated \
      hw_counters/roce_adp_retrans hw_counters/out_of_seq_request \
      hw_counters/rcvd_rnr_err hw_counters/retry_exceeded_err \
      hw_counters/completer_retry_err hw_counters/duplicate_request |
      sed 's|.*/||; s|:| |'
  )
  ethtool -S "$interface" 2>/dev/null |
    sed -n 's/^ *\([rt]x_prio[0-7]_pause\|[rt]x_discards_phy\|rx_out_of_buffer\): */\1 /p'
}
if [ "$port" != 0 ] && listens "$@"; then exit 98; fi
exec 3<&0
before=$(count)
timeout -k 2 "$limit" "$@" </dev/null 3<&- &
run=$!
{ cat <&3; kill -s TERM -- "-$run" || kill "$run"; } >/dev/null 2>&1 &
watch=$!
exec 3<&-
if [ "$port" != 0 ]; then
  until listens "$@"; do
    if ! kill -0 "$run" 2>/dev/null; then port=0 && break; fi
    sleep 0.05
  done
  if [ "$port" != 0 ]; then echo @listening >&2; fi
fi
wait "$run"
code=$?
kill "$watch" 2>/dev/null
if [ -n "$before" ]; then
  { echo "$before"; echo @; count; } |
    awk '$1 == "@" { now = 1; next } !now { was[$1] = $2; next }
         ($1 in was) && $2 > was[$1] { printf "@grew %s %.0f\n", $1, $2 - was[$1] }' >&2
fi
exit "$code"
