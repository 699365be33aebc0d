// Imports packages that clients/package.json pins.
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

/** Imports a package by its name. */
export const load = (name) => import(name)

/** The installed version of a package. */
export function versionOf(name) {
  // promptfoo has a folder of its own.
  const folders = ['..', `../${name}`].map((folder) => path.join(import.meta.dirname, folder, 'node_modules', name))
  const folder = folders.find(existsSync)
  return JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')).version
}
