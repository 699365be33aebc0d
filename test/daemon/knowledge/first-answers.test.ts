import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'
import { ChatResponse } from '../../../src/shared/wire/chat.ts'
import { sqliteEngine } from '../../engines.ts'
import { sharedGateway } from '../../harness.ts'
import { MULTIPART, multipart } from './ingest/multipart.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const markdownIn = (folder: string): string[] =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`)
/** The pages that the quick start adds. */
const PAGES = ['README.md', 'ARCHITECTURE.md', ...markdownIn('docs'), ...markdownIn('docs/how-to')]
const FILES_PER_REQUEST = 20

describe('the built-in model answers a newcomer from the pages of this repository', () => {
  const shared = sharedGateway({ engine: sqliteEngine })
  beforeAll(async () => {
    await shared.current.call('POST', '/api/external/indexes', { name: 'handbook', description: 'These pages' })
    for (let at = 0; at < PAGES.length; at += FILES_PER_REQUEST) {
      const files = PAGES.slice(at, at + FILES_PER_REQUEST).map((page) => ({
        fileName: page,
        content: readFileSync(join(ROOT, page), 'utf8'),
      }))
      const path = '/api/external/indexes/handbook/train'
      const { status } = await shared.current.call('POST', path, multipart(files), { headers: MULTIPART })
      expect(status).toBe(200)
    }
  })

  test.each([
    ['How do I make a backup?', 'how-to/back-up-and-restore.md, Back up', 'aigw db backup'],
    ['How do I delete a user?', 'how-to/manage-users-and-keys.md, Delete a user', 'aigw users delete'],
    ['Which databases are supported?', 'operations.md, Supported databases', 'SQLite and PostgreSQL'],
    ['How do I add documents to a knowledge base?', 'knowledge.md, Knowledge bases', 'aigw indexes add'],
    ['What happens when a model fails?', 'configuration.md, Failover', 'fails over to the next model'],
    ['How can I change an API key?', 'how-to/manage-users-and-keys.md, Change or revoke a key', 'keys update'],
    ['Which file formats can I upload?', 'knowledge.md, File formats', 'PDF'],
    ['How do I set it up behind nginx?', 'how-to/use-nginx.md, Put the gateway behind nginx', 'trusted_proxies'],
    ['What is an SMLTP policy?', 'policies.md, SMLTP policies', 'a named set of security rules'],
    ['How do I verify a receipt?', 'tutorial.md, 7. Verify a receipt', 'aigw receipts verify'],
    ['Where are the logs?', 'cli.md, Logs', 'all administrative changes'],
    [
      'How do I limit how many requests a key can make?',
      'how-to/manage-users-and-keys.md, Limit the requests',
      '--daily',
    ],
  ])('%s', async (prompt, section, words) => {
    const { status, body } = await shared.current.chat({ model: 'local/extract', index: 'handbook', prompt })
    expect(status).toBe(200)
    const { choices, metadata } = ChatResponse.parse(body)
    const answer = choices[0]?.message.content ?? ''
    const [quotations = '', list = ''] = answer.split('\n\nSources:\n')
    expect(list.replace(/^(\[\d\])+ /, ''), answer).toMatch(new RegExp(`^docs/${section}`))
    expect(quotations).toContain(words)
    // What the answer quotes is among the sources of the response.
    const listed = list.split('\n').map((line) => line.replace(/^(\[\d\])+ /, '').split(',')[0])
    expect(metadata.sources.map(({ source }) => source)).toEqual(expect.arrayContaining(listed))
  })
})
