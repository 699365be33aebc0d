/** The section `webhooks` of the configuration, and `WEBHOOKS_ALLOW_PRIVATE`. */
export type WebhooksConfig = {
  /** Whether webhooks may be delivered to all private, loopback and link-local addresses. */
  allowPrivate: boolean
  /** The private addresses and blocks to which webhooks may be delivered. */
  allow: readonly string[]
  /** Whether the delivery log contains the responses of private receivers. */
  showPrivateBodies: boolean
}
