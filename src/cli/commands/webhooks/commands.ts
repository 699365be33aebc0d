/** Manages webhook endpoints. To start fast, this file loads the event names only if a flag contains an event. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { ALL_EVENTS as EVERY_EVENT } from '../../../shared/event-catalog.ts'
import { WEBHOOK_HELD_COUNTED } from '../../../shared/spec-limits.ts'
import type { RecoverResponse, Webhook } from '../../../shared/wire/webhooks.ts'
import type { CliContext } from '../../context.ts'
import { toSeconds } from '../../input/duration.ts'
import { PAST_FORMS, parsePast } from '../../input/past-time.ts'
import { columns } from '../../output/formats.ts'
import { findOne } from '../../resources/listing.ts'
import { itemPath, withId } from '../../resources/resolve.ts'
import { createVerb, deleteVerb, listVerb, secretVerb, setVerb, showVerb, updateVerb } from '../../resources/verbs.ts'
import { WEBHOOKS } from './resource.ts'

const url = { member: 'url', flag: '--url <url>', help: 'where to deliver' }
const description = { member: 'description', flag: '-d, --description <text>', help: 'its purpose' }
const events = { member: 'events', flag: '-e, --event <event>', isList: true, parse: toSubscription } as const
/** Subscribes to every event. The compiler checks that this value equals EVERY_EVENT. */
const ALL_EVENTS: typeof EVERY_EVENT = '*'

export const commands = {
  create: createVerb(WEBHOOKS, {
    description:
      'Register an endpoint and print its signing secret, once: alone on stdout, or as `secret` of the endpoint with\n' +
      '-o json.',
    fields: [
      { ...url, ask: 'Where to deliver:', parse: (text) => text.trim() },
      description,
      { ...events, help: 'an event to send; repeatable (default: all events)' },
      { member: 'enabled', flag: '--disabled', help: 'deliver nothing yet', sets: { enabled: false } },
    ],
    help:
      '--if-not-exists looks for an endpoint with this address. Addresses need not be unique, so two runs at the same\n' +
      'moment may create two endpoints. The secret of an existing one cannot be shown again.\n\nExample:\n' +
      '  aigw webhooks create --url https://example.com/hook --event pii:incident --save-to hook.secret',
    key: 'url',
    toRequest: (_, input) => ({ events: [ALL_EVENTS], enabled: true, ...input }),
    find: (context, address) =>
      findOne<Webhook>(context, { ...WEBHOOKS, search: address, matches: (webhook) => webhook.url === address }),
    useIt: () => 'aigw webhooks list',
    secret: {
      done: ({ id }) => `Created webhook ${id}.`,
      renewal: ({ id }) => `aigw webhooks rotate-secret ${id}`,
    },
  }),
  list: listVerb(WEBHOOKS, { description: 'List the endpoints of this tenant; never their secrets.' }),
  show: showVerb(WEBHOOKS, 'Show an endpoint and the state of its deliveries; never its secret.'),
  update: updateVerb(WEBHOOKS, {
    description: 'Change the named fields of an endpoint; other fields and its secret stay.',
    fields: [url, description, { ...events, help: "an event to send, or '*'; repeatable, replaces the whole list" }],
    help: 'On and off:  aigw webhooks enable|disable',
  }),
  enable: setVerb(WEBHOOKS, {
    name: 'enable',
    description: 'Deliver to an endpoint again, and reset its failures. Held deliveries stay held until recover.',
    changes: { enabled: true },
    note: noteHeld,
  }),
  disable: setVerb(WEBHOOKS, {
    name: 'disable',
    description: 'Pause an endpoint; its deliveries are held.',
    changes: { enabled: false },
  }),
  delete: deleteVerb(WEBHOOKS, {
    description: 'Delete an endpoint and its secret. Deliveries that are still due are never sent.',
  }),
  'rotate-secret': secretVerb<Webhook>(WEBHOOKS, {
    name: 'rotate-secret',
    description:
      'Give an endpoint a new signing secret and print it, once. The old one expires at once, unless --grace is given.',
    fields: [
      {
        ...{ member: 'overlap_seconds', flag: '--grace <duration>', initially: '0', parse: toSeconds },
        help: 'sign with both secrets for this long, each in a v1 of its own; breaks receivers that read only one v1',
      },
    ],
    question(webhook, { overlap_seconds: seconds }) {
      const stops = seconds === 0 ? 'The current one stops.' : `The current one stops in ${seconds} s.`
      return `Rotate the secret of webhook '${webhook}'? ${stops}`
    },
    done: ({ id }) => `Rotated the secret of webhook ${id}.`,
  }),
  test: (context: CliContext) =>
    new Command('test')
      .description('Send a webhook:test event to an endpoint.')
      .argument('<webhook>', WEBHOOKS.argument)
      .option('--wait', 'wait for the receiver and show its response; exit 10 if it did not acknowledge', false)
      .action(async (webhook: string, flags: { wait: boolean }) => {
        const [api, { showStarted }] = await Promise.all([context.api(), import('./delivery.ts')])
        const answer = await withId(context, WEBHOOKS, webhook, (id) =>
          api.send({ method: 'POST', path: `${itemPath(WEBHOOKS, id)}/test` }),
        )
        await showStarted(context, answer, flags)
      }),
  recover: (context: CliContext) =>
    new Command('recover')
      .description('Send an endpoint the events since a time that failed, were held or were never dispatched.')
      .argument('<webhook>', WEBHOOKS.argument)
      .requiredOption('--since <when>', PAST_FORMS)
      .action((webhook: string, { since }: { since: string }) =>
        recover(context, webhook, parsePast(since, '--since', context)),
      ),
}

async function toSubscription(name: string): Promise<string> {
  return name === ALL_EVENTS ? name : (await import('./event-names.ts')).getEvent(name)
}

async function noteHeld(context: CliContext, { id, heldDeliveries: held }: Webhook): Promise<void> {
  if (held === 0) return
  const deliveries = held < WEBHOOK_HELD_COUNTED ? held : `${held} or more`
  await context.note(`note: ${deliveries} deliveries were held; send them:  aigw webhooks recover ${id} --since 7d`)
}

const RECOVERED_VIEW = { columns: columns({ RECOVERED: 'recovered' }), members: ['recovered'] }

/** POST /api/admin/webhooks/{id}/recover, repeated until no event is left to recover. */
async function recover(context: CliContext, webhook: string, since: string): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  output.assertShowable(RECOVERED_VIEW)
  await withId(context, WEBHOOKS, webhook, async (id) => {
    const request = { method: 'POST', path: `${itemPath(WEBHOOKS, id)}/recover`, json: { since } }
    let recovered = 0
    while (true) {
      const { body, raw } = await api.send<z.infer<typeof RecoverResponse>>(request)
      recovered += body.recovered
      if (settings.raw) await output.bytes(raw)
      if (!body.more || body.recovered === 0) break
      await context.note(`note: ${recovered} are scheduled; continuing`)
    }
    if (!settings.raw) await output.one({ recovered }, RECOVERED_VIEW)
  })
}
