import { type Command, Option } from 'commander'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { toId } from '../../resources/resolve.ts'
import { KEYS } from '../keys/resource.ts'
import { USERS } from '../users/resource.ts'

const SEVERITIES = ['info', 'warning', 'error', 'critical']
const OUTCOMES = ['success', 'denied', 'failure']

export type FilterFlags = {
  event?: string
  status?: string
  outcome?: string
  severity?: string
  model?: string
  key?: string
  user?: string
  operation?: string
  search?: string | undefined
}

/** Which entries; `list` and `tail` take the same. */
export const addFilterOptions = (command: Command): Command =>
  command
    .option('-e, --event <type>', 'only these: api_access, user_management, key_management …')
    .option('--status <status>', 'only requests that were answered so: 404, 4xx')
    .addOption(new Option('--outcome <outcome>', 'only these').choices(OUTCOMES))
    .addOption(new Option('--severity <severity>', 'only these').choices(SEVERITIES))
    .option('-m, --model <model>', 'only requests that this model served')
    .option('--key <key>', 'only those of this API key: id, or name if only one has it')
    .option('--user <user>', 'only those of this user: id, name, username or email')
    .option('--operation <operation>', 'only these: chat.completion, create, revoke …')
    .option('--search <text>', 'only those with this in description, operation or endpoint')

/** The flags as the gateway takes them. Throws a usage error for a status that is none, exit 3 for a key or user that does not exist. */
export async function toQuery(context: CliContext, flags: FilterFlags) {
  const { event: type, status, outcome, severity, model, key, user, operation, search } = flags
  if (status !== undefined && !/^[1-5](\d\d|xx)$/i.test(status)) {
    throw usageError(`--status must be a status, not '${status}'`, ['Write 404, 4xx or 5xx.'])
  }
  return {
    type,
    status: status?.toLowerCase(),
    outcome,
    severity,
    model,
    operation,
    search,
    apiKeyId: key === undefined ? undefined : await toId(context, KEYS, key),
    userId: user === undefined ? undefined : await toId(context, USERS, user),
  }
}
