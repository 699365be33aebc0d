import { Command } from 'commander'
import type { Tenant } from '../../../shared/wire/tenants.ts'
import type { CliContext } from '../../context.ts'
import { TENANTS } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { TENANT_ARGUMENT, TENANT_VIEW } from './view.ts'

type SetStatusInput = { tenant: string; status: Tenant['status'] }

export function disableCommand(context: CliContext, run = setTenantStatus): Command {
  return new Command('disable')
    .description('Disable a tenant: none of its keys is accepted any more. Nothing is lost. Needs the operator key.')
    .argument('<tenant>', TENANT_ARGUMENT)
    .action((tenant: string) => run(context, { tenant, status: 'Disabled' }))
}

export function enableCommand(context: CliContext, run = setTenantStatus): Command {
  return new Command('enable')
    .description('Enable a tenant again; its keys are accepted as before. Needs the operator key.')
    .argument('<tenant>', TENANT_ARGUMENT)
    .action((tenant: string) => run(context, { tenant, status: 'Active' }))
}

/** PUT /api/admin/tenants/{id}; a tenant that is in that state already stays in it. */
export async function setTenantStatus(context: CliContext, { tenant, status }: SetStatusInput): Promise<void> {
  await update(context, { resource: TENANTS, given: tenant, changes: { status }, view: TENANT_VIEW })
}
