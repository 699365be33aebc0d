import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { readBody } from '../../../src/daemon/http/body.ts'
import { REQUEST_TIMEOUT_MS } from '../../../src/shared/spec-limits.ts'
import { createFakeClock } from '../../fake-clock.ts'

test('a body that stalls is given up after the request time, and no timer is left', async () => {
  const clock = createFakeClock()
  const request = Object.assign(new PassThrough(), { headers: {}, complete: false })
  const body = readBody(request, 100, clock, new AbortController().signal)
  request.write('{"half":')
  clock.advance(REQUEST_TIMEOUT_MS)
  await expect(body).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' })
  expect(clock.pending).toBe(0)
})
