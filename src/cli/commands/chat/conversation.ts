import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { MESSAGE_CONTENT_BYTES, MESSAGES_PER_REQUEST } from '../../../shared/spec-limits.ts'
import type { CliContext } from '../../context.ts'
import { unwritable, usageError } from '../../errors.ts'
import type { Settings } from '../../profile/profile.ts'
import { findStateDir, readState, writeState } from '../../profile/state-files.ts'

export type Message = { role: 'user' | 'assistant'; content: string }

/** What `--continue` goes on with. The gateway keeps no messages, so they are kept here. */
export type Conversation = {
  id: string
  system?: string
  messages: Message[]
}

type Env = CliContext['io']['env']

const findPath = async (env: Env, profile: string): Promise<string | undefined> => {
  const folder = await findStateDir(env)
  return folder === undefined ? undefined : join(folder, `conversation-${encodeURIComponent(profile)}.json`)
}

/** The last conversation of the profile. Throws a usage error when there is none, or when it was held elsewhere. */
export async function loadConversation(context: CliContext): Promise<Conversation> {
  const { profile, baseUrl } = await context.settings()
  const path = await findPath(context.io.env, profile)
  const kept = path === undefined ? undefined : parseKept(await readState(path))
  if (kept === undefined) throw usageError(`profile '${profile}' has no conversation to continue`)
  const { origin, ...conversation } = kept
  // What was said to one gateway is no business of another, as with keys.
  if (origin === new URL(baseUrl).origin) return conversation
  throw usageError(
    `the last conversation of profile '${profile}' was held with ${origin} and is not sent to ${baseUrl}`,
  )
}

/** Remembers the conversation, mode 0600, in place of the profile's last one. Not being able to is no failure. */
export async function keepConversation(context: CliContext, conversation: Conversation): Promise<void> {
  const { profile, baseUrl, verbose }: Settings = await context.settings()
  const path = await findPath(context.io.env, profile)
  if (path === undefined) return
  try {
    await writeState(path, JSON.stringify({ origin: new URL(baseUrl).origin, ...conversation }))
  } catch (error) {
    if (verbose)
      await context.note(`note: the conversation is not kept (${error instanceof Error ? error.message : ''})`)
  }
}

/** Removes what is kept of a profile, also with AIGW_NO_HISTORY: it may be from before. Throws when that is not possible. */
export async function forgetConversation(env: Env, profile: string): Promise<void> {
  const path = await findPath({ ...env, AIGW_NO_HISTORY: '' }, profile)
  if (path === undefined) return
  await rm(path, { force: true }).catch((error: unknown) => {
    throw unwritable(path, error)
  })
}

/** The conversation goes along with its profile; where it cannot, it is forgotten, for another may come by the old name. */
export async function moveConversation(env: Env, profile: string, to: string): Promise<void> {
  const everKept = { ...env, AIGW_NO_HISTORY: '' }
  const [from, target] = await Promise.all([findPath(everKept, profile), findPath(everKept, to)])
  if (from === undefined || target === undefined) return
  // What an earlier profile of the new name has left is none of its own.
  await rm(target, { force: true }).catch(() => {})
  await rename(from, target).catch(() => forgetConversation(env, profile))
}

function parseKept(text: string): (Conversation & { origin: string }) | undefined {
  try {
    const kept = JSON.parse(text)
    const isKept = typeof kept.id === 'string' && typeof kept.origin === 'string' && Array.isArray(kept.messages)
    return isKept ? kept : undefined
  } catch {
    // Nothing was kept yet, or a crash left half of it.
    return undefined
  }
}

/** The latest messages that one request may carry, from a question on (spec: Limits). */
export function fitMessages(messages: Message[], system = ''): Message[] {
  let bytes = Buffer.byteLength(system)
  let first = messages.length
  for (let at = messages.length - 1; at >= 0; at--) {
    const message = messages[at]
    if (message === undefined) break
    bytes += Buffer.byteLength(message.content)
    if (bytes > MESSAGE_CONTENT_BYTES || messages.length - at > MESSAGES_PER_REQUEST) break
    if (message.role === 'user') first = at
  }
  // A last message that is too long by itself goes as it is, and the gateway says so.
  return messages.slice(Math.min(first, messages.length - 1))
}
