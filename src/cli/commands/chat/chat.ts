/** The chat command: collects the prompt, then sends one question or starts a session. */
import { basename } from 'node:path'
import { Command, Option } from 'commander'
import type { CommitPoint, FailoverTrigger } from '../../../shared/wire/chat.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { nameMembers } from '../../input/member-flags.ts'
import { repeatable } from '../../input/repeatable.ts'
import { readText } from '../../input/text-input.ts'
import type { Settings } from '../../profile/profile.ts'
import { type Ask, ask } from './ask.ts'
import { type Conversation, fitMessages, keepConversation, loadConversation } from './conversation.ts'
import { withDefaultModel } from './default-model.ts'
import { type ChatInput, firstModel, type PromptParts, TRIGGERS, toChatRequest, toPrompt } from './input.ts'
import { CHAT_FLAGS, omittedLine } from './notes.ts'
import { RENDER, type Render } from './shown-text.ts'
import { isStdinPiped, readPiped } from './stdin.ts'
import { readSystem } from './text-files.ts'

export type ChatFlags = {
  model: string[]
  fallback: string[]
  chain?: string
  on: FailoverTrigger[]
  commit?: CommitPoint
  index?: string
  rag: boolean
  policy?: string
  shield?: string | false
  system?: string
  temperature?: string
  maxTokens?: string
  file: string[]
  continue?: boolean
  conversation?: string
  user?: string
  stream: boolean
  render: Render
  extract?: boolean
  extractLast?: boolean
  usage?: boolean
  sources?: boolean
  idempotencyKey?: string
  stdin: boolean
}

const EXAMPLES = `
Examples:
  aigw chat -m local/extract -i handbook "How many leave days do I have?"
  git diff | aigw chat -s "Write a one-line commit message"
  aigw chat -x "A shell script that lists the largest files" > largest.sh
  aigw chat -c "And in Python?"
  aigw chat -o json "ping" | jq -r .metadata.served_model
  aigw chat                                  a session; /help lists its commands`

/**
 * Gives a bare `--shield` an empty value. Otherwise commander would take the next word, often the prompt, as the value.
 */
class ChatCommand extends Command {
  override parseOptions(args: string[]) {
    const end = args.includes('--') ? args.indexOf('--') : args.length
    return super.parseOptions(args.map((word, at) => (word === '--shield' && at < end ? '--shield=' : word)))
  }
}

export function toCommand(context: CliContext): Command {
  const command = new ChatCommand('chat')
    .description(
      'Ask a model. The prompt comes from arguments, from stdin, or from both. Without a prompt, a terminal starts a session.',
    )
    .argument('[prompt...]', 'the question')
    .addOption(repeatable(new Option('-m, --model <provider/model>', 'model; repeat it to build a failover chain')))
    .addOption(repeatable(new Option('--fallback <provider/model>', 'next model if the previous one fails')))
    .option('--chain <a,b,c>', 'failover chain; A@8s or A@8s/2s limits an attempt and its first token')
    .addOption(
      new Option('--on <trigger>', 'failures that move on to the next model; repeatable')
        .choices(TRIGGERS)
        .default([])
        .argParser(collectTrigger),
    )
    .addOption(
      new Option('--commit <when>', 'when the model is fixed, so that a later failure cannot move on')
        .choices([...COMMITS.keys()])
        .argParser(toCommit),
    )
    .option('-i, --index <name>', "knowledge base; 'none' for none")
    .option('--no-rag', 'name the index but skip retrieval')
    .option('--policy <name>', 'SMLTP policy')
    .option('--shield [policy]', 'turn the prompt shield on, with a policy: --shield=NAME')
    .option('--no-shield', 'turn the prompt shield off')
    .option('-s, --system <text|@file>', 'system prompt')
    .option('-t, --temperature <n>', '0 to 2')
    .option('--max-tokens <n>', 'limit of the answer')
    .addOption(repeatable(new Option('-f, --file <path>', "add a text file to the prompt, '-' for stdin; repeatable")))
    .option('-c, --continue', 'continue the last conversation of this profile')
    .addOption(new Option('--conversation <id>', 'conversation id; sends no earlier messages').conflicts('continue'))
    .option('--user <id>', 'user to bill (administrators)')
    .option('--no-stream', 'wait for the whole answer')
    .addOption(new Option('--render <when>', 'format Markdown for reading').choices(RENDER).default('auto'))
    .option('-x, --extract', 'print only the first code block')
    .addOption(new Option('--extract-last', 'print only the last code block').conflicts('extract'))
    .option('-u, --usage', 'show tokens and times on stderr')
    .option('--sources', 'show sources on stderr')
    .option('--idempotency-key <key>', 'the same key returns the first answer and bills once')
    .option('--no-stdin', 'ignore piped stdin')
    .addHelpText('after', EXAMPLES)
    .action((words: string[], flags: ChatFlags) => chat(context, words, flags))
  return nameMembers(command, CHAT_FLAGS)
}

/** The values of `--commit`. */
const COMMITS: ReadonlyMap<string, CommitPoint> = new Map([
  ['first-token', 'first_token'],
  ['complete', 'complete'],
])

function toCommit(value: string): CommitPoint {
  const commit = COMMITS.get(value)
  if (commit === undefined)
    throw usageError(`--commit must be one of ${[...COMMITS.keys()].join(', ')}, not '${value}'`)
  return commit
}

function collectTrigger(value: string, all: FailoverTrigger[]): FailoverTrigger[] {
  const trigger = TRIGGERS.find((known) => known === value)
  if (trigger === undefined) throw usageError(`'${value}' is not a trigger`, [`Triggers:  ${TRIGGERS.join(', ')}`])
  return [...all, trigger]
}

/** Sends one question. On a terminal without a prompt, starts a session. */
async function chat(context: CliContext, words: string[], flags: ChatFlags): Promise<void> {
  const settings = await context.settings()
  const show = howToShow(settings, flags)
  const prompt = toPrompt(await gatherPrompt(context, words, flags))
  const before = flags.continue ? await loadConversation(context) : undefined
  const { usage = false, sources = false, idempotencyKey, render } = flags
  const input = await toInput(flags, before)
  if (prompt === '') {
    if (!mayStartSession(context, settings)) throw noPrompt(context)
    assertSession(show, flags)
    const { runSession } = await import('./session/session.ts')
    const defaults = await withDefaultModel(context, input, settings.chat)
    return runSession(context, { input, defaults, render, usage, sources, messages: before?.messages ?? [] })
  }
  const messages = [...(before?.messages ?? []), { role: 'user' as const, content: prompt }]
  const fitting = fitMessages(messages, input.system)
  const text = before === undefined ? { prompt } : { messages: fitting }
  const leftOut = omittedLine(messages.length - fitting.length)
  if (leftOut !== undefined) await context.note(leftOut)
  const stream = show === 'frames' || show === 'code' || (show === 'text' && flags.stream)
  const defaults = await withDefaultModel(context, input, settings.chat)
  const body = toChatRequest(input, text, defaults, stream)
  const block = flags.extractLast ? 'last' : 'first'
  const model = firstModel(body)
  const answer = await ask(context, { body, model, show, block, render, usage, sources, idempotencyKey })
  if (answer.metadata === undefined) return
  const { system } = input
  await keepConversation(context, {
    id: answer.metadata.conversation_id,
    ...(system === undefined ? {} : { system }),
    messages: [...messages, { role: 'assistant', content: answer.text }],
  })
}

async function toInput(flags: ChatFlags, before: Conversation | undefined): Promise<ChatInput> {
  const { system } = flags
  return {
    models: flags.model,
    fallbacks: flags.fallback,
    chain: flags.chain,
    triggers: flags.on,
    commit: flags.commit,
    index: flags.index,
    rag: flags.rag,
    policy: flags.policy,
    shield: flags.shield,
    system: system === undefined ? before?.system : await readSystem(system),
    temperature: flags.temperature,
    maxTokens: flags.maxTokens,
    conversation: flags.conversation ?? before?.id,
    user: flags.user,
  }
}

const mayStartSession = ({ io }: CliContext, { mayPrompt }: Settings): boolean =>
  mayPrompt && io.stdin.isTTY === true && io.stdout.isTTY === true

function assertSession(show: Ask['show'], { idempotencyKey, stream }: ChatFlags): void {
  const hints = ['Give a prompt:  aigw chat "your question"']
  if (show !== 'text') throw usageError('a session prints only the text of its answers', hints)
  if (idempotencyKey !== undefined) throw usageError('--idempotency-key needs a prompt', hints)
  if (!stream) throw usageError('--no-stream needs a prompt, because a session streams its answers', hints)
}

/** `table` prints the text, `ndjson` the frames, and every other format the whole response. */
function howToShow(settings: Settings, { extract = false, extractLast = false }: ChatFlags): Ask['show'] {
  const { format = 'table', field, fields, raw } = settings
  const isText = field === undefined && fields.length === 0 && !raw && format === 'table'
  if (extract || extractLast) {
    if (!isText) throw usageError('a code block is text and has no other format')
    return 'code'
  }
  if (isText) return 'text'
  return format === 'ndjson' && field === undefined && fields.length === 0 && !raw ? 'frames' : 'envelope'
}

async function gatherPrompt(context: CliContext, words: string[], flags: ChatFlags): Promise<PromptParts> {
  const { io } = context
  const { key } = await context.settings()
  const keyTakesStdin = key.kind === 'file' && key.path === '-'
  const wantsStdin = flags.file.includes('-')
  if (wantsStdin && keyTakesStdin) throw usageError('the API key and a file cannot both come from stdin')
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

function noPrompt({ io }: CliContext): Error {
  const where = io.stdin.isTTY === true && io.stdout.isTTY !== true ? ' and stdout is not a terminal' : ''
  return usageError(`no prompt given${where}`, [
    'Ask:   aigw chat -m local/extract "your question"',
    'Pipe:  echo "your question" | aigw chat',
  ])
}
