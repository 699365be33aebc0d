import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { Command, Option } from 'commander'
import type { FailoverTrigger } from '../../../shared/wire/chat.ts'
import type { CliContext } from '../../context.ts'
import { unreadable, usageError } from '../../errors.ts'
import type { Settings } from '../../profile.ts'
import { repeatable } from '../../repeatable.ts'
import { type Ask, ask } from './ask.ts'
import { type PromptParts, TRIGGERS, toChatRequest, toPrompt } from './input.ts'
import { isStdinPiped, readPiped, toUtf8 } from './stdin.ts'

export type ChatFlags = {
  model: string[]
  fallback: string[]
  chain?: string
  on: FailoverTrigger[]
  index?: string
  rag: boolean
  policy?: string
  shield?: string | false
  system?: string
  temperature?: string
  maxTokens?: string
  file: string[]
  conversation?: string
  user?: string
  stream: boolean
  usage?: boolean
  sources?: boolean
  idempotencyKey?: string
  stdin: boolean
}

const EXAMPLES = `
Examples:
  aigw chat -m local/extract -i handbook "How many leave days do I have?"
  git diff | aigw chat -s "Write a one-line commit message"
  aigw chat -o json "ping" | jq -r .metadata.served_model`

/** commander would take the next word as the value of `--shield`, which is the prompt more often than not. */
class ChatCommand extends Command {
  override parseOptions(args: string[]) {
    const end = args.includes('--') ? args.indexOf('--') : args.length
    return super.parseOptions(args.map((word, at) => (word === '--shield' && at < end ? '--shield=' : word)))
  }
}

export function chatCommand(context: CliContext, run = chat): Command {
  return new ChatCommand('chat')
    .description('Ask a model. The prompt is what you type, what is piped in, or both.')
    .argument('[prompt...]', 'the question')
    .addOption(repeatable(new Option('-m, --model <provider/model>', 'model; repeat it to build a failover chain')))
    .addOption(repeatable(new Option('--fallback <provider/model>', 'model to go on with when the one before fails')))
    .option('--chain <a,b,c>', 'failover chain; A@8s or A@8s/2s bounds an attempt and its first token')
    .addOption(
      new Option('--on <trigger>', 'what counts as a failure, repeatable')
        .choices(TRIGGERS)
        .default([])
        .argParser(collectTrigger),
    )
    .option('-i, --index <name>', "knowledge base to answer from, 'none' for none")
    .option('--no-rag', 'name the index but skip retrieval')
    .option('--policy <name>', 'SMLTP policy')
    .option('--shield [policy]', 'turn the prompt shield on, with a policy: --shield=NAME')
    .option('--no-shield', 'turn the prompt shield off')
    .option('-s, --system <text|@file>', 'system prompt')
    .option('-t, --temperature <n>', '0 to 2')
    .option('--max-tokens <n>', 'longest answer')
    .addOption(repeatable(new Option('-f, --file <path>', "add a text file to the prompt, '-' for stdin; repeatable")))
    .option('--conversation <id>', 'conversation to go on with')
    .option('--user <id>', 'user to bill (administrators)')
    .option('--no-stream', 'wait for the whole answer')
    .option('-u, --usage', 'show tokens and times on stderr')
    .option('--sources', 'show sources on stderr')
    .option('--idempotency-key <key>', 'repeating a request with the same key returns the first result')
    .option('--no-stdin', 'ignore piped stdin')
    .addHelpText('after', EXAMPLES)
    .action((words: string[], flags: ChatFlags) => run(context, words, flags))
}

function collectTrigger(value: string, all: FailoverTrigger[]): FailoverTrigger[] {
  const trigger = TRIGGERS.find((known) => known === value)
  if (trigger === undefined) throw usageError(`'${value}' is no trigger`, [`Triggers:  ${TRIGGERS.join(', ')}`])
  return [...all, trigger]
}

/** Gathers the prompt, builds the request and asks. */
export async function chat(context: CliContext, words: string[], flags: ChatFlags): Promise<void> {
  const settings = await context.settings()
  const show = howToShow(settings)
  const stream = show === 'frames' || (show === 'text' && flags.stream)
  const prompt = toPrompt(await gatherPrompt(context, words, flags))
  if (prompt === '') throw noPrompt(context)
  const { model, fallback, chain, on, system } = flags
  const body = toChatRequest(
    {
      models: model,
      fallbacks: fallback,
      chain,
      triggers: on,
      index: flags.index,
      rag: flags.rag,
      policy: flags.policy,
      shield: flags.shield,
      system: system === undefined ? undefined : await readSystem(system),
      temperature: flags.temperature,
      maxTokens: flags.maxTokens,
      conversation: flags.conversation,
      user: flags.user,
    },
    prompt,
    settings.chat,
    stream,
  )
  const { usage = false, sources = false, idempotencyKey } = flags
  const asked = body.model ?? body.models?.[0]?.model ?? 'an answer'
  await ask(context, { body, model: asked, show, usage, sources, idempotencyKey })
}

/** Text is for people and pipes; every other format shows the envelope, and ndjson the frames. */
function howToShow({ format, field, fields, raw }: Settings): Ask['show'] {
  if (field !== undefined || fields.length > 0 || raw) return 'envelope'
  if (format === undefined || format === 'table') return 'text'
  return format === 'ndjson' ? 'frames' : 'envelope'
}

async function gatherPrompt(context: CliContext, words: string[], flags: ChatFlags): Promise<PromptParts> {
  const { io } = context
  const { key } = await context.settings()
  const keyTakesStdin = key.kind === 'file' && key.path === '-'
  const wantsStdin = flags.file.includes('-')
  if (wantsStdin && keyTakesStdin) throw usageError('stdin cannot hold both the API key and a file')
  const hasPrompt = words.length > 0 || flags.file.some((path) => path !== '-')
  const mayRead = wantsStdin || (flags.stdin && !keyTakesStdin && isStdinPiped(io.stdin))
  const piped = mayRead ? await readPiped(io, context.note, { hasPrompt: hasPrompt && !wantsStdin }) : ''
  const files = await Promise.all(
    flags.file.map(async (path) =>
      path === '-' ? { name: 'stdin', text: piped } : { name: basename(path), text: await readText(path) },
    ),
  )
  return { files, piped: wantsStdin ? '' : piped, words }
}

const readSystem = async (text: string): Promise<string> => (text.startsWith('@') ? readText(text.slice(1)) : text)

async function readText(path: string): Promise<string> {
  const bytes = await readFile(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  return toUtf8(bytes, path)
}

function noPrompt({ io }: CliContext): Error {
  const where = io.stdin.isTTY === true && io.stdout.isTTY !== true ? ' and stdout is not a terminal' : ''
  return usageError(`no prompt given${where}`, [
    'Ask:   aigw chat -m local/extract "your question"',
    'Pipe:  echo "your question" | aigw chat',
  ])
}
