// Imports packages that clients/package.json pins.
import { readFileSync } from 'node:fs'
import path from 'node:path'

/** Imports a package by its name. */
export const load = (name) => import(name)

/** The installed version of a package. */
export const versionOf = (name) =>
  JSON.parse(readFileSync(path.join(import.meta.dirname, '../node_modules', name, 'package.json'), 'utf8')).version
