#!/bin/sh
# Provisions a tenant: its administrator, a role, users, a group, a knowledge base and a narrow key. Prints the id of
# each. The script is idempotent: existing resources stay unchanged and keep their ids.
#
#   AIGW_BASE_URL=https://ai.example.com AIGW_API_KEY_FILE=operator.key sh provision.sh DIRECTORY
#
# DIRECTORY stores the secrets, because each is shown only once. If a file is lost, the script exits with code 6 and
# prints the command that creates a new secret.
set -eu

keys=$1
mkdir -p "$keys"

once() {
  aigw "$@" --if-not-exists -o id
}

tenant=$(once tenants create acme \
  --admin-name 'Ada Lovelace' --admin-email ada@acme.example --save-to "$keys/acme.key")

# The following commands use the key of the tenant's administrator.
as_admin() {
  once --api-key-file "$keys/acme.key" "$@"
}

role=$(as_admin roles create auditor --display-name Auditor --description 'Reads along' \
  --admin-panel --permission analytics=reader)

ben=$(as_admin users create 'Ben Franklin' --email ben@acme.example --license Growth --custom-role auditor)
cyd=$(as_admin users create "Cyd O'Hara" --email cyd@acme.example)

group=$(as_admin groups create support --description 'Tier 1')
aigw --api-key-file "$keys/acme.key" groups members add support ben@acme.example "Cyd O'Hara" --quiet >/dev/null

index=$(as_admin indexes create handbook --description 'How we work')

key=$(as_admin keys create --name 'support desk' --user ben@acme.example --save-to "$keys/support-desk.key" \
  --model 'local/*' --index handbook --policy public --default-policy public --daily 20 --rpm 20)

printf '%s\t%s\n' tenant "$tenant" role "$role" ben "$ben" cyd "$cyd" group "$group" index "$index" key "$key"
