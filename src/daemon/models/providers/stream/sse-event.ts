/** `cut` marks a last event without its blank line, so its data may be incomplete. */
export type SseEvent = { name: string | undefined; data: string; cut: boolean }
