import { type Change, type Dropped, RECEIPTS_PATH } from '../../../shared/wire/chat.ts'
import { toShownShield } from '../../safety/prompt-shield/resolve.ts'
import { modelsOf } from '../governed/chain.ts'
import type { GovernedDeps } from '../governed/deps.ts'
import type { Opened } from '../governed/failover.ts'
import type { GovernedInput } from '../governed/input.ts'
import type { Running } from '../governed/operation.ts'
import type { Screened } from '../governed/screen.ts'
import type { Envelope } from './answer-contract.ts'
import type { Grounded } from './ground-call.ts'

type Retrieved = Pick<Grounded, 'ragEnabled' | 'documentsRetrieved' | 'withheldPassages' | 'skippedModels' | 'sources'>

const NOTHING_RETRIEVED: Retrieved = {
  ragEnabled: false,
  documentsRetrieved: 0,
  withheldPassages: 0,
  skippedModels: [],
  sources: [],
}

type Notices = { changed?: readonly Change[]; dropped?: readonly Dropped[] }

/** The metadata of the answer of a running request. */
export function toEnvelope(
  { context, screened, bundleId, payment }: Running<GovernedInput, unknown>,
  { attempt, attempts, cache }: Pick<Opened<unknown>, 'attempt' | 'attempts' | 'cache'>,
  { clock, receipts }: Pick<GovernedDeps, 'clock' | 'receipts'>,
  { changed = [], dropped = [], retrieved = NOTHING_RETRIEVED }: Notices & { retrieved?: Retrieved } = {},
): Envelope {
  const { chain, conversationId, index, policy, shield, withheld } = screened
  const { ragEnabled, documentsRetrieved, withheldPassages, skippedModels, sources } = retrieved
  return {
    id: context.requestId,
    created: Math.floor(clock.now() / 1000),
    model: attempt.modelId,
    changed,
    dropped,
    metadata: {
      conversation_id: conversationId,
      index_used: index.name,
      smltp_policy_used: policy.canonical,
      smltp_policy_source: policy.source,
      smltp_policy_hash: policy.hash,
      ...(policy.baseline && { smltp_policy_baseline: policy.baseline.id }),
      prompt_shield_policy: shield ? toShownShield(shield) : null,
      ...(isAnyWithheld(withheld, withheldPassages) && { withheld: { ...withheld, passages: withheldPassages } }),
      served_model: attempt.modelId,
      requested_model: chain.requestedModel,
      ...(modelsOf(chain).length > 1 && {
        // An answer from the cache has no attempts.
        failover: { occurred: attempts.length > 0 && attempt.modelId !== attempts[0]?.model, attempts: [...attempts] },
      }),
      ...(payment.fallback && { billing_fallback: payment.fallback }),
      smltp: {
        bundle_id: bundleId,
        ...(receipts && { receipt_url: `${RECEIPTS_PATH}/${bundleId}` }),
      },
      rag_enabled: ragEnabled,
      documents_retrieved: documentsRetrieved,
      sources,
      ...(skippedModels.length > 0 && { skipped_models: [...skippedModels] }),
      ...(cache && { cache }),
    },
  }
}

const isAnyWithheld = ({ tool_results: results, documents = 0, tools = 0 }: Screened['withheld'], passages: number) =>
  results + documents + tools + passages > 0
