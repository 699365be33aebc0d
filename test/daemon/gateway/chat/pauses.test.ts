import { expect, test } from 'vitest'
import { deferred } from '../../../deferred.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway, textOf, toFrames } from '../../../harness.ts'
import { chatStream, replySteps, splitAt } from '../../../upstream.ts'
import { watched } from '../../../watched-clock.ts'
import { addGuardedTenant } from './guarded-tenant.ts'

const clock = watched(createFakeClock())
const shared = sharedGateway({ clock })

test('text before a pause of the model does not wait for the text after it', async () => {
  const { key } = await addGuardedTenant(shared.current, { policy: { pii: { enabled: true, action: 'mask' } } })
  const seen = deferred<void>()
  const texts = ['and so it goes, ', 'two ada@analytical.org and three of them. ']
  const begin = chatStream(texts, { finishReason: null, done: false })
  const pieces = splitAt(begin, [begin.lastIndexOf('data:')])
  shared.current.upstream.script(replySteps([...pieces, seen.promise, chatStream([])]))
  const watches = clock.waits(120)
  const answer = await fetch(`${shared.current.url}/api/external/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'count', index: 'Zero-Knowledge', model: 'test/any', stream: true }),
  })
  await watches
  clock.advance(120)
  let text = ''
  for await (const piece of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece
    // The upstream continues only after this text was sent, so buffering it would block forever.
    if (text.includes('three')) seen.resolve()
  }
  expect(textOf(toFrames(text).frames)).toBe('and so it goes, two ***@a*********.org and three of them. ')
})

test('a finding during a pause of the model ends a blocked stream before its next word', async () => {
  const policy = { pii: { enabled: true, action: 'block', direction: 'output' } }
  const { key, bills } = await addGuardedTenant(shared.current, { policy })
  const isOver = deferred<void>()
  const texts = ['and so it goes, ', 'with 4111 1111 1111 1111 and three of them. ']
  const begin = chatStream(texts, { finishReason: null, done: false })
  const pieces = splitAt(begin, [begin.lastIndexOf('data:')])
  // The upstream continues only after the client has received its answer.
  shared.current.upstream.script(replySteps([...pieces, isOver.promise, chatStream([])]))
  const watches = clock.waits(120)
  const answer = await fetch(`${shared.current.url}/api/external/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'count', index: 'Zero-Knowledge', model: 'test/any', stream: true }),
  })
  await watches
  clock.advance(120)
  const { frames } = toFrames(await answer.text())
  isOver.resolve()
  expect(frames.at(-1)).toMatchObject({ type: 'error', data: { reason: 'content_blocked' } })
  // The last word before the number is still held, because a number may begin with it.
  expect(textOf(frames)).toBe('and so it ')
  expect((await bills()).map(({ outcome }) => outcome)).toEqual(['filtered'])
})

test('of several answers, each is guarded during a pause', async () => {
  const policy = { pii: { enabled: true, action: 'mask', direction: 'output' } }
  const { key } = await addGuardedTenant(shared.current, { policy })
  const seen = deferred<void>()
  const piece = (index: number, content: string, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ choices: [{ index, delta: { content }, finish_reason }] })}\n\n`
  const said = 'and so it goes, '
  const begin = [piece(0, said) + piece(1, said), piece(1, 'two ada@analytical.org and three of them. ')]
  const end = [piece(0, '', 'stop'), piece(1, '', 'stop'), 'data: [DONE]\n\n']
  shared.current.upstream.script(replySteps([...begin, seen.promise, ...end]))
  const watches = clock.waits(120)
  const answer = await fetch(`${shared.current.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hi' }], model: 'test/any', stream: true, n: 2 }),
  })
  await watches
  clock.advance(120)
  let text = ''
  for await (const part of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part
    if (text.includes('three')) seen.resolve()
  }
  const second = [...text.matchAll(/"index":1,"delta":\{.*?"content":"([^"]*)"/g)].map(([, content]) => content)
  expect(second.join('')).toBe('and so it goes, two ***@a*********.org and three of them. ')
  expect(text).toMatch(/data: \[DONE\]\n\n$/)
})
