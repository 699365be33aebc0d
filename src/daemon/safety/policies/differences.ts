import { toCanonicalJson } from '../../../shared/canonical-json.ts'
import type { PolicyDifference, PolicyDocument } from '../../../shared/wire/policies.ts'

/** Returns the fields in which two documents differ, in document order. Lists are compared as a whole. */
export const differencesOf = (from: PolicyDocument, to: PolicyDocument): PolicyDifference[] => differences(from, to, '')

function differences(from: object, to: object, prefix: string): PolicyDifference[] {
  return Object.entries(from).flatMap(([name, before]) => {
    const path = prefix + name
    const after: unknown = Reflect.get(to, name)
    if (isSection(before) && isSection(after)) return differences(before, after, `${path}.`)
    return toCanonicalJson(before) === toCanonicalJson(after) ? [] : [{ path, from: before, to: after }]
  })
}

const isSection = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
