import { hash } from 'node:crypto'
import type { z } from 'zod'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { type ExportedChain, exportOrigin, exportRoot } from '../../../shared/evidence/export-root.ts'
import { statementText } from '../../../shared/evidence/export-statement.ts'
import type { PublishedKey } from '../../../shared/evidence/keys.ts'
import { checkpointText, signedNote } from '../../../shared/evidence/note.ts'
import { isoTime } from '../../../shared/time.ts'
import { StructuredError } from '../../../shared/wire/common.ts'
import {
  CheckpointsResponse,
  MakeCheckpointsRequest,
  RotateSigningKeyResponse,
  SignExportRequest,
  SignExportResponse,
} from '../../../shared/wire/evidence.ts'
import type { Db } from '../../platform/db/db.ts'
import type { FreshCache } from '../../platform/db/fresh-cache.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import { type ChangeDeps, change } from '../audit/change.ts'
import { toShownCheckpoint } from './checkpoint-list.ts'
import type { Checkpoints } from './checkpoints.ts'
import { stateExport } from './export-statement.ts'
import { acknowledgedChains } from './losses.ts'
import { rootOfChain } from './proofs.ts'
import type { SigningKeys } from './signing-keys.ts'
import { listChains, measureChains, readChain, type StoredChain } from './store.ts'

/** The maximum size of a request body. It is large enough for an export of EVIDENCE_PAGE chains. */
const SIGN_EXPORT_BODY_BYTES = 524_288
/** The maximum duration of an export of the log. Entries that are older than this duration must be in the export. */
export const EVIDENCE_EXPORT_MS = 3_600_000

export type SigningRouteDeps = ChangeDeps & {
  signingKeys: SigningKeys
  checkpoints: Pick<Checkpoints, 'make'>
  /** The cache of the published keys. */
  keySet: Pick<FreshCache<PublishedKey[]>, 'forget'>
}

/** Defines the routes that sign on request or rotate the signing key. Each call creates a log entry. */
export function signingRoutes(deps: SigningRouteDeps): Route[] {
  const { db, signingKeys, checkpoints, keySet } = deps
  const common: Pick<Route, 'method' | 'errors' | 'tags'> = {
    method: 'POST',
    errors: 'structured',
    tags: ['Transparency'],
  }
  return [
    route({
      ...common,
      access: 'smltp-security',
      path: '/api/external/transparency/checkpoints',
      summary: 'Create and publish checkpoints of the log now',
      body: MakeCheckpointsRequest,
      responses: {
        200: {
          description: 'The new checkpoints; for a chain without new entries, its last checkpoint',
          schema: CheckpointsResponse,
        },
        404: { description: 'No chain of this tenant has this name', schema: StructuredError },
        409: {
          description: 'A chain does not match its last checkpoint and got no new one; the other chains did',
          schema: StructuredError,
        },
      },
      async handle(context) {
        const { tenantId } = context.caller
        const { chain } = context.body
        const chains = (await measureChains(db, tenantId)).map((measured) => measured.chain)
        // A closed chain gets no checkpoint. Once its loss is acknowledged, this is no longer an error.
        const closed = await acknowledgedChains(db, tenantId)
        const asked = chains.filter((name) => (chain === undefined ? !closed.has(name) : name === chain))
        if (chain !== undefined && asked.length === 0) {
          throw new GatewayError('CHAIN_NOT_FOUND', 'No chain of this tenant has this name.')
        }
        await change(deps, context, ({ record }) =>
          record({
            type: 'evidence_management',
            operation: 'checkpoint',
            resourceType: 'evidence_log',
            resourceId: tenantId,
            description: `requested checkpoints of ${chain === undefined ? 'all chains' : `the chain "${chain}"`}`,
          }),
        )
        const made = await checkpoints.make(tenantId, chain)
        const refused = asked.filter((name) => !made.some((checkpoint) => checkpoint.chain === name))
        if (refused.length > 0) throw damaged(refused)
        return reply(200, { checkpoints: made.map(toShownCheckpoint) } satisfies z.input<typeof CheckpointsResponse>)
      },
    }),
    route({
      ...common,
      access: 'smltp-security',
      path: '/api/external/transparency/exports/sign',
      summary: 'Sign an export that contains the complete log of the tenant, with the counts of the store',
      body: SignExportRequest,
      bodyLimit: SIGN_EXPORT_BODY_BYTES,
      responses: {
        200: { description: 'The signature', schema: SignExportResponse },
        409: { description: 'The export does not match the log, or lacks entries', schema: StructuredError },
      },
      async handle(context) {
        const { chains, manifest_sha256: manifest, row_count: rowCount } = context.body
        const rows = chains.reduce((sum, { size }) => sum + size, 0)
        if (rows !== rowCount)
          throw invalidField(
            'row_count',
            `row_count must be ${rows}, the total number of rows in the chains.`,
            rowCount,
          )
        const { tenantId } = context.caller
        for (const exported of chains) await requireOwned(db, tenantId, exported)
        const now = deps.clock.now()
        const stored = await listChains(db, tenantId)
        await requireWhole(db, { tenantId, stored, exported: chains, now })
        const statement = statementText(await stateExport(db, tenantId, { stored, exported: chains, manifest, now }))
        await change(deps, context, ({ record }) =>
          record({
            type: 'evidence_management',
            operation: 'export',
            resourceType: 'evidence_export',
            resourceId: manifest,
            description: `exported the log, ${rows} entries`,
            metadata: { chains: chains.length, rows },
          }),
        )
        const signer = await signingKeys.current()
        const origin = exportOrigin(signer.name, hash('sha256', statement, 'hex'))
        const text = checkpointText({ origin, size: rows, root: exportRoot(chains).toString('base64') })
        const signature = signer.sign(text)
        return reply(200, {
          kid: signer.kid,
          name: signer.name,
          origin,
          statement,
          note: signedNote(text, signer.name, signer.publicKey, signature),
          signature: signature.toString('base64'),
        } satisfies z.input<typeof SignExportResponse>)
      },
    }),
    route({
      ...common,
      access: 'operator',
      path: '/api/external/transparency/keys/rotate',
      summary: 'Rotate the signing key of evidence; existing signatures remain verifiable',
      responses: { 200: { description: 'The new key', schema: RotateSigningKeyResponse } },
      async handle(context) {
        try {
          const key = await change(deps, context, async ({ tx, record }) => {
            const made = await signingKeys.rotate(tx)
            await record({
              type: 'evidence_management',
              operation: 'rotate',
              resourceType: 'signing_key',
              resourceId: made.kid,
              description: `rotated the signing key of evidence; the new key is ${made.kid}`,
            })
            return made
          })
          return reply(200, {
            success: true,
            message: 'Signing key rotated',
            key: { kid: key.kid, name: key.name, created_at: key.createdAt },
          } satisfies z.input<typeof RotateSigningKeyResponse>)
        } finally {
          // The cached key is also invalidated after a failure, because the COMMIT may have succeeded.
          signingKeys.forget()
          keySet.forget()
        }
      },
    }),
  ]
}

const damaged = (chains: readonly string[]) =>
  new GatewayError(
    'EVIDENCE_MISMATCH',
    `Signed entries of ${chains.join(', ')} are missing from the store or were changed. See GET /transparency/chain-integrity.`,
  )

/** @throws EVIDENCE_MISMATCH unless the first entries of the stored chain equal the exported entries */
async function requireOwned(db: Db, tenantId: string, { chain, size, head, root }: ExportedChain): Promise<void> {
  const [last] = await readChain(db, tenantId, chain, { from: size - 1, limit: 1 })
  const isHead = last?.seq === size - 1 && last.entry_hash === head
  if (isHead && (await rootIn(db, tenantId, chain, size)) === root) return
  throw new GatewayError(
    'EVIDENCE_MISMATCH',
    `The export does not match the first entries of the chain "${chain}" of this tenant.`,
  )
}

/** Returns the root over the first `size` entries of the chain, in hex. Returns undefined if entries are missing. */
async function rootIn(db: Db, tenantId: string, chain: string, size: number): Promise<string | undefined> {
  try {
    return (await rootOfChain(db, tenantId, chain, size)).toString('hex')
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/**
 * Checks that an export is complete before it is signed. An export lacks entries that were written while it ran.
 * Entries of the last EVIDENCE_EXPORT_MS may therefore be missing. A log whose loss an operator has acknowledged may be
 * left out, because its entries may no longer be verifiable.
 * @throws EVIDENCE_MISMATCH with the name of the chain, if the export lacks older entries, or if the store lacks
 * entries that a checkpoint covers
 */
async function requireWhole(
  db: Db,
  {
    tenantId,
    stored,
    exported,
    now,
  }: { tenantId: string; stored: StoredChain[]; exported: ExportedChain[]; now: number },
): Promise<void> {
  const sizes = new Map(exported.map(({ chain, size }) => [chain, size]))
  const startedAt = isoTime(now - EVIDENCE_EXPORT_MS)
  const acknowledged = await acknowledgedChains(db, tenantId)
  for (const { chain, size, checkpoint } of stored) {
    // The statement lists this log with its loss, so readers know that it is missing.
    if (acknowledged.has(chain) && !sizes.has(chain)) continue
    if (checkpoint && checkpoint.tree_size > size) {
      const message = `The store has ${size} entries of the chain "${chain}", but its checkpoint covers ${checkpoint.tree_size}.`
      throw new GatewayError('EVIDENCE_MISMATCH', message)
    }
    const [leftOut] = await readChain(db, tenantId, chain, { from: sizes.get(chain) ?? 0, limit: 1 })
    if (!leftOut || leftOut.created_at > startedAt) continue
    throw new GatewayError(
      'EVIDENCE_MISMATCH',
      `The export lacks entries of the chain "${chain}" from ${leftOut.seq} on, which are more than an hour old.`,
    )
  }
}
