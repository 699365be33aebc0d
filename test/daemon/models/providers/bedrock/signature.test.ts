import { expect, test } from 'vitest'
import { createSigner } from '../../../../../src/daemon/models/providers/bedrock/signature.ts'
import { runToEnd } from '../../../../../src/daemon/platform/pacing.ts'
import { writingBody } from '../../../../../src/daemon/platform/text/json-writer.ts'

test('a body in pieces has the same signature as its text', async () => {
  const value = { messages: ['a long text 😀 '.repeat(20_000)] }
  const sign = createSigner('eu-central-1', { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret' })
  const call = {
    url: new URL('https://bedrock-runtime.eu-central-1.amazonaws.com'),
    path: '/model/m/converse',
    headers: { host: 'bedrock-runtime.eu-central-1.amazonaws.com', 'content-type': 'application/json' },
  }
  const nowMs = Date.UTC(2026, 0, 1)
  const ofPieces = await sign({ ...call, body: runToEnd(writingBody(value)) }, nowMs)
  expect(ofPieces).toEqual(await sign({ ...call, body: JSON.stringify(value) }, nowMs))
  expect(ofPieces.authorization).toContain('Signature=')
})
