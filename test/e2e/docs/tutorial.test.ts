import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { installCli } from '../../cli/installed-cli.ts'
import { blocksOf, openPageSession } from './page-session.ts'

test('every command of the tutorial works and prints the shown output', async () => {
  const [install, ...blocks] = blocksOf('docs/tutorial.md')
  // The installed copy is already built, and CI runs this command.
  expect(install?.text).toBe('npm ci\n')
  const cli = await installCli()
  const home = await mkdtemp(join(cli.folder, 'home-'))
  // Free ports, so that no other process on this machine conflicts.
  const ports = { AIGW_LISTEN: '127.0.0.1:0', PORT: '0' }
  const env = { PATH: process.env.PATH ?? '', HOME: home, CONFIGURATION_DIRECTORY: home, ...ports }
  const session = await openPageSession(cli.folder, env)
  try {
    await session.run(blocks)
  } finally {
    await session.close()
    await cli.remove()
  }
})
