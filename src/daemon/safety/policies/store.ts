// SQL queries for SMLTP policies.
import { GatewayError } from '../../../shared/errors.ts'
import { KeySettings } from '../../../shared/wire/keys.ts'
import { PolicyDocument } from '../../../shared/wire/policies.ts'
import type { Db } from '../../platform/db/db.ts'
import { contains } from '../../platform/db/list-page.ts'
import type { Tables } from '../../platform/db/tables.ts'
import { findBuiltIn } from './built-in.ts'
import { type NamedPolicy, policyHash } from './policies.ts'

export type PolicyRow = Tables['smltp_policies']
type Activation = Pick<Tables['smltp_active_policies'], 'policy_id' | 'activated_at'>

export const findPolicyRow = (db: Db, tenantId: string, id: string): Promise<PolicyRow | undefined> =>
  db.selectFrom('smltp_policies').selectAll().where('tenant_id', '=', tenantId).where('id', '=', id).executeTakeFirst()

/** Returns all policies that a tenant created, ordered by id. */
export async function listPolicies(db: Db, tenantId: string): Promise<NamedPolicy[]> {
  const rows = await db
    .selectFrom('smltp_policies')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .orderBy('id')
    .execute()
  return rows.map(toNamedPolicy)
}

export function toNamedPolicy(row: PolicyRow): NamedPolicy {
  const document = PolicyDocument.parse(JSON.parse(row.document))
  const { id, name, description, created_at: createdAt, updated_at: updatedAt } = row
  return { id, name, description, type: 'custom', document, hash: policyHash(document), createdAt, updatedAt }
}

/** Returns the ids of the policies that a tenant created. */
async function findPolicyIds(db: Db, tenantId: string): Promise<string[]> {
  const rows = await db.selectFrom('smltp_policies').select('id').where('tenant_id', '=', tenantId).execute()
  return rows.map(({ id }) => id)
}

/** Returns a function that tests whether an id is a policy of this tenant, custom or built-in. */
export async function knownPolicies(db: Db, tenantId: string): Promise<(policyId: string) => boolean> {
  const own = new Set(await findPolicyIds(db, tenantId))
  return (id) => own.has(id) || findBuiltIn(id) !== undefined
}

/**
 * Inserts a policy. The primary key rejects a duplicate name, even if two policies are inserted concurrently.
 * @throws POLICY_NAME_EXISTS
 */
export async function insertPolicy(tx: Db, row: PolicyRow): Promise<void> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('smltp_policies')
    .values(row)
    .onConflict((conflict) => conflict.columns(['tenant_id', 'id']).doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 0n) throw nameExists(row)
}

export const nameExists = ({ id, name }: Pick<PolicyRow, 'id' | 'name'>) =>
  new GatewayError('POLICY_NAME_EXISTS', `A policy with the id "${id}" already exists. Choose another name.`, {
    details: { field: 'name', value: name },
  })

export async function updatePolicy(tx: Db, { tenant_id, id, ...columns }: PolicyRow): Promise<void> {
  await tx.updateTable('smltp_policies').set(columns).where('tenant_id', '=', tenant_id).where('id', '=', id).execute()
}

export async function deletePolicy(tx: Db, tenantId: string, id: string): Promise<void> {
  await tx.deleteFrom('smltp_policies').where('tenant_id', '=', tenantId).where('id', '=', id).execute()
}

/**
 * Returns a tenant's active policy and its activation time. Returns undefined if the tenant has not activated a policy.
 */
export const findActivation = (db: Db, tenantId: string): Promise<Activation | undefined> =>
  db
    .selectFrom('smltp_active_policies')
    .select(['policy_id', 'activated_at'])
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst()

export async function setActivation(tx: Db, tenantId: string, activation: Activation): Promise<void> {
  await tx
    .insertInto('smltp_active_policies')
    .values({ tenant_id: tenantId, ...activation })
    .onConflict((conflict) => conflict.column('tenant_id').doUpdateSet(activation))
    .execute()
}

const NamedByKey = KeySettings.pick({ allowedSMLTPPolicies: true, defaultSMLTPPolicy: true })

/**
 * Returns the names of all unrevoked keys that have this policy in their list of allowed policies or as their default.
 */
export async function findKeysNaming(db: Db, tenantId: string, policyId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('api_keys')
    .select(['name', 'settings'])
    .where('tenant_id', '=', tenantId)
    .where('revoked_at', 'is', null)
    .where(contains('settings', JSON.stringify(policyId)))
    .orderBy('created_at')
    .execute()
  return rows
    .filter(({ settings }) => {
      const { allowedSMLTPPolicies, defaultSMLTPPolicy } = NamedByKey.parse(JSON.parse(settings))
      return defaultSMLTPPolicy === policyId || allowedSMLTPPolicies.includes(policyId)
    })
    .map(({ name }) => name)
}

/** Returns the creation time of a tenant, in ISO 8601. */
export async function tenantCreatedAt(db: Db, tenantId: string): Promise<string> {
  const { created_at } = await db
    .selectFrom('tenants')
    .select('created_at')
    .where('id', '=', tenantId)
    .executeTakeFirstOrThrow()
  return created_at
}
