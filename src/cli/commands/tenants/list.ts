import { Command, Option } from 'commander'
import type { Tenant } from '../../../shared/wire/tenants.ts'
import type { CliContext } from '../../context.ts'
import { addListOptions, type ListFlags, type ListInput, listAll, toListInput } from '../../resources/listing.ts'
import { TENANTS } from '../../resources/resources.ts'
import { STATUS_CHOICES, TENANT_VIEW } from './view.ts'

export type ListTenantsInput = ListInput & { status?: string }

export function listCommand(context: CliContext, run = listTenants): Command {
  const command = new Command('list')
    .description('List tenants. Needs the operator key.')
    .addOption(new Option('--status <status>', 'only these').choices(STATUS_CHOICES))
  return addListOptions(command, 'their name').action((flags: ListFlags & { status?: string }) =>
    run(context, { ...flags, ...toListInput(flags) }),
  )
}

/** GET /api/admin/tenants, page by page. */
export const listTenants = (context: CliContext, { search, status, limit, all }: ListTenantsInput): Promise<void> =>
  listAll<Tenant>(context, { ...TENANTS, query: { search, status }, limit, all, view: TENANT_VIEW })
