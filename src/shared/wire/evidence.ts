import { z } from 'zod'
import { BUNDLE_ID_CHARS, EVIDENCE_PAGE, LOSS_REASON_CHARS } from '../spec-limits.ts'
import { anObject, closedObject, storableText } from './common.ts'

const HEX_256 = /^[0-9a-f]{64}$/
/** A SHA-256 hash in a response. */
export const hash = (description?: string) =>
  z
    .string()
    .regex(HEX_256)
    .meta({ ...(description !== undefined && { description }) })
const hashes = z.array(hash())

// Receipts and their public proof. docs/evidence.md describes how to verify a receipt.

/** The decisions about one request, and its position in the log. */
export const Receipt = z
  .looseObject({
    version: z.literal(1),
    bundle_id: z.string(),
    request_id: z.string(),
    issued_at: z.string(),
    mode: z.enum(['enforce', 'monitor']),
    outcome: z.enum(['allowed', 'denied']),
    entry: z.object({
      tenant_id: z.string(),
      chain: z.string(),
      seq: z.int(),
      id: z.string(),
      created_at: z.string(),
      prev_hash: hash(),
      payload_hash: hash('SHA-256 of the receipt in canonical JSON without the members from `entry` on'),
      entry_hash: hash(),
    }),
    proof: z.object({ origin: z.string(), tree_size: z.int(), leaf_index: z.int(), path: hashes, root: hash() }),
    alg: z.literal('Ed25519'),
    kid: z.string(),
    signer: z.string(),
    signature: z.string().meta({ description: 'Base64, over the checkpoint text of `proof`' }),
  })
  .meta({ id: 'Receipt' })
export const ShowReceiptResponse = z.object({ success: z.literal(true), receipt: Receipt })
export const ShowReceiptBundleResponse = z.object({
  success: z.literal(true),
  bundle: z.object({
    receipt: Receipt,
    tlog_proof: z
      .string()
      .meta({ description: 'C2SP tlog-proof: the path from the entry to a checkpoint, with its cosignatures' }),
  }),
})

/** Whether the text is a bundle id that can be part of a path. */
export const isBundleId = (text: string): boolean => text.length <= BUNDLE_ID_CHARS

export const PublicProofResponse = z.object({
  success: z.literal(true),
  bundle_id: z.string(),
  layer1: z.object({
    current_hash: hash()
      .nullable()
      .meta({ description: 'Null, like the other hashes, if the stored value is not a hash' }),
    prev_hash: hash().nullable().meta({ description: 'Null if the previous entry is missing' }),
    payload_hash: hash().nullable(),
    seq: z.int(),
    recorded_at: z.string(),
    state: z
      .enum(['present', 'expunged', 'failed'])
      .meta({ description: 'Whether the content is still stored; `failed` if it does not match its hash' }),
  }),
  layer2: z.object({
    leaf_hash: hash().nullable(),
    leaf_index: z.int(),
    merkle_root: hash().nullable(),
    tree_size: z.int().nullable(),
    path: hashes,
    origin: z.string().nullable(),
    signature: z.string().nullable(),
    kid: z.string().nullable(),
    signer: z.string().nullable(),
    state: z
      .enum(['verified', 'failed'])
      .meta({ description: 'Also `failed` if layer 1 failed or the commit is missing' }),
  }),
  layer3: z.object({
    log_index: z.int().nullable(),
    uuid: z.string().nullable().meta({ description: 'Id of the log and hash of the leaf' }),
    integrated_time: z.string().nullable(),
    tree_size: z.int().nullable(),
    root: hash().nullable(),
    path: hashes,
    note: z.string().nullable().meta({ description: 'The signed checkpoint (C2SP tlog-checkpoint)' }),
    state: z
      .enum(['anchored', 'pending', 'failed'])
      .meta({ description: 'Also `failed` if layer 2 failed, or if the log no longer leads to the checkpoint' }),
  }),
})
export type PublicProof = Omit<z.infer<typeof PublicProofResponse>, 'success'>

export const KeySetResponse = z.object({
  keys: z.array(
    z.object({
      kty: z.literal('OKP'),
      crv: z.literal('Ed25519'),
      alg: z.literal('EdDSA'),
      use: z.literal('sig'),
      kid: z.string(),
      x: z.string(),
      name: z.string(),
      status: z.enum(['active', 'retired']),
      created_at: z.string(),
      retired_at: z.string().nullable(),
    }),
  ),
})

// The stored rows that verifiers of the log read (docs/evidence.md). These schemas are not part of the contract.

/** The chains of a tenant: one for its changes, and one for its requests on each daemon. */
const CHAIN_NAME = /^(changes|requests-[0-9a-f]{12})(-[0-9a-f]{4})?$/
export const isChainName = (text: string): boolean => CHAIN_NAME.test(text)
const chainName = z
  .string({ error: 'chain must be the name of a chain, such as "changes"' })
  .regex(CHAIN_NAME, { error: 'chain must be the name of a chain, such as "changes"' })

const wholeNumber = (name: string, min: number) =>
  z.coerce
    .number({ error: `${name} must be a whole number` })
    .int({ error: `${name} must be a whole number` })
    .min(min, { error: `${name} must be at least ${min}` })
const pageSize = wholeNumber('limit', 1)
  .transform((value) => Math.min(value, EVIDENCE_PAGE))
  .default(EVIDENCE_PAGE)

const ShownCheckpoint = z
  .object({
    chain: z.string(),
    tree_size: z.int(),
    root: hash(),
    kid: z.string(),
    note: z.string().meta({ description: 'The signed note: C2SP tlog-checkpoint' }),
    created_at: z.string(),
  })
  .meta({ id: 'Checkpoint' })
export type ShownCheckpoint = z.infer<typeof ShownCheckpoint>

export const LOSS_CAUSES = [
  'entries_missing',
  'entries_changed',
  'log_missing',
  'commit_missing',
  'key_missing',
  'file_missing',
  'file_unreadable',
  'store_replaced',
  'witness_contradicts',
] as const
export type LossCause = (typeof LOSS_CAUSES)[number]

export const ListChainsResponse = z.object({
  tenant_id: z.string(),
  chains: z.array(
    z.object({
      chain: z.string(),
      size: z.int(),
      head: hash(),
      checkpoint: ShownCheckpoint.nullable(),
      loss: z
        .object({
          cause: z.enum(LOSS_CAUSES),
          acknowledged_at: z.string().nullable(),
          successor: z.string().nullable(),
        })
        .nullable()
        .meta({ description: 'Set if the chain has lost history' }),
    }),
  ),
})

export const ReadChainQuery = z.object({ from: wholeNumber('from', 0).default(0), limit: pageSize })
export const ReadChainResponse = z.object({
  tenant_id: z.string(),
  chain: z.string(),
  from: z.int(),
  entries: z.array(
    z.object({
      seq: z.int(),
      id: z.string(),
      created_at: z.string(),
      payload: z.string().nullable().meta({ description: 'Canonical JSON (RFC 8785); null when expunged' }),
      payload_hash: z.string(),
      entry_hash: z.string(),
      commit_id: z.string(),
      leaf_index: z.int(),
    }),
  ),
})

export const ListCommitsQuery = z.object({
  ids: z
    .string({ error: 'ids must be commit ids, separated by commas' })
    .regex(/^[\w-]{1,64}(,[\w-]{1,64}){0,99}$/, { error: 'ids must be 1 to 100 commit ids, separated by commas' })
    .transform((text) => [...new Set(text.split(','))]),
})
export const ListCommitsResponse = z.object({
  commits: z.array(
    z.object({
      id: z.string(),
      created_at: z.string(),
      kid: z.string(),
      signer: z.string(),
      tree_size: z.int(),
      root: z.string(),
      leaves: z.array(z.string()).meta({ description: 'Hashes of its entries, in order' }),
      signature: z.string(),
    }),
  ),
})

export const ListCheckpointsQuery = z.object({
  chain: chainName
    .optional()
    .meta({ description: 'All checkpoints of this chain; by default, the last one of each chain' }),
  from: wholeNumber('from', 0).default(0).meta({ description: 'Only checkpoints that cover more entries' }),
  limit: pageSize,
})
export const CheckpointsResponse = z.object({ checkpoints: z.array(ShownCheckpoint) })
export const MakeCheckpointsRequest = closedObject({ chain: chainName.optional() }, anObject.error)

export const ProveInclusionQuery = z.object({
  chain: chainName,
  index: wholeNumber('index', 0),
  size: wholeNumber('size', 1),
})
export const InclusionProofResponse = z.object({
  chain: z.string(),
  index: z.int(),
  size: z.int(),
  entry_hash: hash(),
  path: hashes,
  root: hash(),
})

export const ProveConsistencyQuery = z.object({
  chain: chainName,
  from: wholeNumber('from', 1),
  to: wholeNumber('to', 1),
})
export const ConsistencyProofResponse = z.object({
  chain: z.string(),
  from: z.int(),
  to: z.int(),
  path: hashes,
  from_root: hash(),
  to_root: hash(),
})

/** The causes of lost history (docs/evidence.md). */
const EvidenceLoss = z
  .object({
    id: z.string(),
    cause: z.enum(LOSS_CAUSES),
    tenant_id: z.string().nullable(),
    chain: z.string().nullable().meta({ description: 'The chain that contradicts its notes' }),
    successor: z.string().nullable().meta({
      description: 'The chain that continues the chain; null while the chain is not closed',
    }),
    detail: z.string(),
    found_at: z.string(),
    acknowledged_at: z.string().nullable(),
  })
  .meta({ id: 'EvidenceLoss' })
export const ListLossesResponse = z.object({ losses: z.array(EvidenceLoss) })
export const AcknowledgeLossRequest = closedObject(
  {
    reason: storableText('reason')
      .max(LOSS_REASON_CHARS, { error: `reason may have at most ${LOSS_REASON_CHARS} characters` })
      .optional()
      .meta({ description: 'Recorded in the log' }),
  },
  anObject.error,
)
export const AcknowledgeLossResponse = z.object({ success: z.literal(true), message: z.string(), loss: EvidenceLoss })

export const RotateSigningKeyResponse = z.object({
  success: z.literal(true),
  message: z.string(),
  key: z.object({ kid: z.string(), name: z.string(), created_at: z.string() }),
})

const hexHash = (name: string) => z.string().regex(HEX_256, { error: `${name} must be a SHA-256 in lower-case hex` })

export const SignExportRequest = closedObject(
  {
    chains: z
      .array(
        closedObject(
          {
            chain: chainName,
            size: z.int({ error: 'size must be a whole number' }).min(1, { error: 'size must be at least 1' }),
            head: hexHash('head'),
            root: hexHash('root'),
          },
          'each of chains must be an object {chain, size, head, root}',
        ),
      )
      .max(EVIDENCE_PAGE, { error: `an export may have at most ${EVIDENCE_PAGE} chains` })
      .refine((chains) => chains.every(({ chain }, at) => at === 0 || chain > (chains[at - 1]?.chain ?? '')), {
        error: 'chains must be unique and sorted by name',
      }),
    manifest_sha256: hexHash('manifest_sha256'),
    row_count: z.int({ error: 'row_count must be a whole number' }),
  },
  anObject.error,
)
export const SignExportResponse = z.object({
  kid: z.string(),
  name: z.string(),
  origin: z.string(),
  statement: z.string().meta({
    description:
      "Canonical JSON: the store's own counts for each chain, and the time. The signature covers its SHA-256",
  }),
  note: z.string(),
  signature: z.string(),
})
