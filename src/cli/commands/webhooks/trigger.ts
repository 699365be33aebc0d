/** Sends a sample event. */
import { Command, Option } from 'commander'
import type { z } from 'zod'
import type { SubscribableEvent } from '../../../shared/event-catalog.ts'
import type { TriggerResponse } from '../../../shared/wire/event-feed.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { isObject } from '../../input/from-file.ts'
import { repeatable } from '../../input/repeatable.ts'
import { columns, findAtPath } from '../../output/formats.ts'
import { WEBHOOKS } from './resource.ts'

const VIEW = {
  columns: columns({ ID: 'id', TYPE: 'type', DELIVERY: 'delivery_id' }),
  idPath: 'id',
  members: ['id', 'type', 'created', 'data', 'delivery_id'],
}

type Flags = { set: string[]; edit: boolean; webhook?: string }

export function toCommand(context: CliContext): Command {
  return new Command('trigger')
    .description(
      'Send a sample of an event to every `aigw webhooks listen` of this tenant and, with --webhook, to one endpoint.\n' +
        'Its id begins with evt_test_, and no other endpoint receives it.',
    )
    .argument('<event>', 'its name')
    .addOption(repeatable(new Option('--set <name=value>', 'change a member of its data; repeatable')))
    .option('--edit', 'change its data in $EDITOR first', false)
    .option('--webhook <webhook>', `deliver it to this endpoint too: ${WEBHOOKS.argument}`)
    .addHelpText('after', '\nExample:\n  aigw webhooks trigger api:limit_reached --set keyName=ci --set used=100')
    .action((event: string, flags: Flags) => trigger(context, event, flags))
}

/** POST /api/admin/webhooks/trigger. Throws an error with exit code 3 for an unknown endpoint. */
async function trigger(context: CliContext, event: string, { set, edit, webhook }: Flags): Promise<void> {
  const [{ getEvent }, { EVENT_SAMPLES }, { toId }] = await Promise.all([
    import('./event-names.ts'),
    import('../../../shared/event-samples.ts'),
    import('../../resources/resolve.ts'),
  ])
  const [api, output] = await Promise.all([context.api(), context.output()])
  output.assertShowable(VIEW)
  const type = getEvent(event)
  const sample = EVENT_SAMPLES[type]
  const changes = Object.fromEntries(set.map((text) => toMember(text, type, sample)))
  const data = edit ? await editData(context, { ...sample, ...changes }) : changes
  const endpoint_id = webhook === undefined ? undefined : await toId(context, WEBHOOKS, webhook)
  const { body, raw } = await api.send<z.infer<typeof TriggerResponse>>({
    method: 'POST',
    path: `${WEBHOOKS.path}/trigger`,
    json: { type, data, endpoint_id },
  })
  await output.one({ ...body.event, delivery_id: body.delivery_id }, VIEW, raw)
}

/**
 * Parses NAME=VALUE. Converts the value to the type that this member has in the sample. Throws a usage error for an
 * unknown member.
 */
function toMember(text: string, type: SubscribableEvent, data: object): [string, unknown] {
  const at = text.indexOf('=')
  const [name, value] = [text.slice(0, Math.max(at, 0)), text.slice(at + 1)]
  if (name === '') throw usageError(`--set must be NAME=VALUE, not '${text}'`)
  const sample = findAtPath(data, name)
  if (sample === undefined || name.includes('.')) {
    throw usageError(`${type} has no '${name}'`, [`Its data:  ${Object.keys(data).join(', ')}`])
  }
  if (Array.isArray(sample)) return [name, value.split(',').filter((entry) => entry !== '')]
  if (typeof sample === 'number') {
    if (value.trim() === '' || Number.isNaN(Number(value))) throw usageError(`'${name}' is a number, not '${value}'`)
    return [name, Number(value)]
  }
  return [name, sample === null && value === 'null' ? null : value]
}

async function editData(context: CliContext, data: object): Promise<object> {
  const [{ editText }, { mayPrompt }] = await Promise.all([
    import('../../input/editor.ts'),
    import('../../input/prompt.ts'),
  ])
  if (!mayPrompt(await context.settings(), context.io)) throw usageError('--edit needs a terminal; use --set')
  const text = await editText(`${JSON.stringify(data, null, 2)}\n`, context.io.env, 'event.json')
  try {
    const edited: unknown = JSON.parse(text)
    if (isObject(edited)) return edited
  } catch {}
  throw usageError('the edited text is not a JSON object; nothing was sent')
}
