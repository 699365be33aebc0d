/** Shows live events, and forwards them to a local receiver. */
import { createHmac } from 'node:crypto'
import { Command, Option } from 'commander'
import { parseUrl } from '../../../shared/url.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { toWholeNumber } from '../../input/numbers.ts'
import { repeatable } from '../../input/repeatable.ts'
import { columns } from '../../output/formats.ts'
import type { ReceivedEvent } from './event-stream.ts'
import type { Forwarded } from './forward.ts'

type Flags = { event: string[]; forwardTo?: string; printSecret: boolean; limit?: string }

/** GET /api/admin/webhooks/recent-events as a stream, until Ctrl-C. */
export function toCommand(context: CliContext): Command {
  return new Command('listen')
    .description(
      'Show the events of this tenant as they happen, and forward them to a receiver on this machine, signed.\n' +
        'Needs no endpoint and no public address. Every run signs with the same secret, which --print-secret prints.',
    )
    .addOption(repeatable(new Option('-e, --event <event>', "only these: a name, or 'pii:*'; repeatable")))
    .option('--forward-to <url>', 'POST each event there, as a webhook')
    .option('--print-secret', 'print only the signing secret', false)
    .option('--limit <n>', 'end after so many events')
    .addHelpText(
      'after',
      "\nExample:\n  aigw webhooks listen --event 'pii:*' --forward-to http://localhost:3000/hook\n" +
        'In another terminal:\n  aigw webhooks trigger pii:incident',
    )
    .action((flags: Flags) => listen(context, flags))
}

async function listen(context: CliContext, flags: Flags): Promise<void> {
  const { io } = context
  const url = flags.forwardTo === undefined ? undefined : toReceiver(flags.forwardTo)
  const limit = flags.limit === undefined ? undefined : toWholeNumber(flags.limit, '--limit', { min: 1 })
  const [{ getKey }, { streamPrinter }, { eventMatcher }, { listenToEvents }, { forwardEvent }] = await Promise.all([
    import('../../profile/key-source.ts'),
    import('../../output/stream-printer.ts'),
    import('./event-names.ts'),
    import('./event-stream.ts'),
    import('./forward.ts'),
  ])
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const isWanted = eventMatcher(flags.event)
  const secret = toDevSecret(await getKey(settings, io, context.note))
  if (flags.printSecret) return output.textOrOne(`${secret}\n`, { secret }, { columns: columns({ SECRET: 'secret' }) })
  const show = await streamPrinter<Shown>(context, { name: 'listen', items: 'events', toWords })
  const onReady = () => context.note(`Ready. Signing secret: ${secret}  (Ctrl-C to stop)`)

  let shown = 0
  for await (const event of listenToEvents(context, { onReady })) {
    if (!isWanted(event.type)) continue
    const forwarded = url === undefined ? null : await forwardEvent(event, { url, secret, io })
    await show({ ...event, forwarded })
    shown += 1
    if (shown === limit) return
  }
}

/**
 * Derives the secret from the API key, so that all runs and machines use the same secret and a receiver is configured
 * only once. The key cannot be derived from the secret.
 */
const toDevSecret = (key: string): string =>
  `whsec_dev_${createHmac('sha256', key).update('aigw webhooks listen').digest('hex')}`

type Shown = ReceivedEvent & { forwarded: Forwarded | null }

function toWords({ created, type, id, forwarded }: Shown): string[] {
  const words = [new Date(created * 1000).toTimeString().slice(0, 8), type, id]
  if (forwarded === null) return words
  const { status, duration_ms, error } = forwarded
  return [...words, `-> ${status ?? 'failed'}`, `${duration_ms} ms`, ...(error === null ? [] : [error])]
}

function toReceiver(text: string): URL {
  const url = parseUrl(text)
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw usageError(`--forward-to is not an address: '${text}'`, ['Write it like http://localhost:3000/hook.'])
}
