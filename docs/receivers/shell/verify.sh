#!/bin/sh
# Verifies X-Service-Signature with openssl. For scripts and for looking at single deliveries:
#
#   WEBHOOK_SECRET=whsec_… sh verify.sh body.json "$SIGNATURE" && echo genuine
#
# The secret comes from the environment; several are separated by spaces. It is never an argument of openssl, which others
# on this machine could see; so HMAC (RFC 2104) is put together here. Tolerance in seconds: WEBHOOK_TOLERANCE, 300 by
# default. Exits with 0 only when the delivery is genuine, with 1 when it is not, and with 2 when it cannot tell. The
# comparison is not in constant time: not for a public server. `aigw webhooks verify` does the same and says what is wrong.
set -euf

body=$1
header=${2-}
tolerance=${WEBHOOK_TOLERANCE:-300}
now=${WEBHOOK_NOW:-$(date +%s)}

times=''
count=0
given=''
rest="$header,"
while [ -n "$rest" ]; do
  part=${rest%%,*}
  rest=${rest#*,}
  case $part in
    t=*) times=${part#t=}; count=$((count + 1)) ;;
    v1=*) given="$given ${part#v1=}" ;;
  esac
done

is_number() {
  case $1 in
    '' | *[!0123456789]* | 0?*) return 1 ;;
  esac
  [ ${#1} -le 15 ]
}
is_signature() {
  case $1 in
    *[!0123456789abcdef]*) return 1 ;;
  esac
  [ ${#1} -eq 64 ]
}

cannot() { echo "verify.sh: $1" >&2; exit 2; }
is_number "$tolerance" || cannot 'WEBHOOK_TOLERANCE must be a whole number of seconds'
is_number "$now" || cannot 'WEBHOOK_NOW must be Unix seconds'
set -- ${WEBHOOK_SECRET-}
[ $# -gt 0 ] || cannot 'WEBHOOK_SECRET is not set'
[ -r "$body" ] || cannot "cannot read $body"

if [ "$count" -ne 1 ] || ! is_number "$times"; then exit 1; fi
age=$((now - times))
[ "$age" -le "$tolerance" ] && [ "$age" -ge "-$tolerance" ] || exit 1

digest() { openssl dgst -sha256 -r | cut -d ' ' -f 1; }
# 64 bytes: the key in hex, filled up with zeros, each byte combined with a constant; as escapes for printf %b.
pad() {
  left=$1 escapes='' n=0
  while [ "$n" -lt 64 ]; do
    byte=${left%"${left#??}"}
    left=${left#??}
    value=$((0x${byte:-0} ^ $2))
    escapes="$escapes\\0$((value / 64))$((value / 8 % 8))$((value % 8))"
    n=$((n + 1))
  done
  printf '%b' "$escapes"
}
hmac() {
  if [ ${#1} -gt 64 ]; then key=$(printf '%s' "$1" | digest); else key=$(printf '%s' "$1" | od -An -v -tx1 | tr -d ' \n'); fi
  { pad "$key" 0x5c; { pad "$key" 0x36; printf '%s.' "$times"; cat "$body"; } | openssl dgst -sha256 -binary; } | digest
}

for secret; do
  expected=$(hmac "$secret")
  for signature in $given; do
    if is_signature "$signature" && [ "$signature" = "$expected" ]; then exit 0; fi
  done
done
exit 1
