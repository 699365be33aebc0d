/** Validates an API key with the gateway and saves it. */
import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { askSecret, mayPrompt } from '../../input/prompt.ts'
import { readStdin } from '../../io.ts'
import { configPath, editConfig, editCredentials } from '../../profile/config-files.ts'
import { findKey, KEY_BYTES, toKey } from '../../profile/key-source.ts'
import type { Settings } from '../../profile/profile.ts'
import { assertProfileName } from '../profiles/commands.ts'
import { toWhoami, WHOAMI_VIEW, type Whoami } from './whoami.ts'

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

type Flags = { withToken: boolean }

export function toCommand(context: CliContext): Command {
  return new Command('login')
    .description(
      'Validate an API key with the gateway, then save it in a file that only you can read.\n' +
        'The key comes from stdin (--with-token), --api-key-file, AIGW_API_KEY or a hidden prompt, never from a flag.',
    )
    .option('--with-token', 'read the key from stdin', false)
    .addHelpText(
      'after',
      '\nExamples:\n  aigw login --base-url https://ai.example.com\n  aigw login -P work --base-url https://ai.example.com --with-token < key.txt',
    )
    .action((flags: Flags) => login(context, flags))
}

/**
 * Sends the key to GET /whoami. If the gateway accepts the key, saves the profile and the key. Otherwise saves nothing.
 */
async function login(context: CliContext, { withToken }: Flags): Promise<void> {
  const { io } = context
  const settings = await context.settings()
  const { baseUrl, profile } = settings
  assertProfileName(profile)
  const { note } = context
  const { origin, protocol, hostname } = new URL(baseUrl)
  if (protocol === 'http:' && !LOOPBACK.test(hostname)) {
    await note(`warning: ${baseUrl} is not encrypted; others on the network can read the key`)
  }
  const output = await context.output()
  output.assertShowable(WHOAMI_VIEW)
  const key = await findNewKey(context, settings, { withToken })
  const api = await context.api()
  const { body, raw } = await api.send<Whoami>({ method: 'GET', path: 'whoami', key })
  const whoami = toWhoami(body)

  if (settings.dryRun) await note(`Would save profile '${profile}' for ${baseUrl}.`)
  else {
    // Saves the key before the profile: an interruption may leave an unused key, but never a profile without its key.
    await editCredentials(io.env, [{ path: ['keys', profile], value: { origin, key } }])
    await editConfig(io.env, [
      { path: ['current_profile'], value: profile },
      { path: ['profiles', profile, 'base_url'], value: baseUrl },
    ])
    await note(
      `Signed in to ${baseUrl} as ${whoami.user.name}; saved as profile '${profile}' in ${configPath(io.env)}.`,
    )
    for (const name of ['AIGW_API_KEY', 'AIGW_API_KEY_FILE'])
      if (io.env[name])
        await note(`note: ${name} is set and overrides the saved key; to use the saved key:  unset ${name}`)
  }
  await output.one(whoami, WHOAMI_VIEW, raw)
}

async function findNewKey(context: CliContext, settings: Settings, { withToken }: Flags): Promise<string> {
  const { io, globals, note } = context
  if (withToken) return toKey((await readStdin(io, KEY_BYTES, 'the API key')).toString(), 'stdin')
  const given = globals.apiKeyFile ?? (io.env.AIGW_API_KEY || io.env.AIGW_API_KEY_FILE)
  const key = given ? await findKey(settings, io, note) : undefined
  if (key !== undefined) return key
  if (mayPrompt(settings, io)) return toKey(await askSecret(`API key for ${settings.baseUrl}:`, io), 'the answer')
  throw usageError('no API key was given, and prompting needs a terminal', [
    'From a file:  aigw login --with-token < key.txt',
    'Or set AIGW_API_KEY or AIGW_API_KEY_FILE.',
  ])
}
