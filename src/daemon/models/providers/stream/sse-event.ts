/** `cut`: the event is the last one and no blank line terminates it, so its data may be incomplete. */
export type SseEvent = { name: string | undefined; data: string; cut: boolean }
