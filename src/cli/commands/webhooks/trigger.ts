import { Command, Option } from 'commander'
import type { z } from 'zod'
import type { SubscribableEvent } from '../../../shared/event-catalog.ts'
import { EVENT_SAMPLES } from '../../../shared/event-samples.ts'
import type { TriggerResponse } from '../../../shared/wire/event-feed.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { editText } from '../../input/editor.ts'
import { isObject } from '../../input/from-file.ts'
import { mayPrompt } from '../../input/prompt.ts'
import { repeatable } from '../../input/repeatable.ts'
import { findAtPath } from '../../output/formats.ts'
import { toId } from '../../resources/resolve.ts'
import { getEvent } from './event-names.ts'
import { WEBHOOKS } from './resource.ts'

const TRIGGER_PATH = `${WEBHOOKS.path}/trigger`
const VIEW = {
  columns: [{ path: 'id' }, { path: 'type' }, { path: 'delivery_id', title: 'DELIVERY' }],
  idPath: 'id',
  members: ['id', 'type', 'created', 'data', 'delivery_id'],
}

type Flags = { set: string[]; edit: boolean; webhook?: string }
export type TriggerInput = Flags & { event: string }

export function toCommand(context: CliContext, run = trigger): Command {
  return new Command('trigger')
    .description(
      'Send a sample of an event to every `aigw webhooks listen` of this tenant and, with --webhook, to one endpoint.\n' +
        'It is no event of the tenant: its id begins with evt_test_, and no other endpoint receives it.',
    )
    .argument('<event>', 'its name')
    .addOption(repeatable(new Option('--set <name=value>', 'change a member of its data; repeatable')))
    .option('--edit', 'change its data in $EDITOR first', false)
    .option('--webhook <webhook>', `deliver it to this endpoint too: ${WEBHOOKS.argument}`)
    .addHelpText('after', '\nExample:\n  aigw webhooks trigger api:limit_reached --set keyName=ci --set used=100')
    .action((event: string, flags: Flags) => run(context, { event, ...flags }))
}

/** POST /api/admin/webhooks/trigger. Throws exit 3 for an endpoint that does not exist. */
export async function trigger(context: CliContext, { event, set, edit, webhook }: TriggerInput): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  output.assertShowable(VIEW)
  const type = getEvent(event)
  const changes = Object.fromEntries(set.map((text) => toMember(text, type)))
  const data = edit ? await editData(context, { ...EVENT_SAMPLES[type], ...changes }) : changes
  const endpoint_id = webhook === undefined ? undefined : await toId(context, WEBHOOKS, webhook)
  const { body, raw } = await api.send<z.infer<typeof TriggerResponse>>({
    method: 'POST',
    path: TRIGGER_PATH,
    json: { type, data, endpoint_id },
  })
  await output.one({ ...body.event, delivery_id: body.delivery_id }, VIEW, raw)
}

/** A member of the data, in the kind of value that the sample has there. Throws a usage error for one it has not. */
function toMember(text: string, type: SubscribableEvent): [string, unknown] {
  const at = text.indexOf('=')
  const [name, value] = [text.slice(0, Math.max(at, 0)), text.slice(at + 1)]
  if (name === '') throw usageError(`--set must be NAME=VALUE, not '${text}'`)
  const sample = findAtPath(EVENT_SAMPLES[type], name)
  if (sample === undefined || name.includes('.')) {
    throw usageError(`${type} has no '${name}'`, [`Its data:  ${Object.keys(EVENT_SAMPLES[type]).join(', ')}`])
  }
  if (Array.isArray(sample)) return [name, value.split(',').filter((entry) => entry !== '')]
  if (typeof sample === 'number') {
    if (value.trim() === '' || Number.isNaN(Number(value))) throw usageError(`'${name}' is a number, not '${value}'`)
    return [name, Number(value)]
  }
  return [name, sample === null && value === 'null' ? null : value]
}

async function editData(context: CliContext, data: object): Promise<object> {
  if (!mayPrompt(await context.settings(), context.io)) throw usageError('--edit needs a terminal; use --set')
  const text = await editText(`${JSON.stringify(data, null, 2)}\n`, context.io.env, 'event.json')
  try {
    const edited: unknown = JSON.parse(text)
    if (isObject(edited)) return edited
  } catch {}
  throw usageError('what was edited is no JSON object; nothing was sent')
}
