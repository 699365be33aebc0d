#!/bin/sh
# Provisions a tenant: its administrator, a role, users, a group, a knowledge base and a narrow key. Prints the id of each.
# It may run any number of times: what is there already stays as it is, and the ids are the same.
#
#   AIGW_BASE_URL=https://ai.example.com AIGW_API_KEY_FILE=operator.key sh provision.sh DIRECTORY
#
# DIRECTORY is where the secrets are kept, since each is shown only once. When a file there is lost, the script ends with
# exit code 6 and the command that makes a new one.
set -eu

keys=$1
mkdir -p "$keys"

once() {
  aigw "$@" --if-not-exists -o id
}

tenant=$(once tenants create acme \
  --admin-name 'Ada Lovelace' --admin-email ada@acme.example --save-to "$keys/acme.key")

# From here on as the tenant's own administrator.
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
