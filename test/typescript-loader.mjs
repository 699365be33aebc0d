// Lets `node --import <this file> program.ts` run TypeScript, for tests that need a second process.
import { readFile } from 'node:fs/promises'
import { register } from 'node:module'
import { fileURLToPath } from 'node:url'
import { isMainThread } from 'node:worker_threads'

// Node loads this file again on the thread of loader hooks, where it must not register again.
if (isMainThread) register(import.meta.url)

export async function load(url, context, nextLoad) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return nextLoad(url, context)
  const { transformWithOxc } = await import('vite')
  const path = fileURLToPath(url)
  const { code } = await transformWithOxc(await readFile(path, 'utf8'), path)
  return { format: 'module', source: code, shortCircuit: true }
}
