import type { ChatMetadata, GatewayExtension } from '../../shared/wire/chat.ts'

/** The metadata of an answer, as far as it is shown where answers are in the words of others (named-endpoints §5). */
export const toExtension = ({
  served_model,
  requested_model,
  failover,
  billing_fallback,
  smltp_policy_used,
  smltp_policy_source,
  smltp_policy_hash,
  prompt_shield_policy,
  withheld,
  smltp,
}: ChatMetadata): GatewayExtension => ({
  served_model,
  requested_model,
  ...(failover && { failover }),
  ...(billing_fallback && { billing_fallback }),
  smltp_policy_used,
  smltp_policy_source,
  smltp_policy_hash,
  prompt_shield_policy,
  ...(withheld && { withheld }),
  smltp_bundle_id: smltp.bundle_id,
})
