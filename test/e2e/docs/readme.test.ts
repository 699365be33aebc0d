import { cp, mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { installCli } from '../../cli/installed-cli.ts'
import { blocksOf, openPageSession } from './page-session.ts'

const project = fileURLToPath(new URL('../../..', import.meta.url))

test('the commands of the README work in order and print the shown output', async () => {
  const cli = await installCli()
  for (const name of ['docs', 'README.md', 'ARCHITECTURE.md'])
    await cp(join(project, name), join(cli.folder, name), { recursive: true })
  const home = await mkdtemp(join(cli.folder, 'home-'))
  const session = await openPageSession(cli.folder, {
    PATH: process.env.PATH ?? '',
    HOME: home,
    CONFIGURATION_DIRECTORY: home,
    AIGW_LISTEN: '127.0.0.1:0',
    // The README's receiver does not exist, but its address must be allowed for registration.
    WEBHOOKS_ALLOW_PRIVATE: 'true',
  })
  const blocks = blocksOf('README.md').map((block) => ({
    ...block,
    text: block.text.replaceAll('https://hooks.example.com/aigw', 'http://127.0.0.1:1080/aigw'),
  }))
  expect(blocks.filter(({ language }) => language === 'sh').length).toBeGreaterThan(5)
  try {
    await session.run(blocks)
  } finally {
    await session.close()
    await cli.remove()
  }
})
