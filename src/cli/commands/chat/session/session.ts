/** Runs an interactive session of questions and slash commands. */
import type { CliContext } from '../../../context.ts'
import { CliError, describeError } from '../../../errors.ts'
import { editText } from '../../../input/editor.ts'
import { forTerminal, forTerminalLine } from '../../../output/terminal-text.ts'
import type { ChatDefaults } from '../../../profile/config-files.ts'
import { fetchModels } from '../../models/commands.ts'
import { ask } from '../ask.ts'
import { keepConversation, type Message } from '../conversation.ts'
import { type ChatInput, firstModel, toPrompt } from '../input.ts'
import { omittedLine } from '../notes.ts'
import type { Render } from '../shown-text.ts'
import { loadHistory } from './history.ts'
import { type Keyboard, openKeyboard } from './keyboard.ts'
import { chainOf, completeLine, findSlashCommand, indexOf, type Outcome } from './slash-commands.ts'
import { countOmitted, type SessionState, toConversation, toRequest, withAnswer, withInput, withPart } from './state.ts'

/** The name of the file that the editor opens. Editors recognise its ending as Markdown. */
const EDITED = 'message.md'
const HOW_TO_EXIT = 'Ctrl-D or /exit leaves, /help lists the commands.'

export type SessionInput = {
  input: ChatInput
  /** The defaults of the profile, with a model. */
  defaults: ChatDefaults
  render: Render
  usage: boolean
  sources: boolean
  /** The earlier messages of the conversation, given with `--continue`. */
  messages: Message[]
}

type Session = { context: CliContext; keyboard: Keyboard; options: SessionInput; say(text: string): void }

/** Thrown when the user stops an answer. */
class Stopped extends Error {
  override name = 'Stopped'
}

/** Runs the session until Ctrl-D or `/exit`. Reports failures and continues. */
export async function runSession(context: CliContext, options: SessionInput): Promise<void> {
  const { io } = context
  const settings = await context.settings()
  let state: SessionState = withInput(
    {
      input: options.input,
      defaults: options.defaults,
      turns: options.messages,
      files: [],
      asked: '',
      answer: undefined,
      total: { answers: 0, prompt_tokens: 0, completion_tokens: 0 },
    },
    {},
  )
  let models: Promise<string[]> | undefined
  const modelNames = () => {
    models ??= fetchModels(context).then((list) =>
      // Omits names with control characters, because readline inserts the chosen name into the line.
      list.models.map(({ id }) => id).filter((id) => forTerminalLine(id) === id),
    )
    return models
  }
  const say = (text: string) => void io.stdout.write(`${forTerminal(text)}\n`)
  const report = (error: unknown) => {
    if (io.signal.aborted || !(error instanceof CliError)) throw error
    io.stderr.write(`${describeError(error).map(forTerminal).join('\n')}\n`)
  }
  const keyboard = openKeyboard({
    io,
    history: await loadHistory(io.env),
    howToExit: HOW_TO_EXIT,
    complete: (line) => completeLine(line, modelNames),
    edit: (text) =>
      editText(text, io.env, EDITED).catch((error: unknown) => {
        report(error)
        return text
      }),
  })
  const session: Session = { context, keyboard, options, say }
  try {
    if (!settings.quiet)
      say(state.turns.length === 0 ? HOW_TO_EXIT : `Continuing after ${state.turns.length} messages. ${HOW_TO_EXIT}`)
    let fill = ''
    for (;;) {
      const message = await keyboard.readMessage(promptOf(state), fill)
      fill = ''
      if (message === undefined) return
      try {
        const found = findSlashCommand(message)
        const outcome: Outcome = found === undefined ? { ask: message } : await found.command.run(state, found.rest)
        state = outcome.state ?? state
        if (outcome.emit !== undefined) io.stdout.write(outcome.emit)
        if (outcome.say !== undefined) say(outcome.say)
        if (outcome.leave) return
        if (outcome.ask !== undefined) state = await exchange(state, outcome.ask, session, report)
        const { edit } = outcome
        if (edit !== undefined) fill = await keyboard.lend(() => editText(edit, io.env, EDITED))
      } catch (error) {
        report(error)
      }
    }
  } finally {
    keyboard.close()
  }
}

/** `openai/gpt-4o @handbook > ` */
function promptOf(state: SessionState): string {
  const [first = '', ...others] = chainOf(state).split(',')
  const index = indexOf(state)
  const more = others.length === 0 ? '' : ` +${others.length}`
  return `${first.replace(/@[^@]*$/, '')}${more}${index === 'Zero-Knowledge' ? '' : ` @${index}`} > `
}

/** Sends one question with the earlier messages, and returns the state with the answer. */
async function exchange(
  before: SessionState,
  text: string,
  { context, keyboard, options }: Session,
  report: (error: unknown) => void,
): Promise<SessionState> {
  const content = toPrompt({ files: before.files, piped: '', words: [text] })
  const state: SessionState = {
    ...before,
    asked: content,
    files: [],
    turns: [...before.turns, { role: 'user', content }],
  }
  const body = toRequest(state)
  const leftOut = omittedLine(countOmitted(state))
  if (leftOut !== undefined) await context.note(leftOut)
  const controller = new AbortController()
  const endAnswer = keyboard.whileAnswering(() => controller.abort(new Stopped('stopped')))
  let received = ''
  let after: SessionState
  try {
    const answer = await ask(context, {
      ...{ body, model: firstModel(body), show: 'text', block: 'first', idempotencyKey: undefined },
      ...{ render: options.render, usage: options.usage, sources: options.sources },
      stop: controller.signal,
      onText(piece) {
        received += piece
      },
    })
    after = withAnswer(state, answer)
  } catch (error) {
    const isStopped = error instanceof Stopped
    if (!isStopped) report(error)
    after = withPart(state, received, isStopped ? 'stopped' : 'broken off')
  } finally {
    endAnswer()
  }
  const conversation = toConversation(after)
  if (conversation !== undefined) await keepConversation(context, conversation)
  return after
}
