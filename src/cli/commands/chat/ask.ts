/** Asks one question and prints the answer in the chosen form. */
import type { ChatResponse } from '../../../shared/wire/chat.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { columns, toJson } from '../../output/formats.ts'
import { createProgress } from '../../output/progress.ts'
import { type Answer, type Listener, type Question, receive } from './answer.ts'
import { codeBlocksIn } from './fence.ts'
import { finishLine, listsItsSources, sourcesLine, usageLine } from './notes.ts'
import { type Render, type ShownText, showText } from './shown-text.ts'

const MEMBERS: Record<keyof ChatResponse, true> = {
  success: true,
  id: true,
  object: true,
  created: true,
  model: true,
  choices: true,
  usage: true,
  metadata: true,
}

const VIEW = {
  columns: columns({
    ID: 'id',
    MODEL: 'model',
    FINISH: 'choices.0.finish_reason',
    ANSWER: 'choices.0.message.content',
  }),
  idPath: 'id',
  members: Object.keys(MEMBERS),
}

export type Ask = {
  body: Question['body'] & { index: string }
  /** The model, for the progress line. */
  model: string
  /** The output: the streamed text, one code block, the raw frames, or the whole response. */
  show: 'text' | 'code' | 'frames' | 'envelope'
  /** Which code block to print if the answer contains several. */
  block: 'first' | 'last'
  render: Render
  idempotencyKey: string | undefined
  usage: boolean
  sources: boolean
  /** This signal stops only the answer, not the program. */
  stop?: AbortSignal
  /** This function is called with every chunk of text, even if the answer is later truncated. */
  onText?(text: string): void
}

/** Sends one question, prints the answer and returns it. Throws an error if the answer is incomplete. */
export async function ask(context: CliContext, input: Ask): Promise<Answer> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  // Rejects unknown fields before it sends the request, because every answer is billed.
  if (input.show === 'envelope') output.assertShowable(VIEW)
  if (settings.verbose) await context.note(`index: ${input.body.index}`)
  const text = input.show === 'text' ? await showText(context, input.render) : undefined
  const progress = createProgress(context.io, settings)
  progress.show(`Waiting for ${input.model}`)
  let answer: Answer
  try {
    answer = await receive(context, input, listenerOf(input, { output, text, onFirst: progress.end }))
  } catch (error) {
    progress.end()
    // If writing to stdout failed, printing the truncation mark fails too. Only the first error is reported.
    await text?.breakOff(markOf(error, input, context)).catch(() => {})
    throw error
  } finally {
    progress.end()
  }
  const { whole } = answer
  if (text !== undefined) await text.finish()
  else if (input.show === 'code') await output.textStream()(await chooseBlock(context, answer.text, input.block))
  else if (whole !== undefined) await output.one(whole.body, VIEW, whole.raw)
  await noteEnd(context, input, answer)
  return answer
}

/** Returns the text that marks a truncated answer, or undefined if the program was stopped. */
function markOf(error: unknown, { stop }: Ask, { io }: CliContext): string | undefined {
  if (io.signal.aborted) return undefined
  if (stop?.aborted) return 'stopped'
  return error instanceof CliError ? 'the answer broke off here' : undefined
}

type Show = { output: Awaited<ReturnType<CliContext['output']>>; text: ShownText | undefined; onFirst(): void }

function listenerOf({ show, onText }: Ask, to: Show): Listener {
  return {
    async text(piece) {
      if (show !== 'code') to.onFirst()
      onText?.(piece)
      await to.text?.write(piece)
    },
    async frame({ frame, json }) {
      if (show !== 'frames') return
      to.onFirst()
      await to.output.text(json.includes('\n') ? toJson(frame, ONE_LINE) : `${json}\n`)
    },
  }
}

const ONE_LINE = { indent: 0, terminal: false }

/**
 * If the answer has no complete code block, prints the whole answer to stderr, because it was billed. Then throws an
 * error with exit code 1.
 */
async function chooseBlock(context: CliContext, text: string, which: 'first' | 'last'): Promise<string> {
  const block = codeBlocksIn(text).at(which === 'first' ? 0 : -1)
  if (block !== undefined) return block
  await context.note(text, { lines: true })
  throw new CliError(EXIT.error, 'the answer contains no complete code block', {
    code: 'NO_CODE_BLOCK',
    hints: ['The text above is all of it.'],
  })
}

async function noteEnd(context: CliContext, input: Ask, answer: Answer): Promise<void> {
  const finish = finishLine(answer.finish_reason)
  if (finish !== undefined) await context.note(finish)
  const { metadata, usage } = answer
  if (metadata === undefined) return
  const printsSources = input.sources && !(input.show === 'text' && listsItsSources(metadata, answer.finish_reason))
  if (printsSources) await context.note(sourcesLine(metadata))
  if (input.usage && usage !== undefined) await context.note(usageLine({ ...answer, metadata, usage }))
}
