/** Stores the last conversation of each profile, for `--continue`. */
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { MESSAGE_CONTENT_BYTES, MESSAGES_PER_REQUEST } from '../../../shared/spec-limits.ts'
import type { CliContext } from '../../context.ts'
import { failedToWrite, usageError } from '../../errors.ts'
import type { Settings } from '../../profile/profile.ts'
import { findStateDir, readState, writeState } from '../../profile/state-files.ts'

export type Message = { role: 'user' | 'assistant'; content: string }

/** The gateway stores no messages, so the client stores them. */
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

/**
 * Returns the last conversation of the profile. Throws a usage error if no conversation is stored, or if the stored
 * conversation belongs to another gateway.
 */
export async function loadConversation(context: CliContext): Promise<Conversation> {
  const { profile, baseUrl } = await context.settings()
  const path = await findPath(context.io.env, profile)
  const kept = path === undefined ? undefined : parseKept(await readState(path))
  if (kept === undefined) throw usageError(`profile '${profile}' has no conversation to continue`)
  const { origin, ...conversation } = kept
  // Stored messages are sent only to the gateway that first received them. The same rule applies to stored keys.
  if (origin === new URL(baseUrl).origin) return conversation
  throw usageError(`the last conversation of profile '${profile}' was with ${origin} and is not sent to ${baseUrl}`)
}

/** Replaces the stored conversation of the profile in a file with mode 0600. On failure, only prints a note. */
export async function keepConversation(context: CliContext, conversation: Conversation): Promise<void> {
  const { profile, baseUrl, verbose }: Settings = await context.settings()
  const path = await findPath(context.io.env, profile)
  if (path === undefined) return
  try {
    await writeState(path, JSON.stringify({ origin: new URL(baseUrl).origin, ...conversation }))
  } catch (error) {
    if (verbose)
      await context.note(`note: the conversation was not stored (${error instanceof Error ? error.message : ''})`)
  }
}

/**
 * Deletes the conversation of a profile, even if AIGW_NO_HISTORY is set. Throws an error with exit code 1 on failure.
 */
export async function forgetConversation(env: Env, profile: string): Promise<void> {
  const path = await findPath({ ...env, AIGW_NO_HISTORY: '' }, profile)
  if (path === undefined) return
  await rm(path, { force: true }).catch(failedToWrite(path))
}

/** Moves the conversation to the new name of its profile. If that fails, the conversation is deleted. */
export async function moveConversation(env: Env, profile: string, to: string): Promise<void> {
  const wasEverStored = { ...env, AIGW_NO_HISTORY: '' }
  const [from, target] = await Promise.all([findPath(wasEverStored, profile), findPath(wasEverStored, to)])
  if (from === undefined || target === undefined) return
  // Removes the conversation that an earlier profile with the new name may have left.
  await rm(target, { force: true }).catch(() => {})
  await rename(from, target).catch(() => forgetConversation(env, profile))
}

function parseKept(text: string): (Conversation & { origin: string }) | undefined {
  try {
    const kept = JSON.parse(text)
    const isKept = typeof kept.id === 'string' && typeof kept.origin === 'string' && Array.isArray(kept.messages)
    return isKept ? kept : undefined
  } catch {
    // The file is missing, or a crash left it incomplete.
    return undefined
  }
}

/** Returns the latest messages that fit into one request, beginning with a question. */
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
  // If the last message alone is too long, it is sent anyway, and the gateway rejects it.
  return messages.slice(Math.min(first, messages.length - 1))
}
