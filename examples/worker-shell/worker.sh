#!/usr/bin/env bash
# A worker with bash, curl and jq: leases one job after the other and runs a command on each.
#
#   worker.sh [--url URL] [--key-file FILE] [--queue QUEUE] [--worker NAME] COMMAND [ARGUMENT…]
#
# The command gets the payload on its standard input, and STINT_JOB_ID, STINT_KIND, STINT_ATTEMPT and STINT_LEASE_SECONDS. Exit code 0 is an
# ack, with its standard output as the result; anything else a nack, with the last line of its standard error as the message.
set -uo pipefail

url=http://127.0.0.1:8080 key_file=.stint/default-key queue=mail worker=$(hostname)-$$
while (($# > 0)); do
  case $1 in
    --url) url=$2 ;;
    --key-file) key_file=$2 ;;
    --queue) queue=$2 ;;
    --worker) worker=$2 ;;
    *) break ;;
  esac
  shift 2
done
if (($# == 0)) || [[ $1 == -* ]]; then
  echo "usage: $0 [--url URL] [--key-file FILE] [--queue QUEUE] [--worker NAME] COMMAND [ARGUMENT...]" >&2
  exit 2
fi

key=$(<"$key_file") || exit 1
umask 077
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
# In a file, since every user of the machine can read the arguments of curl.
echo "Authorization: Bearer $key" >"$dir/authorization"
worker_json=$(jq -n --arg worker "$worker" '$worker')
echo '{}' >"$dir/settle"

command= stopping=0
give_up=$((1 << 40)) # calls are tried again until SECONDS is this

stop() {
  stopping=1 give_up=$SECONDS
  [[ -z $command ]] || end_command
}
trap stop INT TERM

# The command and what it has started get 5 seconds to end.
end_command() {
  kill -TERM -- "-$command" 2>/dev/null
  for _ in {1..50}; do
    kill -0 -- "-$command" 2>/dev/null || return
    sleep 0.1
  done
  kill -KILL -- "-$command" 2>/dev/null
}

# post PATH FILES SECONDS <BODY, in a subshell: prints the status; the answer is in FILES.body. A signal does not end it: a job whose
# answer is not read stays leased.
post() {
  trap '' INT TERM
  exec curl --silent --max-time "$3" --header @"$dir/authorization" --header 'Content-Type: application/json' \
    --dump-header "$2.headers" --output "$2.body" --write-out '%{http_code}' --data-binary @- "$url$1"
}

# call PATH: posts $dir/request, again for as long as the service is away or says 429 or 5xx, and no longer than `give_up`.
call() {
  local failures=0 status asked most
  while :; do
    status=$(post "$1" "$dir/call" 15 <"$dir/request") || status=000
    asked=0
    case $status in
      2??) return 0 ;;
      000) ;;
      429 | 5??) asked=$(sed -n 's/^[Rr]etry-[Aa]fter: *\([0-9]\{1,4\}\)[^0-9]*$/\1/p' "$dir/call.headers") ;;
      *) echo "$1: $(<"$dir/call.body")" >&2 && exit 1 ;;
    esac
    most=$((failures < 6 ? 100 << failures : 5000))
    pause $((${asked:-0} * 1000 + most / 2 + RANDOM % (most / 2)))
    ((SECONDS < give_up)) || return 1
    failures=$((failures + 1))
  done
}

# pause MILLISECONDS: in small steps, since a signal waits for the one under way.
pause() {
  local left
  for ((left = $1; left > 0 && SECONDS < give_up; left -= 100)); do sleep 0.1; done
}

# Until the command is to end: the lease is lost (then $dir/lost is there), somebody asks to cancel the job, or the worker was killed.
heartbeats() {
  local token=$1 every=$2 status said
  while sleep "$every" && kill -0 $$ 2>/dev/null; do
    status=$(post /v1/leases/heartbeat "$dir/beat" "$every" <<<'{"items":[{"leaseToken":"'"$token"'"}]}') && [[ $status == 200 ]] || continue
    said=$(jq -r '.results[0] | if .cancelRequested then "CANCEL" else .outcome end' "$dir/beat.body")
    case $said in
      OK) continue ;;
      LEASE_LOST | NOT_FOUND) touch "$dir/lost" ;;
    esac
    break
  done
  end_command
}

# run TOKEN MILLISECONDS COMMAND…: leaves in $dir/settle how the job ended.
run() {
  local token=$1 every beats code
  printf -v every '%d.%03d' $(($2 / 3000)) $(($2 / 3 % 1000))
  shift 2
  rm -f "$dir/code" "$dir/lost"
  set -m # in groups of their own, so that a Ctrl-C does not reach them, and a signal of ours reaches all they have started
  (
    trap : INT TERM # stays to tell how the command ended
    "$@" <"$dir/payload" >"$dir/out" 2>"$dir/err"
    echo $? >"$dir/code"
  ) &
  command=$!
  heartbeats "$token" "$every" &
  beats=$!
  set +m
  ((!stopping)) || end_command
  while kill -0 "$command" 2>/dev/null; do wait "$command" 2>/dev/null; done
  command=
  kill -KILL -- "-$beats" 2>/dev/null
  wait "$beats" 2>/dev/null
  code=137 # of a command that was killed
  [[ ! -s $dir/code ]] || code=$(<"$dir/code")
  if ((code == 0)); then
    # A result of more than 64 KiB is not kept.
    jq -cn --arg token "$token" --rawfile out <(head -c 65537 "$dir/out") \
      '{acks: [{leaseToken: $token} + if $out == "" then {} else {result: (try ($out | fromjson) catch ($out | rtrimstr("\n")))} end]}'
  elif [[ -e $dir/lost ]]; then
    echo '{}'
  elif ((stopping)); then
    echo '{"releases":[{"leaseToken":"'"$token"'"}]}'
  else
    local message
    message=$(tail -n 1 "$dir/err" | head -c 4096)
    jq -cn --arg token "$token" --arg message "${message:-exit code $code}" --arg type "exit-$code" \
      '{nacks: [{leaseToken: $token, error: {$message, $type}}]}'
  fi >"$dir/settle"
  echo "$STINT_JOB_ID attempt $STINT_ATTEMPT: exit code $code"
}

# The rest of the answer is the payload, empty when there is none; in base64 when it is not JSON.
LEASED='.jobs[0] // empty | .leaseToken, (.visibilityTimeout | rtrimstr("s") | tonumber * 1000 | floor), .id, .kind // "", .attempt,
  has("payloadBase64"), if has("payload") then (.payload | tojson) else .payloadBase64 // empty end'

# How the last job ended rides in the request for the next. It waits for 2 seconds only, since a stop waits for it.
while ((!stopping)); do
  printf '{"wait":"2s","worker":%s,"settle":%s}' "$worker_json" "$(<"$dir/settle")" >"$dir/request"
  call "/v1/queues/$queue/lease" || break
  echo '{}' >"$dir/settle"
  {
    read -r token && read -r milliseconds && read -r STINT_JOB_ID && read -r STINT_KIND && read -r STINT_ATTEMPT && read -r encoded || continue
    if [[ $encoded == true ]]; then base64 -d; else cat; fi >"$dir/payload"
  } < <(jq -r "$LEASED" "$dir/call.body")
  STINT_LEASE_SECONDS=$((milliseconds / 1000))
  export STINT_JOB_ID STINT_KIND STINT_ATTEMPT STINT_LEASE_SECONDS
  if ((stopping)); then
    echo '{"releases":[{"leaseToken":"'"$token"'"}]}' >"$dir/settle"
  else
    run "$token" "$milliseconds" "$@"
  fi
done

give_up=$((SECONDS + 5))
mv "$dir/settle" "$dir/request"
[[ $(<"$dir/request") == '{}' ]] || call /v1/leases/settle || echo 'could not settle a lease, it will run out' >&2
exit 0
