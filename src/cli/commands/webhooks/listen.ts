import { createHmac } from 'node:crypto'
import { Command, Option } from 'commander'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { repeatable } from '../../input/repeatable.ts'
import { toJson } from '../../output/formats.ts'
import { isPlain, type Output } from '../../output/output.ts'
import { getKey } from '../../profile/key-source.ts'
import type { Settings } from '../../profile/profile.ts'
import { eventMatcher } from './event-names.ts'
import { listenToEvents, type ReceivedEvent } from './event-stream.ts'
import { type Forwarded, forwardEvent } from './forward.ts'

type Flags = { event: string[]; forwardTo?: string; printSecret: boolean; limit?: string }
export type ListenInput = {
  /** Names and patterns such as `pii:*`; every event when empty. */
  events: string[]
  forwardTo: URL | undefined
  printSecret: boolean
  /** Ends after so many events. */
  limit: number | undefined
}

export function toCommand(context: CliContext, run = listen): Command {
  return new Command('listen')
    .description(
      'Show the events of this tenant as they happen, and forward them to a receiver on this machine, signed.\n' +
        'Needs no endpoint and no public address. Every run signs with the same secret, which --print-secret prints.',
    )
    .addOption(repeatable(new Option('-e, --event <event>', "only these: a name, or 'pii:*'; repeatable")))
    .option('--forward-to <url>', 'POST each event there, as a webhook')
    .option('--print-secret', 'print the signing secret, and nothing else', false)
    .option('--limit <n>', 'end after so many events')
    .addHelpText(
      'after',
      "\nExample:\n  aigw webhooks listen --event 'pii:*' --forward-to http://localhost:3000/hook\n" +
        'In another terminal:\n  aigw webhooks trigger pii:incident',
    )
    .action(({ event, forwardTo, limit, printSecret }: Flags) =>
      run(context, {
        events: event,
        forwardTo: forwardTo === undefined ? undefined : toReceiver(forwardTo),
        printSecret,
        limit: limit === undefined ? undefined : toLimit(limit),
      }),
    )
}

/** GET /api/admin/webhooks/recent-events as a stream, until it is stopped. */
export async function listen(context: CliContext, input: ListenInput): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const wants = eventMatcher(input.events)
  const secret = toDevSecret(await getKey(settings, context.io, context.note))
  if (input.printSecret) return printSecret(output, settings, secret)
  const show = shownIn(settings, output)
  const onReady = () => context.note(`Ready. Signing secret: ${secret}  (Ctrl-C to stop)`)

  let shown = 0
  for await (const event of listenToEvents(context, { onReady })) {
    if (!wants(event.type)) continue
    const { io } = context
    const forwarded = input.forwardTo && (await forwardEvent(event, { url: input.forwardTo, secret, io }))
    await show(event, forwarded)
    shown += 1
    if (shown === input.limit) return
  }
}

/**
 * Follows from the API key, so that each run on each machine signs alike and a receiver is configured once. The key cannot
 * be told from it.
 */
const toDevSecret = (key: string): string =>
  `whsec_dev_${createHmac('sha256', key).update('aigw webhooks listen').digest('hex')}`

const printSecret = (output: Output, settings: Settings, secret: string): Promise<void> =>
  isPlain(settings) ? output.text(`${secret}\n`) : output.one({ secret }, { columns: [{ path: 'secret' }] })

type Show = (event: ReceivedEvent, forwarded: Forwarded | undefined) => Promise<void>

/** How each event is printed. Throws a usage error for an output that a stream has not. */
function shownIn(settings: Settings, output: Output): Show {
  const { format = 'table', raw, field, fields } = settings
  if (raw || field !== undefined || fields.length > 0) throw usageError('listen prints whole events')
  switch (format) {
    case 'table':
      return (event, forwarded) => output.text(`${toLine(event, forwarded)}\n`)
    case 'json':
    case 'ndjson':
      return (event, forwarded) =>
        output.text(toJson({ ...event, forwarded: forwarded ?? null }, { indent: 0, terminal: output.terminal }))
    case 'id':
      return ({ id }) => output.text(`${id}\n`)
    case 'yaml':
    case 'tsv':
      throw usageError(`listen does not print ${format}`, ['Use another format: -o table, ndjson or id.'])
  }
}

function toLine({ created, type, id }: ReceivedEvent, forwarded: Forwarded | undefined): string {
  const words = [new Date(created * 1000).toTimeString().slice(0, 8), type, id]
  if (forwarded !== undefined) {
    words.push(`-> ${forwarded.status ?? 'failed'}`, `${forwarded.duration_ms} ms`)
    if (forwarded.error !== null) words.push(forwarded.error)
  }
  // Names of others are on one line here, whatever they hold.
  return words.join('  ').replace(/[\r\n]+/g, ' ')
}

function toReceiver(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw usageError(`--forward-to is not an address: '${text}'`, ['Write it like http://localhost:3000/hook.'])
}

function toLimit(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw usageError(`--limit must be a whole number from 1 on, not '${text}'`)
}
