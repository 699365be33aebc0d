import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { request } from 'undici'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { newApiKey } from '../../src/shared/ids.ts'
import { pdf } from '../daemon/knowledge/ingest/extract/files.ts'
import { endDaemons, runDaemon } from './daemon-process.ts'

let project: string
beforeEach(async () => {
  project = await mkdtemp(join(tmpdir(), 'aigw-bundle-'))
  await cp(inject('builtProject'), project, { recursive: true, verbatimSymlinks: true })
})
afterEach(async () => {
  await endDaemons()
  await rm(project, { recursive: true })
})

test('the bundle is the daemon: it migrates a store, answers a chat, and ends in order', async () => {
  // The bundle does not need the modules that it was built from.
  await rm(join(project, 'dist/daemon'), { recursive: true })
  const key = newApiKey()
  const args = ['--listen', '127.0.0.1:0', '--data-dir', join(project, 'state')]
  const daemon = runDaemon(args, { project, home: project, env: { AIGW_BOOTSTRAP_KEY: key } })
  const url = await daemon.url()
  const ask = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const response = await request(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return { status: response.statusCode, body: (await response.body.json()) as Record<string, unknown> }
  }
  const chat = { prompt: 'What is this?', model: 'local/extract', index: 'Zero-Knowledge' }
  const answer = await ask('/api/external/chat/completions', chat)
  expect([answer.status, answer.body.success]).toEqual([200, true])
  // The bundle's thread reads a PDF with an external library.
  expect((await ask('/api/external/indexes', { name: 'papers' })).status).toBe(201)
  const form = new FormData()
  form.append('files', new Blob([pdf([['The launch is on Monday.']])]), 'launch.pdf')
  const trained = await fetch(`${url}/api/external/indexes/papers/train`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: form,
  })
  expect(await trained.json()).toMatchObject({
    results: { documents: [{ name: 'launch.pdf', status: 'indexed', chunks: 1 }] },
  })
  const grounded = await ask('/api/external/chat/completions', {
    ...chat,
    prompt: 'When is the launch?',
    index: 'papers',
  })
  expect(JSON.stringify(grounded.body)).toContain('The launch is on Monday.')
  const description = await request(`${url}/openapi.json`)
  expect(await description.body.json()).toMatchObject({ openapi: expect.any(String) })
  expect((await daemon.end('SIGTERM')).code).toBe(0)
})
