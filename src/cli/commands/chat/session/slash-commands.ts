/** The slash commands of a session. */
import { open } from 'node:fs/promises'
import { basename } from 'node:path'
import { findNearestName } from '../../../../shared/nearest-name.ts'
import { failedToWrite, unwritable, usageError } from '../../../errors.ts'
import { readText } from '../../../input/text-input.ts'
import { toJson } from '../../../output/formats.ts'
import { forTerminalLine } from '../../../output/terminal-text.ts'
import { toIndex } from '../input.ts'
import { sourcesLine, usageLine } from '../notes.ts'
import { readSystem } from '../text-files.ts'
import { type SessionState, toTranscript, withInput, withoutLastQuestion } from './state.ts'

/** The result of a slash command. Omitted members change nothing. */
export type Outcome = {
  state?: SessionState
  /** Lines to print. */
  say?: string
  /** Escape sequences for the terminal. */
  emit?: string
  /** A question to send immediately. */
  ask?: string
  /** A text to open in the editor. The edited text prefills the next message. */
  edit?: string
  leave?: true
}

type SlashCommand = {
  name: string
  args: string
  summary: string
  /** Completions of the argument. If `models` is set, the list also contains the names of models. */
  words?: string[]
  models?: true
  run(state: SessionState, rest: string): Outcome | Promise<Outcome>
}

const NONE = 'none'
const HISTORY_CHARS = 72

const orNone = (text: string): string | undefined => (text.toLowerCase() === NONE ? undefined : text)

/** Creates a command that changes a setting. Without an argument, the command shows the current value. */
const setting =
  (
    show: (state: SessionState) => string,
    set: (state: SessionState, rest: string) => SessionState | Promise<SessionState>,
  ) =>
  async (state: SessionState, rest: string): Promise<Outcome> => {
    const changed = rest === '' ? state : await set(state, rest)
    return { state: changed, say: show(changed) }
  }

export const chainOf = ({ input, defaults }: SessionState): string =>
  input.chain ?? [...(input.models.length === 0 ? [defaults.model ?? ''] : input.models), ...input.fallbacks].join(',')

export const indexOf = ({ input, defaults }: SessionState): string => toIndex(input.index, defaults.index)

const COMMANDS: SlashCommand[] = [
  { name: 'help', args: '', summary: 'this list', run: () => ({ say: helpText() }) },
  {
    name: 'model',
    args: '[MODEL]',
    summary: 'show or change the model',
    models: true,
    run: setting(
      (state) => `model: ${chainOf(state)}`,
      (state, rest) => withInput(state, { models: [rest], fallbacks: [], chain: undefined }),
    ),
  },
  {
    name: 'chain',
    args: '[A,B,C]',
    summary: 'show or change the failover chain; A@8s/2s limits an attempt',
    models: true,
    run: setting(
      (state) => `chain: ${chainOf(state)}`,
      (state, rest) => withInput(state, { models: [], fallbacks: [], chain: rest }),
    ),
  },
  {
    name: 'index',
    args: '[NAME|none]',
    summary: 'show or change the knowledge base',
    words: [NONE],
    run: setting(
      (state) => `index: ${indexOf(state)}`,
      (state, rest) => withInput(state, { index: rest }),
    ),
  },
  {
    name: 'policy',
    args: '[NAME|none]',
    summary: 'show or change the SMLTP policy',
    words: [NONE],
    run: setting(
      ({ input, defaults }) => `policy: ${input.policy ?? defaults.policy ?? "the gateway's default"}`,
      (state, rest) => withInput(state, { policy: orNone(rest) }),
    ),
  },
  {
    name: 'shield',
    args: 'on|off',
    summary: 'turn the prompt shield on or off',
    words: ['on', 'off'],
    run: setting(
      ({ input: { shield } }) =>
        `shield: ${shield === undefined ? "the gateway's default" : shield === false ? 'off' : 'on'}`,
      (state, rest) => {
        if (rest !== 'on' && rest !== 'off') throw usageError('/shield is on or off')
        return withInput(state, { shield: rest === 'on' ? '' : false })
      },
    ),
  },
  {
    name: 'system',
    args: '[TEXT|@FILE|none]',
    summary: 'show or change the system prompt',
    words: [NONE],
    run: setting(
      ({ input }) => `system: ${input.system ?? NONE}`,
      async (state, rest) => withInput(state, { system: orNone(rest) && (await readSystem(rest)) }),
    ),
  },
  {
    name: 'set',
    args: '[temperature|max-tokens VALUE|none]',
    summary: 'show or change temperature and max-tokens',
    words: ['temperature', 'max-tokens'],
    run: setting(
      ({ input }) => `temperature: ${input.temperature ?? 'default'}\nmax-tokens: ${input.maxTokens ?? 'default'}`,
      (state, rest) => {
        const [name = '', value = ''] = rest.split(/\s+/)
        if (value !== '' && name === 'temperature') return withInput(state, { temperature: orNone(value) })
        if (value !== '' && name === 'max-tokens') return withInput(state, { maxTokens: orNone(value) })
        throw usageError('/set takes temperature or max-tokens, and a value')
      },
    ),
  },
  {
    name: 'file',
    args: 'PATH',
    summary: 'add a text file to the next message',
    async run(state, rest) {
      if (rest === '') return { say: state.files.map(({ name }) => name).join('\n') || 'No files are attached.' }
      const file = { name: basename(rest), text: await readText(rest) }
      return { state: { ...state, files: [...state.files, file] }, say: `${file.name} is sent with the next message.` }
    },
  },
  {
    name: 'retry',
    args: '',
    summary: 'ask the last question again',
    run(state) {
      if (state.asked === '') throw usageError('there is no question yet')
      return { state: withoutLastQuestion(state), ask: state.asked }
    },
  },
  {
    name: 'edit',
    args: '',
    summary: 'edit the last question in the editor',
    run: ({ asked }) => ({ edit: asked }),
  },
  {
    name: 'copy',
    args: '',
    summary: 'copy the last answer, if the terminal allows it (OSC 52)',
    run(state) {
      const encoded = Buffer.from(lastAnswer(state)).toString('base64')
      return { emit: `\x1b]52;c;${encoded}\x07`, say: 'Sent to the clipboard of the terminal.' }
    },
  },
  {
    name: 'save',
    args: 'FILE',
    summary: 'write the conversation into a new Markdown file, mode 0600',
    async run(state, rest) {
      if (rest === '') throw usageError('/save needs the name of a file')
      await writeNew(rest, toTranscript(state))
      return { say: `Saved ${state.turns.length} messages in ${rest}.` }
    },
  },
  {
    name: 'sources',
    args: '',
    summary: 'sources of the last answer',
    run: ({ answer }) => ({
      say: answer?.metadata === undefined ? 'There is no answer yet.' : sourcesLine(answer.metadata),
    }),
  },
  {
    name: 'usage',
    args: '',
    summary: 'tokens and times of the last answer, and of the session',
    run({ answer, total }) {
      const { answers, prompt_tokens, completion_tokens } = total
      const sum = `session: ${answers} answers, ${prompt_tokens} in / ${completion_tokens} out`
      const { metadata, usage } = answer ?? {}
      if (answer === undefined || metadata === undefined || usage === undefined) return { say: sum }
      return { say: `${usageLine({ ...answer, metadata, usage })}\n${sum}` }
    },
  },
  {
    name: 'json',
    args: '',
    summary: 'the last answer as JSON',
    run({ answer }) {
      if (answer === undefined) return { say: 'There is no answer yet.' }
      const { text, finish_reason, usage, metadata } = answer
      const shown = { content: text, finish_reason, usage, metadata }
      return { say: toJson(shown, { indent: 2, terminal: true }).trimEnd() }
    },
  },
  {
    name: 'history',
    args: '',
    summary: 'the messages of this conversation',
    run: ({ turns }) => ({
      say:
        turns
          .map(({ role, content, cut }) => {
            const line = forTerminalLine(content)
            const text = line.length > HISTORY_CHARS ? `${line.slice(0, HISTORY_CHARS)}…` : line
            return `${role === 'user' ? '>' : ' '} ${text}${cut === undefined ? '' : ` (${cut})`}`
          })
          .join('\n') || 'There are no messages yet.',
    }),
  },
  { name: 'clear', args: '', summary: 'clear the screen', run: () => ({ emit: '\x1b[H\x1b[2J\x1b[3J' }) },
  {
    name: 'new',
    args: '',
    summary: 'start a new conversation',
    run: (state) => ({
      state: {
        ...state,
        turns: [],
        files: [],
        asked: '',
        answer: undefined,
        input: { ...state.input, conversation: undefined },
      },
      say: 'A new conversation.',
    }),
  },
  { name: 'exit', args: '', summary: 'leave, like Ctrl-D', run: () => ({ leave: true }) },
]

/**
 * Returns undefined if the line is a message, for instance if it begins with a path. Throws a usage error for an
 * unknown command.
 */
export function findSlashCommand(message: string): { command: SlashCommand; rest: string } | undefined {
  const [, name, rest = ''] = /^\/([a-z-]+)(?:\s+(.*))?$/s.exec(message.trimEnd()) ?? []
  if (name === undefined) return undefined
  const command = COMMANDS.find((each) => each.name === name)
  if (command !== undefined) return { command, rest: rest.trim() }
  const nearest = findNearestName(
    name,
    COMMANDS.map((each) => each.name),
  )
  throw usageError(`there is no command /${name}`, [
    ...(nearest === undefined ? [] : [`Did you mean /${nearest}?`]),
    'All commands:  /help. Put a space before a message that begins with a slash.',
  ])
}

/** Returns the completions of a line. Each completion is a whole line: a command, or a command with an argument. */
export async function completeLine(line: string, models: () => Promise<string[]>): Promise<string[]> {
  const [, name = '', word] = /^\/([a-z-]*)(?:\s+(\S*))?$/.exec(line) ?? []
  if (!line.startsWith('/')) return []
  if (word === undefined) return COMMANDS.map((each) => `/${each.name} `).filter((each) => each.startsWith(line))
  const command = COMMANDS.find((each) => each.name === name)
  const [, done = '', begun = ''] = /^(.*,)?(.*)$/.exec(word) ?? []
  const words = [...(command?.words ?? []), ...(command?.models ? await models() : [])]
  return words.filter((each) => each.startsWith(begun)).map((each) => `/${name} ${done}${each}`)
}

function helpText(): string {
  const left = COMMANDS.map(({ name, args }) => `/${name} ${args}`)
  const width = Math.max(...left.map((text) => text.length)) + 2
  const commands = COMMANDS.map(({ summary }, at) => `${(left[at] ?? '').padEnd(width)}${summary}`)
  const keys = [
    'Ctrl-C stops an answer, Ctrl-D leaves, Ctrl-G opens the editor, Tab completes.',
    'Several lines: paste them, end a line with \\, or put """ before and after.',
  ]
  return [...commands, '', ...keys].join('\n')
}

function lastAnswer({ turns }: SessionState): string {
  const last = turns.findLast(({ role }) => role === 'assistant')
  if (last === undefined) throw usageError('there is no answer yet')
  return last.content
}

async function writeNew(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o600).catch(failedToWrite(path))
  try {
    await file.writeFile(text)
  } catch (error) {
    throw unwritable(path, error)
  } finally {
    await file.close()
  }
}
