import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** A code block of a page, with its heading and the paragraph before it. */
export type Block = { language: string; text: string; heading: string; intro: string }

/** All code blocks of a page, in order. */
export function blocksOf(page: string): Block[] {
  const text = readFileSync(join(ROOT, page), 'utf8')
  return [...text.matchAll(/^( *)```(\w+)\n(.*?)^\1```$/gms)].map((match) => {
    const [, indent = '', language = '', content = ''] = match
    const above = text.slice(0, match.index).trimEnd()
    return {
      language,
      text: content.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
      heading: [...above.matchAll(/^#+ (.*)$/gm)].at(-1)?.[1] ?? '',
      intro: above.split('\n\n').at(-1) ?? '',
    }
  })
}

export type PageSession = {
  /** Runs every `sh` block in order. Compares its output with the following `text` block, if there is one. */
  run(blocks: readonly Block[]): Promise<void>
  close(): Promise<void>
}

/**
 * Runs the `sh` blocks of a page in one shell, so that variables and folders carry over. A command that fails ends the session.
 * A block whose paragraph says "in a separate terminal" runs in the background until `close`, and must print its `text` block:
 * the session fails as soon as the last line of that block is printed, or the process has ended, and the rest differs.
 * In a `text` block, `…` stands for any part of a line, and a line of `…` for any lines. White space and case are ignored, because
 * tables in a pipe are TSV. Ports in the output of a background block stand for the real ones in all later blocks.
 */
export async function openPageSession(folder: string, env: Record<string, string>): Promise<PageSession> {
  const scratch = await mkdtemp(join(folder, 'page-'))
  const shell = spawn('sh', ['-e'], { cwd: folder, env, stdio: ['pipe', 'pipe', 'inherit'] })
  const output = collect(shell)
  const background: ChildProcess[] = []
  const ports = new Map<string, string>()
  let count = 0
  shell.stdin.write('exec 2>&1\n')

  const withRealPorts = (text: string) =>
    text.replace(/(?<=127\.0\.0\.1:)\d+/g, (port) => ports.get(`port${port}`) ?? port)

  async function runInShell(text: string): Promise<string> {
    count += 1
    const file = join(scratch, `${count}.sh`)
    await writeFile(file, text)
    const mark = `\nend of block ${count}\n`
    shell.stdin.write(`. '${file}' </dev/null\nprintf '\\nend of block ${count}\\n'\n`)
    const printed = await output.until((all) => all.includes(mark))
    return printed.slice(0, printed.indexOf(mark))
  }

  async function runInBackground(text: string, expected: string): Promise<void> {
    // Its own process group, because the shell may start further processes.
    const child = spawn('sh', ['-e', '-c', text], {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    background.push(child)
    const pattern = patternOf(expected, { capturePorts: true })
    const isReady = (all: string) => pattern.test(normal(all)) || hasEnded(all, expected)
    const printed = await collect(child)
      .until(isReady)
      .catch((error: Error) => Promise.reject(new Error(`${error.message}\nExpected:\n${expected}`)))
    expect(normal(printed), text).toMatch(pattern)
    for (const [name, port] of Object.entries(pattern.exec(normal(printed))?.groups ?? {})) ports.set(name, port)
    const gateway = ports.get('port8787')
    if (gateway !== undefined) await runInShell(`export AIGW_BASE_URL=http://127.0.0.1:${gateway}\n`)
  }

  return {
    async run(blocks) {
      for (const [at, block] of blocks.entries()) {
        if (block.language !== 'sh') continue
        const next = blocks[at + 1]
        const expected = next?.language === 'text' ? next.text : undefined
        const text = withRealPorts(block.text)
        if (block.intro.includes('in a separate terminal')) await runInBackground(text, expected ?? '')
        else {
          const printed = await runInShell(text)
          if (expected !== undefined)
            expect(normal(printed), block.text).toMatch(patternOf(withRealPorts(expected), { capturePorts: false }))
        }
      }
    },
    async close() {
      for (const child of background) {
        if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) continue
        const closed = once(child, 'close')
        process.kill(-child.pid, 'SIGTERM')
        await closed
      }
      shell.stdin.end()
      if (shell.exitCode === null) await once(shell, 'exit')
      await rm(scratch, { recursive: true })
    },
  }
}

/** Whether the last expected line is there, or the line "listening" in its place, so that nothing expected can follow. */
function hasEnded(printed: string, expected: string): boolean {
  const [last = ''] = expected
    .split('\n')
    .filter((line) => line !== '' && line !== '…')
    .slice(-1)
  const line = patternOf(last, { capturePorts: false })
  const lines = printed.split('\n').slice(0, -1)
  return lines.some((one) => line.test(normal(one)) || (last.includes('listening') && one.includes('listening')))
}

const normal = (text: string): string =>
  text
    .replace(/[ \t]+/g, ' ')
    .replace(/ $/gm, '')
    .trim()

function patternOf(text: string, { capturePorts }: { capturePorts: boolean }): RegExp {
  const source = normal(text)
    .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replace(/^…\n/gm, '(?:.*\\n)*?')
    .replace(/\n…$/, '(?:\\n.*)*')
    .replaceAll('…', '.*')
  if (!capturePorts) return new RegExp(`^${source}$`, 'i')
  return new RegExp(`^${source.replace(/(127\\\.0\\\.0\\\.1:)(\d+)/g, '$1(?<port$2>\\d+)')}`, 'i')
}

/**
 * Collects the output of a process. `until` resolves with all new output once it suffices. Rejects if the process
 * exits.
 */
function collect(child: ChildProcess) {
  let unread = ''
  let ended = false
  let look = () => {}
  const add = (chunk: string) => {
    unread += chunk
    look()
  }
  child.stdout?.setEncoding('utf8').on('data', add)
  child.stderr?.setEncoding('utf8').on('data', add)
  child.once('close', () => {
    ended = true
    look()
  })
  return {
    until: (isEnough: (output: string) => boolean) =>
      new Promise<string>((resolve, reject) => {
        look = () => {
          if (isEnough(unread)) {
            look = () => {}
            resolve(unread)
            unread = ''
          } else if (ended) reject(new Error(`A command failed. It printed:\n${unread}`))
        }
        look()
      }),
  }
}
