import type { Message } from '../../models/conversation.ts'
import type { Admitted } from './admit.ts'

export type PromptText = { system: string; messages: Message[]; options: Admitted['options'] }
