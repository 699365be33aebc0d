import { ALL_EVENTS } from '../../../shared/event-catalog.ts'
import { WEBHOOK_HELD_COUNTED } from '../../../shared/spec-limits.ts'
import type { Webhook } from '../../../shared/wire/webhooks.ts'
import type { CliContext } from '../../context.ts'
import { findOne } from '../../resources/listing.ts'
import { createVerb, deleteVerb, listVerb, secretVerb, setVerb, showVerb, updateVerb } from '../../resources/verbs.ts'
import { toSubscription } from './event-names.ts'
import { WEBHOOKS } from './resource.ts'
import { toSeconds } from './signing-input.ts'

const url = { member: 'url', flag: '--url <url>', help: 'where to deliver' }
const description = { member: 'description', flag: '-d, --description <text>', help: 'its purpose' }
const events = { member: 'events', flag: '-e, --event <event>', isList: true, parse: toSubscription } as const

export const commands = {
  create: createVerb(WEBHOOKS, {
    description:
      'Register an endpoint and print its signing secret, once: alone on stdout, or as `secret` of the endpoint with\n' +
      '-o json.',
    fields: [
      { ...url, ask: 'Where to deliver:', parse: trim },
      description,
      { ...events, help: 'an event to send; repeatable (default: all events)' },
      { member: 'enabled', flag: '--disabled', help: 'deliver nothing yet', sets: { enabled: false } },
    ],
    help:
      '--if-not-exists looks for an endpoint with this address. Addresses need not be unique, so two runs at the same\n' +
      'moment may make two. The secret of an existing one cannot be shown again.\n\nExample:\n' +
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
    description: 'Change the named fields of an endpoint; the rest stays as it is, including its secret.',
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
    description: 'Deliver nothing to an endpoint for now; its deliveries are held.',
    changes: { enabled: false },
  }),
  delete: deleteVerb(WEBHOOKS, {
    description: 'Delete an endpoint and its secret. Deliveries that are still due are never sent.',
  }),
  'rotate-secret': secretVerb<Webhook>(WEBHOOKS, {
    name: 'rotate-secret',
    description:
      'Give an endpoint a new signing secret and print it, once. The old one stops at once, unless --grace is given.',
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
}

async function noteHeld(context: CliContext, { id, heldDeliveries: held }: Webhook): Promise<void> {
  if (held === 0) return
  const deliveries = held < WEBHOOK_HELD_COUNTED ? held : `${held} or more`
  await context.note(`note: ${deliveries} deliveries were held; send them:  aigw webhooks recover ${id} --since 7d`)
}

function trim(text: string): string {
  return text.trim()
}
