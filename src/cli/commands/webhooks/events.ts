/** Lists the events of the catalogue. The API defines a fixed catalogue, so no request is needed. */
import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { columns, flexible, toJson } from '../../output/formats.ts'

const catalogue = () =>
  Promise.all([import('../../../shared/event-catalog.ts'), import('../../../shared/event-samples.ts')])

export const toCommand = (context: CliContext): Command =>
  new Command('events')
    .description('List the events that an endpoint may receive, or show the body of one. Needs no gateway.')
    .option('--sample <event>', 'a body as a receiver gets it')
    .action(({ sample }: { sample?: string }) =>
      sample === undefined ? listEvents(context) : showSample(context, sample),
    )

const VIEW = { columns: columns({ EVENT: 'event', 'SENT WHEN': flexible('fires_when') }), idPath: 'event' }

async function listEvents(context: CliContext): Promise<void> {
  const [output, [{ EVENT_CATALOG, TEST_EVENT }]] = await Promise.all([context.output(), catalogue()])
  const events = Object.entries(EVENT_CATALOG).map(([event, fires_when]) => ({ event, fires_when, subscribable: true }))
  const when = 'Sent by `aigw webhooks test` only, whatever the endpoint subscribes to'
  await output.list([...events, { event: TEST_EVENT, fires_when: when, subscribable: false }], VIEW)
}

/** The members of an event body (docs/webhooks.md). */
const BODY_VIEW = { columns: columns({ ID: 'id', TYPE: 'type', CREATED: 'created', DATA: 'data' }), idPath: 'id' }

/** Throws a usage error for an unknown event. */
async function showSample(context: CliContext, name: string): Promise<void> {
  const [output, [{ TEST_EVENT }, samples]] = await Promise.all([context.output(), catalogue()])
  const { getEvent } = await import('./event-names.ts')
  const data = name === TEST_EVENT ? samples.TEST_SAMPLE : samples.EVENT_SAMPLES[getEvent(name)]
  const body = { id: `evt_test_${'0'.repeat(24)}`, type: name, created: 1_767_225_600, data }
  await output.textOrOne(toJson(body, { indent: 2, terminal: output.terminal }), body, BODY_VIEW)
}
