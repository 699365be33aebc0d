/** The state of a session, and its changes. */
import type { ChatDefaults } from '../../../profile/config-files.ts'
import type { Answer } from '../answer.ts'
import { type Conversation, fitMessages, type Message } from '../conversation.ts'
import { type ChatInput, type PromptParts, toChatRequest } from '../input.ts'

/** A message of a session. `cut` states why an answer is truncated. */
export type Turn = Message & { cut?: 'stopped' | 'broken off' }

/** The state of a session. Slash commands and answers change it. */
export type SessionState = {
  /** The settings, named like the flags of `chat`. */
  input: ChatInput
  defaults: ChatDefaults
  turns: Turn[]
  /** The files to send with the next message. */
  files: PromptParts['files']
  /** The last question, even if it has no answer. */
  asked: string
  answer: Answer | undefined
  total: { answers: number; prompt_tokens: number; completion_tokens: number }
}

/** Returns the request for the latest question. It includes as many earlier messages as fit. */
export const toRequest = ({ input, defaults, turns }: SessionState) =>
  toChatRequest(input, { messages: fitMessages(toMessages(turns), input.system) }, defaults, true)

/** Returns the number of messages that do not fit into the request. */
export const countOmitted = ({ input, turns }: SessionState): number =>
  turns.length - fitMessages(turns, input.system).length

const toMessages = (turns: Turn[]): Message[] => turns.map(({ role, content }) => ({ role, content }))

/** Returns the state with changed settings. Throws a usage error for an invalid setting. */
export function withInput(state: SessionState, change: Partial<ChatInput>): SessionState {
  const changed = { ...state, input: { ...state.input, ...change } }
  toRequest(changed)
  return changed
}

export function withAnswer(state: SessionState, answer: Answer): SessionState {
  const { metadata, usage } = answer
  return {
    ...state,
    answer,
    input: { ...state.input, conversation: metadata?.conversation_id ?? state.input.conversation },
    turns: [...state.turns, { role: 'assistant', content: answer.text }],
    total: {
      answers: state.total.answers + 1,
      prompt_tokens: state.total.prompt_tokens + (usage?.prompt_tokens ?? 0),
      completion_tokens: state.total.completion_tokens + (usage?.completion_tokens ?? 0),
    },
  }
}

/** Keeps a truncated answer and marks it as truncated. If no text arrived, removes the question instead. */
export function withPart(state: SessionState, text: string, cut: 'stopped' | 'broken off'): SessionState {
  const turns: Turn[] =
    text === '' ? state.turns.slice(0, -1) : [...state.turns, { role: 'assistant', content: text, cut }]
  return { ...state, turns }
}

/** Returns the state before the last question, so that the question can be sent again. */
export function withoutLastQuestion(state: SessionState): SessionState {
  const at = state.turns.findLastIndex(({ role }) => role === 'user')
  const isAnswered = state.turns[at]?.content === state.asked
  return isAnswered ? { ...state, turns: state.turns.slice(0, at) } : state
}

/** Returns the conversation for `--continue`, or undefined before the first answer. */
export function toConversation({ input, turns }: SessionState): Conversation | undefined {
  const { conversation, system } = input
  if (conversation === undefined || turns.length === 0) return undefined
  return { id: conversation, ...(system === undefined ? {} : { system }), messages: toMessages(turns) }
}

/** Returns the conversation as Markdown. */
export const toTranscript = ({ turns }: SessionState): string =>
  turns
    .map(({ role, content, cut }) => {
      const mark = cut === undefined ? '' : `\n\n*(${cut})*`
      return `## ${role === 'user' ? 'Question' : 'Answer'}\n\n${content.replace(/\n+$/, '')}${mark}\n`
    })
    .join('\n')
