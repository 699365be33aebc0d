import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const markdownIn = (folder: string): string[] =>
  readdirSync(join(ROOT, folder), { recursive: folder !== '.' })
    .map((name) => join(folder, String(name)))
    .filter((name) => name.endsWith('.md'))
const PAGES = [...markdownIn('.'), ...markdownIn('docs')]
const read = (page: string): string => readFileSync(join(ROOT, page), 'utf8')
const withoutCode = (text: string): string => text.replace(/^ *```.*?^ *```$/gms, '')

/** Anchors that GitHub generates from headings, and explicit anchors. */
function anchorsOf(page: string): Set<string> {
  const text = withoutCode(read(page))
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
  return new Set([...headings, ...[...text.matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id)])
}

test.each(PAGES)('every link of %s has a target', (page) => {
  const broken = [...withoutCode(read(page)).matchAll(/\]\((?!https?:)([^)\s]+)\)/g)]
    .map(([, link = '']) => link)
    .filter((link) => {
      const [path = '', anchor] = link.split('#')
      const target = path === '' ? page : normalize(join(dirname(page), path))
      if (!existsSync(join(ROOT, target))) return true
      return anchor !== undefined && target.endsWith('.md') && !anchorsOf(target).has(anchor)
    })
  expect(broken).toEqual([])
})

test('the index of the documentation lists every page', () => {
  const index = read('docs/README.md')
  const missing = markdownIn('docs')
    .map((page) => relative('docs', page))
    .filter((page) => page !== 'README.md' && !page.startsWith('decisions/') && !index.includes(`](${page})`))
  expect(missing).toEqual([])
})
