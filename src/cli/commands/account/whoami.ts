import { Command } from 'commander'
import type { z } from 'zod'
import type { WhoamiResponse } from '../../../shared/wire/system.ts'
import type { CliContext } from '../../context.ts'
import { columns, findAtPath } from '../../output/formats.ts'

export type Whoami = z.infer<typeof WhoamiResponse>

/** An empty list means "unrestricted". Null means "unlimited". A gateway of an earlier version sends neither. */
const orAny = (value: unknown): unknown => (Array.isArray(value) && value.length === 0 ? 'any' : value)
const orNone = (value: unknown): unknown => (value === null ? 'none' : value)

/** Formats the sections of the administration: `analytics=reader,webhooks=admin`. */
const toRights = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map((entry) => `${findAtPath(entry, 'section')}=${findAtPath(entry, 'level')}`).join(',') || 'none'
    : value

export const WHOAMI_VIEW = {
  columns: columns(
    { USER: 'user.name', EMAIL: 'user.email', ROLE: 'user.role', TENANT: 'tenant.name', KEY: 'api_key.name' },
    { OPERATOR: 'api_key.operator', RIGHTS: ['permissions', toRights], CHAT: 'canUseChat' },
    { MODELS: ['api_key.allowedModels', orAny], INDEXES: ['api_key.allowedIndexes', orAny] },
    { 'INDEX ACCESS': 'api_key.indexAccess', POLICIES: ['api_key.allowedSMLTPPolicies', orAny] },
    { 'PER MINUTE': ['api_key.rateLimit.requestsPerMinute', orNone] },
    { 'PER HOUR': ['api_key.rateLimit.requestsPerHour', orNone] },
    { 'PER DAY': ['api_key.dailyLimit', orNone], 'PER MONTH': ['api_key.monthlyLimit', orNone] },
    { EXPIRES: ['api_key.expiresAt', (value) => (value === null ? 'never' : value)] },
  ),
  idPath: 'user.id',
  members: ['user', 'tenant', 'api_key', 'permissions', 'canInteractWithAI', 'canUseChat'],
}

/** Returns the resource without the `success` field of the response. */
export const toWhoami = ({ success: _, ...whoami }: Whoami) => whoami

export function toCommand(context: CliContext): Command {
  return new Command('whoami')
    .description('Show the user, tenant and key of requests, and the rights and limits of the key.')
    .action(() => showWhoami(context))
}

/** GET /whoami. */
async function showWhoami(context: CliContext): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { body, raw } = await api.send<Whoami>({ method: 'GET', path: 'whoami' })
  await output.one(toWhoami(body), WHOAMI_VIEW, raw)
}
