import { Command } from 'commander'
import { EVENT_CATALOG, TEST_EVENT } from '../../../shared/event-catalog.ts'
import { EVENT_SAMPLES, TEST_SAMPLE } from '../../../shared/event-samples.ts'
import type { CliContext } from '../../context.ts'
import { toJson } from '../../output/formats.ts'
import { isPlain } from '../../output/output.ts'
import { getEvent } from './event-names.ts'

const VIEW = {
  columns: [{ path: 'event' }, { path: 'fires_when', title: 'SENT WHEN', flexible: true }],
  idPath: 'event',
  members: ['event', 'fires_when', 'subscribable'],
}
/** Every event that a receiver may get, in the order of the catalog. */
const EVENTS = [
  ...Object.entries(EVENT_CATALOG).map(([event, fires_when]) => ({ event, fires_when, subscribable: true })),
  {
    event: TEST_EVENT,
    fires_when: 'Sent by `aigw webhooks test` only, whatever the endpoint subscribes to',
    subscribable: false,
  },
]
/** Members of an envelope (spec: Events, Envelope). */
const ENVELOPE_VIEW = {
  columns: [{ path: 'id' }, { path: 'type' }, { path: 'created' }, { path: 'data' }],
  idPath: 'id',
  members: ['id', 'type', 'created', 'data'],
}

export function toCommand(context: CliContext, run = listEvents): Command {
  return new Command('events')
    .description('List the events that an endpoint may receive, or show the body of one. Needs no gateway.')
    .option('--sample <event>', 'a body as a receiver gets it')
    .action((flags: { sample?: string }) => run(context, flags))
}

/** Offline: the catalog is part of the contract. */
export async function listEvents(context: CliContext, { sample }: { sample?: string }): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  if (sample === undefined) return output.list(EVENTS, VIEW)
  const [type, data] = sample === TEST_EVENT ? [sample, TEST_SAMPLE] : sampleOf(sample)
  const body = { id: `evt_test_${'0'.repeat(24)}`, type, created: 1_767_225_600, data }
  if (!isPlain(settings)) return output.one(body, ENVELOPE_VIEW)
  return output.text(toJson(body, { indent: 2, terminal: output.terminal }))
}

function sampleOf(name: string) {
  const type = getEvent(name)
  return [type, EVENT_SAMPLES[type]] as const
}
