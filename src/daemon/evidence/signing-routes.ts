import type { z } from 'zod'
import { GatewayError, invalidField } from '../../shared/errors.ts'
import { type ExportedChain, exportOrigin, exportRoot } from '../../shared/evidence/export-root.ts'
import { checkpointText, signedNote } from '../../shared/evidence/note.ts'
import { SIGN_EXPORT_BODY_BYTES } from '../../shared/spec-limits.ts'
import { StructuredError } from '../../shared/wire/common.ts'
import {
  CheckpointsResponse,
  MakeCheckpointsRequest,
  RotateSigningKeyResponse,
  SignExportRequest,
  SignExportResponse,
} from '../../shared/wire/evidence.ts'
import { type ChangeDeps, change } from '../audit/change.ts'
import type { Db } from '../db/database.ts'
import { type Route, reply, route } from '../http/route.ts'
import { findHead } from './chains.ts'
import { toShownCheckpoint } from './checkpoint-list.ts'
import type { Checkpoints } from './checkpoints.ts'
import { rootOfChain } from './proofs.ts'
import type { SigningKeys } from './signing-keys.ts'
import { readChain } from './store.ts'

export type SigningRouteDeps = ChangeDeps & { signingKeys: SigningKeys; checkpoints: Pick<Checkpoints, 'make'> }

/** What signs on demand, and the change of the key that does. Each leaves an entry in the log itself. */
export function signingRoutes(deps: SigningRouteDeps): Route[] {
  const { db, signingKeys, checkpoints } = deps
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
      summary: 'Make and publish checkpoints of the log now',
      body: MakeCheckpointsRequest,
      responses: {
        200: {
          description: 'Those that were made; of a chain that has not grown, the last',
          schema: CheckpointsResponse,
        },
        404: { description: 'No chain of this tenant has this name', schema: StructuredError },
      },
      async handle(context) {
        const { tenantId } = context.caller
        const { chain } = context.body
        if (chain !== undefined && (await findHead(db, tenantId, chain)).size === 0) {
          throw new GatewayError('CHAIN_NOT_FOUND', 'No chain of this tenant has this name.')
        }
        await change(deps, context, ({ record }) =>
          record({
            type: 'evidence_management',
            operation: 'checkpoint',
            resourceType: 'evidence_log',
            resourceId: tenantId,
            description: `asked for checkpoints of ${chain === undefined ? 'all chains' : `the chain "${chain}"`}`,
          }),
        )
        const made = await checkpoints.make(tenantId, chain)
        return reply(200, { checkpoints: made.map(toShownCheckpoint) } satisfies z.input<typeof CheckpointsResponse>)
      },
    }),
    route({
      ...common,
      access: 'smltp-security',
      path: '/api/external/transparency/exports/sign',
      summary: 'Sign the manifest of an export, if the store holds what it names',
      body: SignExportRequest,
      bodyLimit: SIGN_EXPORT_BODY_BYTES,
      responses: {
        200: { description: 'The signature', schema: SignExportResponse },
        409: { description: 'The log holds something else', schema: StructuredError },
      },
      async handle(context) {
        const { chains, manifest_sha256: manifest, row_count: rowCount } = context.body
        const rows = chains.reduce((sum, { size }) => sum + size, 0)
        if (rows !== rowCount) throw invalidField('row_count', `The chains have ${rows} rows together.`, rowCount)
        for (const exported of chains) await requireHeld(db, context.caller.tenantId, exported)
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
        const origin = exportOrigin(signer.name, manifest)
        const text = checkpointText({ origin, size: rows, root: exportRoot(chains).toString('base64') })
        const signature = signer.sign(text)
        return reply(200, {
          kid: signer.kid,
          name: signer.name,
          origin,
          note: signedNote(text, signer.name, signer.publicKey, signature),
          signature: signature.toString('base64'),
        } satisfies z.input<typeof SignExportResponse>)
      },
    }),
    route({
      ...common,
      access: 'operator',
      path: '/api/external/transparency/keys/rotate',
      summary: 'Retire the key that signs evidence, and make the next; what it signed stays verifiable',
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
              description: `rotated the key that signs evidence; the new one is ${made.kid}`,
            })
            return made
          })
          return reply(200, {
            success: true,
            message: 'Signing key rotated',
            key: { kid: key.kid, name: key.name, created_at: key.createdAt },
          } satisfies z.input<typeof RotateSigningKeyResponse>)
        } finally {
          // Also after a failure: a commit whose answer was lost may have happened.
          signingKeys.forget()
        }
      },
    }),
  ]
}

/** @throws EVIDENCE_MISMATCH unless the first entries of the chain are those that were exported */
async function requireHeld(db: Db, tenantId: string, { chain, size, head, root }: ExportedChain): Promise<void> {
  const [last] = await readChain(db, tenantId, chain, { from: size - 1, limit: 1 })
  const isHead = last?.seq === size - 1 && last.entry_hash === head
  if (isHead && (await rootOfChain(db, tenantId, chain, size)).toString('hex') === root) return
  throw new GatewayError('EVIDENCE_MISMATCH', `The chain "${chain}" of this tenant does not begin with these entries.`)
}
