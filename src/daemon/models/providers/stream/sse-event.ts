/** `cut` marks a last event that has no terminating blank line, so its data may be incomplete. */
export type SseEvent = { name: string | undefined; data: string; cut: boolean }
