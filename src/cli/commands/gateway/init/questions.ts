/** The questions of `aigw init` on a terminal. */
import { askChoice, askSecret, askText } from '../../../input/prompt.ts'
import type { Io } from '../../../io.ts'
import { type Answers, DEFAULT_LISTEN } from './plan.ts'

/** Providers with an address that the daemon knows. The daemon accepts further names. */
const OFFERED = ['openai', 'anthropic', 'google', 'mistral', 'groq', 'openrouter', 'ollama']
const WITHOUT_KEY: ReadonlySet<string> = new Set(['ollama'])

const filled = (text: string): string | undefined => (text.trim() === '' ? undefined : text.trim())

/** Asks for everything. An empty answer means the default. */
export async function askAnswers(io: Io): Promise<Partial<Answers> & { systemd: boolean }> {
  const provider = filled(await askText(`Provider (${OFFERED.join(', ')}, …; empty for none):`, io))
  const needsUrl = provider !== undefined && !OFFERED.includes(provider)
  const providerUrl = needsUrl ? filled(await askText('Its address (empty if it is well known):', io)) : undefined
  const needsKey = provider !== undefined && !WITHOUT_KEY.has(provider)
  const providerKey = needsKey ? filled(await askSecret(`Key of ${provider} (hidden; empty for none):`, io)) : undefined
  const listen = filled(await askText('Listen on:', io, DEFAULT_LISTEN))
  const databaseUrl = filled(await askSecret('PostgreSQL URL (hidden; empty for SQLite):', io))
  const systemd = await askChoice('Write a systemd unit?', io)
  return { provider, providerUrl, providerKey, databaseUrl, systemd, ...(listen !== undefined && { listen }) }
}
