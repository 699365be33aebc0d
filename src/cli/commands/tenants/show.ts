import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { showItem } from '../../resources/resolve.ts'
import { TENANTS } from '../../resources/resources.ts'
import { TENANT_ARGUMENT, TENANT_VIEW } from './view.ts'

export function showCommand(context: CliContext, run = showTenant): Command {
  return new Command('show')
    .description('Show a tenant. Needs the operator key.')
    .argument('<tenant>', TENANT_ARGUMENT)
    .action((tenant: string) => run(context, { tenant }))
}

/** GET /api/admin/tenants/{id}. */
export const showTenant = (context: CliContext, { tenant }: { tenant: string }): Promise<void> =>
  showItem(context, { resource: TENANTS, given: tenant, view: TENANT_VIEW })
