import { expect, test } from 'vitest'
import { newApiKey } from '../src/shared/ids.ts'
import { describeEachEngine } from './engines.ts'
import { startGateway, upstreamProvider } from './harness.ts'
import { ENCODINGS, marker } from './secret-search.ts'
import { SecretWatch, secretWatch } from './secret-watch.ts'
import { chatJson, replyJson } from './upstream.ts'

// Each test plants a secret and then removes the finding. Otherwise the finding would fail this file.

test.each(Object.entries(ENCODINGS))('a log line with the key of a provider is found (%s)', async (name, encode) => {
  const key = marker(`key ${name}`, 30)
  const leaking = { ...upstreamProvider('leaking', 'http://127.0.0.1:1/v1', [`m-${encode(key)}`]), apiKey: key }
  const gateway = await startGateway({ providers: [leaking] })
  await gateway.close()
  expect(secretWatch.takeFound()).toEqual(['the log: the key of a provider'])
})

describeEachEngine('what is kept', (engine) => {
  test('a fragment of a key or prompt is found in any table except those of customer data', async () => {
    const gateway = await startGateway({ engine })
    const [said, answered] = ['Where did the captain hide the spare keys?', 'Behind the seventh barrel, as ever.']
    gateway.upstream.script(replyJson(chatJson(answered)))
    const { body } = await gateway.chat({ prompt: said })
    const { app, adminKey } = gateway
    expect(body.success).toBe(true)
    const keep = (column: 'period' | 'holder' | 'holder_id', text: string) =>
      app.db
        .updateTable('spend_counters')
        .set({ [column]: text as 'user' })
        .execute()
    await keep('period', Buffer.from(adminKey).toString('base64'))
    await keep('holder', `It was: ${said}`)
    await keep('holder_id', encodeURIComponent(answered))
    await gateway.close()
    expect(secretWatch.takeFound()).toEqual([
      expect.stringContaining('the table spend_counters: a text of a user'),
      expect.stringContaining('the table spend_counters: a text of a user'),
      expect.stringContaining('the table spend_counters: the key of the operator'),
    ])
  })
})

test('an unknown key is found by its format, and customer texts in the wrong table', () => {
  const watch = new SecretWatch()
  watch.record('a metric', `calls{key="${newApiKey()}"} 1`)
  watch.addWords({ messages: [{ content: 'The word is rhubarb, and nothing else will do.' }, { content: 'short' }] })
  watch.record('an event', '{"error":"no model for: The word is rhubarb, and nothing"}')
  watch.record('a document', 'The word is rhubarb, and nothing else will do.', { mayContainText: true })
  watch.record('a receipt', '{"sk":"sk-short","said":"The word is short"}')
  expect(watch.takeFound()).toEqual([
    'a metric: a key or a signing secret',
    expect.stringMatching(/^an event: a text of a user \(/),
  ])
  expect(watch.takeFound()).toEqual([])
})
