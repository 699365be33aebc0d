import type { LossCause } from '../../../shared/wire/evidence.ts'

/** A chain of a tenant. */
export type ChainOfTenant = { tenantId: string; chain: string }

/** A part of the evidence that is lost. */
export type FoundLoss = {
  id: string
  cause: LossCause
  /** One sentence. */
  detail: string
  /** The chain that contradicts its notes. It is closed: no entry and no checkpoint is signed for it anymore. */
  closes?: ChainOfTenant | undefined
  /**
   * The chain that another party says contradicts its notes. Only the acknowledgement closes it, so that another party
   * cannot close logs.
   */
  doubts?: ChainOfTenant | undefined
}
