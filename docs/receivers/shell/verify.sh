#!/bin/sh
# Verifies X-Service-Signature with openssl. Use it in scripts and to check individual deliveries:
#
#   WEBHOOK_SECRET=whsec_… sh verify.sh body.json "$SIGNATURE" && echo genuine
#
# WEBHOOK_SECRET contains one or more secrets, separated by spaces. WEBHOOK_TOLERANCE is in seconds, 300 by default.
# Other users of the machine can see the arguments of openssl. The script therefore computes the HMAC (RFC 2104) and
# never passes the secret as an argument.
# Exits with 0 if signature and time are valid, with 1 if not, and with 2 if an input is missing or malformed.
# Do not use this script on a public server, because it does not compare in constant time.
# `aigw webhooks verify` performs the same check and reports the cause of a failure.
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
# Prints 64 bytes: the key ($1, in hex) padded with zeros, each byte XORed with $2. printf decodes the octal escapes.
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
