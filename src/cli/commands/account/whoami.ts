import { Command } from 'commander'
import type { z } from 'zod'
import type { WhoamiResponse } from '../../../shared/wire/system.ts'
import type { CliContext } from '../../context.ts'
import { columns } from '../../output/formats.ts'

export type Whoami = z.infer<typeof WhoamiResponse>

export const WHOAMI_VIEW = {
  columns: columns(
    { USER: 'user.name', EMAIL: 'user.email', ROLE: 'user.role', TENANT: 'tenant.name', KEY: 'api_key.name' },
    { OPERATOR: 'api_key.operator' },
  ),
  idPath: 'user.id',
  members: ['user', 'tenant', 'api_key'],
}

/** Returns the resource without the `success` field of the response. */
export const toWhoami = ({ user, tenant, api_key }: Whoami) => ({ user, tenant, api_key })

export function toCommand(context: CliContext): Command {
  return new Command('whoami')
    .description('Show the user, tenant and key of requests.')
    .action(() => showWhoami(context))
}

/** GET /whoami. */
async function showWhoami(context: CliContext): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { body, raw } = await api.send<Whoami>({ method: 'GET', path: 'whoami' })
  await output.one(toWhoami(body), WHOAMI_VIEW, raw)
}
