#!/bin/sh
# Creates the secrets of compose.yaml in deploy/compose/secrets. Existing files are kept.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
# The containers run as other users. The directory is closed to them, but the mounted files must be readable.
keep() { [ -e "secrets/$1" ] || { printf '%s' "$2" > "secrets/$1" && chmod 0444 "secrets/$1"; }; }
keep operator-key "sk-$(openssl rand -hex 32)"
keep master-key "$(openssl rand -hex 32)"
keep postgres-password "$(openssl rand -hex 24)"
keep grafana-password "$(openssl rand -hex 12)"
keep database-url "postgres://aigw:$(cat secrets/postgres-password)@postgres:5432/aigw"
