// Imports the packages of this project for the clients in clients/, which otherwise use their own.
import { readFileSync } from 'node:fs'

/** Imports a package by its name. */
export const load = (name) => import(name)

/** The installed version of a package. */
export const versionOf = (name) =>
  JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url), 'utf8')).version
