/** `cut` marks a last event whose blank line never came, so its data may break off. */
export type SseEvent = { name: string | undefined; data: string; cut: boolean }
