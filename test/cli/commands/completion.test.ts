import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { COMMAND_GROUPS, type Entry } from '../../../src/cli/commands/command-table.ts'
import { FORMATS } from '../../../src/cli/input/global-flags.ts'
import { runCli } from '../run-cli.ts'

const scriptFor = async (shell: string) => (await runCli(['completion', shell])).stdout

const waysTo = (entries: Entry[], before: string[] = []): string[][] =>
  entries.flatMap((entry) =>
    [entry.name, ...(entry.aliases ?? [])].flatMap((name) =>
      'verbs' in entry ? waysTo(entry.verbs, [...before, name]) : [[...before, name]],
    ),
  )
/** Every command by every name that leads to it. */
const WAYS = waysTo(COMMAND_GROUPS.flatMap((group) => group.entries)).map((way) => way.join(' '))
const VERBS = ['create', 'list', 'show', 'update', 'delete', 'docs', 'remove', 'rebuild', 'add', 'search']

describe('completion for bash', () => {
  let complete: (line: string, words?: string[]) => Promise<string[]>
  let ranNames: () => boolean
  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
    const path = join(folder, 'aigw.bash')
    await writeFile(path, await scriptFor('bash'))
    const gateway = join(folder, 'bin')
    await mkdir(gateway)
    // Answers as `aigw` would. One name would run a command if the script expanded it.
    const names =
      `#!/bin/sh\necho "$1-one"\necho "$1-sized:8b"\necho '$1-two words'\necho '$(touch ${join(folder, 'pwned')})'\n`.replace(
        "'$1-two words'",
        '"$1-two words"',
      )
    await writeFile(join(gateway, 'aigw'), names, { mode: 0o755 })
    ranNames = () => existsSync(join(folder, 'pwned'))
    complete = async (line, words = line.split(' ')) => {
      const script = `source ${path}; COMP_LINE='${line}'; COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _aigw; printf '%s\\n' "\${COMPREPLY[@]}"`
      const env = { ...process.env, PATH: `${gateway}:${process.env.PATH}` }
      const found = await promisify(execFile)('bash', ['-c', script], { env })
      return found.stdout.trimEnd().split('\n')
    }
    return () => rm(folder, { recursive: true })
  })

  test.each([
    ['aigw ch', ['chat']],
    ['aigw indexes ', VERBS],
    ['aigw index ', VERBS],
    ['aigw -q indexes list --li', ['--limit']],
    ['aigw indexes ls --li', ['--limit']],
    ['aigw index ls --li', ['--limit']],
    ['aigw profile rm --ig', ['--ignore-not-found']],
    ['aigw groups members ', ['add', 'remove']],
    ['aigw groups rm --ig', ['--ignore-not-found']],
    ['aigw groups members rm --ig', ['']],
    ['aigw whoami -o nd', ['ndjson']],
    ['aigw whoami --output nd', ['ndjson']],
    ['aigw completion po', ['powershell']],
  ])('%s', async (line, expected) => {
    expect(await complete(line)).toEqual(expected)
  })

  test.each([
    ['aigw chat -m models-o', 'models-one'],
    ['aigw chat -i indexes-o', 'indexes-one'],
    ['aigw chat --policy policies-t', 'policies-two\\ words'],
    ['aigw models show models-o', 'models-one'],
    ['aigw index docs indexes-o', 'indexes-one'],
    ['aigw groups members add groups-o', 'groups-one'],
    ['aigw profiles use profiles-o', 'profiles-one'],
    ['aigw whoami -P profiles-o', 'profiles-one'],
  ])('%s asks the gateway for names', async (line, expected) => {
    expect(await complete(line)).toEqual([expected])
  })

  test.each([
    [['aigw', 'chat', '-m', 'models-sized', ':', '8'], 'models-sized:8', '8b'],
    [['aigw', 'chat', '-m', 'models-sized', ':'], 'models-sized:', '8b'],
    [['aigw', 'models', 'show', 'models-sized', ':', '8'], 'models-sized:8', '8b'],
  ])('bash splits a word at its colon: %j', async (words, typed, expected) => {
    const line = `${words.slice(0, words.indexOf('models-sized')).join(' ')} ${typed}`
    expect(await complete(line, words)).toEqual([expected])
  })

  test('a word after a colon and a space is a word of its own', async () => {
    expect(await complete('aigw chat note: --mo', ['aigw', 'chat', 'note', ':', '--mo'])).toEqual(['--model'])
  })

  test('a name never runs a command, and a file is not completed as a name', async () => {
    expect(await complete('aigw models show ')).toHaveLength(4)
    expect(ranNames()).toBe(false)
    expect(await complete('aigw audit verify --policy ')).toEqual([''])
  })
})

describe('completion of names', () => {
  test.each([
    ['chat', 'models'],
    ['indexes show', 'indexes'],
  ])('is in the script for fish: %s', async (_, kind) => {
    expect(await scriptFor('fish')).toContain(`-f -a '(aigw ${kind} list`)
  })
})

test('completion for zsh is that for bash, run by zsh', async () => {
  const head = '#compdef aigw\nautoload -U +X bashcompinit && bashcompinit\n'
  expect(await scriptFor('zsh')).toBe(head + (await scriptFor('bash')))
})

describe('completion for fish', () => {
  type Offer = { words: string[]; flags: string[]; values: Record<string, string[]> }
  let offer: (words: string[]) => Offer
  beforeAll(async () => {
    const lines = (await scriptFor('fish')).trimEnd().split('\n')
    const holds = (condition: string, words: string[]): boolean =>
      condition.split('; and ').every((part) => {
        if (part === '__fish_use_subcommand') return words.length === 0
        const [, not, names = ''] = /^(not )?__fish_seen_subcommand_from (.*)$/.exec(part) ?? []
        return names.split(' ').some((name) => words.includes(name)) === (not === undefined)
      })
    offer = (words) => {
      const offered: Offer = { words: [], flags: [], values: {} }
      for (const line of lines) {
        const parts =
          /^complete -c aigw -n '([^']+)'(?: -f -a ([\w-]+))?(?: -s (\w))?(?: -l ([\w-]+))?(?: -r)?(?: -f -a '([^']*)')?( -d '.*')?$/.exec(
            line,
          )
        expect(parts, line).not.toBeNull()
        const [, condition = '', word, short, long, values] = parts ?? []
        if (!holds(condition, words)) continue
        if (word !== undefined) offered.words.push(word)
        if (long !== undefined) offered.flags.push(`--${long}`)
        if (short !== undefined) offered.flags.push(`-${short}`)
        if (values !== undefined) offered.values[`--${long}`] = values.split(' ')
      }
      return offered
    }
  })

  test.each(WAYS)('offers the flags of %s, long and short', (way) => {
    const { flags, values } = offer(way.split(' '))
    expect(flags).toEqual(expect.arrayContaining(['--output', '-o', '--help', '-h', '--profile', '-P']))
    expect(values['--output']).toEqual(FORMATS)
  })

  test('offers the verbs of a noun under each of its names, and none after one was chosen', () => {
    expect(offer(['indexes']).words).toEqual(VERBS)
    expect(offer(['index']).words).toEqual(VERBS)
    expect(offer(['index', 'ls']).words).toEqual([])
    expect(offer(['index', 'ls']).flags).toContain('--limit')
    expect(offer(['groups', 'members']).words).toEqual(['add', 'remove'])
    expect(offer(['groups', 'rm']).flags).toContain('--ignore-not-found')
    expect(offer(['groups', 'members', 'rm']).flags).not.toContain('--ignore-not-found')
    expect(offer(['completion']).words).toEqual(['bash', 'zsh', 'fish', 'powershell'])
    expect(offer(['chat']).flags).toEqual(expect.arrayContaining(['--model', '-m']))
  })
})

describe('completion for PowerShell', () => {
  let tables: Record<string, Record<string, string[]>>
  beforeAll(async () => {
    const script = await scriptFor('powershell')
    tables = Object.fromEntries(
      [...script.matchAll(/^ {2}\$(\w+) = @\{\n([\s\S]*?)\n {2}\}$/gm)].map(([, name = '', rows = '']) => [
        name,
        Object.fromEntries(
          rows.split('\n').map((row) => {
            const [, key = '', list = ''] = /^ {4}'([^']*)' = @\((.*)\)$/.exec(row) ?? expect.unreachable(row)
            return [key, [...list.matchAll(/'([^']*)'/g)].map(([, word = '']) => word)]
          }),
        ),
      ]),
    )
  })

  test.each(WAYS)('knows %s and its flags', (way) => {
    expect(tables.places?.[way]).toEqual(expect.arrayContaining(['--output', '--help']))
  })

  test('offers verbs under each name of a noun, and the choices of a flag behind its long and short form', () => {
    expect(tables.places?.index?.slice(0, VERBS.length)).toEqual(VERBS)
    expect(tables.places?.['index ls']).toContain('--limit')
    expect(tables.choices?.['-o']).toEqual(FORMATS)
    expect(tables.choices?.['--output']).toEqual(FORMATS)
    expect(tables.choices?.['--color']).toEqual(['auto', 'always', 'never'])
  })
})
