import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Block, openPageSession, type PageSession } from './page-session.ts'

let folder: string
let session: PageSession
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-page-'))
  session = await openPageSession(folder, { PATH: process.env.PATH ?? '' })
})
afterEach(async () => {
  await session.close()
  await rm(folder, { recursive: true })
})

const inBackground = (command: string, expected: string): Block[] => [
  { language: 'sh', text: command, heading: '', intro: 'Start it in a separate terminal:' },
  { language: 'text', text: expected, heading: '', intro: '' },
]

test.each([
  ['an earlier line', 'printf "one\\nlistening\\n"; exec sleep 600', 'two\nlistening\n'],
  ['the line that says listening', 'echo "listening on 1"; exec sleep 600', 'listening on 2\n'],
  ['what a process prints before it ends', 'echo one', 'two\n'],
])('a background block fails at once and shows the difference in %s', async (_, command, expected) => {
  const [wanted = ''] = expected.split('\n')
  await expect(session.run(inBackground(command, expected))).rejects.toThrow(wanted)
})

test('a background block may print more than the page shows', async () => {
  await session.run(inBackground('printf "one\\nlistening\\nmore\\n"; exec sleep 600', '…\nlistening\n…\n'))
})
