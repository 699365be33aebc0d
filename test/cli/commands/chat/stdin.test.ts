import { EventEmitter } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { isStdinPiped, readPiped } from '../../../../src/cli/commands/chat/stdin.ts'
import type { Io } from '../../../../src/cli/io.ts'
import { createFakeClock, type FakeClock } from '../../../fake-clock.ts'
import { captured } from '../../run-cli.ts'

function reading({ hasPrompt }: { hasPrompt: boolean }) {
  const clock: FakeClock = createFakeClock()
  const stdin = new PassThrough()
  const abort = new AbortController()
  const notes: string[] = []
  const io: Io = {
    stdin,
    stdout: captured().stream,
    stderr: captured().stream,
    env: {},
    clock,
    signals: new EventEmitter(),
    signal: abort.signal,
  }
  const text = readPiped(io, async (note) => void notes.push(note), { hasPrompt })
  return { clock, stdin, abort, notes, text }
}

describe('text on stdin', () => {
  test('is read to its end, however slowly it comes, once it has begun', async () => {
    const { clock, stdin, text, notes } = reading({ hasPrompt: true })
    clock.advance(2_999)
    const begun = new Promise((resolve) => stdin.once('data', resolve))
    stdin.write('first ')
    await begun
    clock.advance(60_000)
    stdin.end('last')
    expect(await text).toBe('first last')
    expect(notes).toEqual([])
    expect(clock.pending).toBe(0)
  })

  test('is ignored with a note after 3 s of silence, if there is a prompt', async () => {
    const { clock, stdin, text, notes } = reading({ hasPrompt: true })
    clock.advance(3_000)
    expect(await text).toBe('')
    expect(notes).toHaveLength(1)
    expect(stdin.destroyed).toBe(true)
  })

  test('is waited for without limit when there is no prompt', async () => {
    const { clock, stdin, text } = reading({ hasPrompt: false })
    clock.advance(3_600_000)
    stdin.end('here')
    expect(await text).toBe('here')
  })

  test('that is not UTF-8 is rejected, not repaired', async () => {
    const { stdin, text } = reading({ hasPrompt: false })
    stdin.end(Buffer.from([0xff, 0xd8, 0xff]))
    await expect(text).rejects.toMatchObject({ exitCode: 2 })
  })

  test('that is longer than a prompt is rejected before it is read completely', async () => {
    const { stdin, text } = reading({ hasPrompt: false })
    stdin.write(Buffer.alloc(262_145, 'a'))
    await expect(text).rejects.toMatchObject({ exitCode: 2 })
    expect(stdin.destroyed).toBe(true)
  })

  test('stops being waited for when the user stops the program', async () => {
    const { abort, text } = reading({ hasPrompt: false })
    abort.abort(new Error('stopped'))
    await expect(text).rejects.toThrow('stopped')
  })

  test('is not expected from a terminal, from /dev/null or from what is closed', () => {
    const fd = openSync('/dev/null', 'r')
    expect(isStdinPiped({ isTTY: true, fd: 0 })).toBe(false)
    expect(isStdinPiped({ fd })).toBe(false)
    closeSync(fd)
    expect(isStdinPiped({ fd: 987_654 })).toBe(false)
  })
})
