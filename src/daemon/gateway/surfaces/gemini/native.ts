// What a request contains that only Gemini's API has.
import { invalidField } from '../../../../shared/errors.ts'
import { HttpsUrl } from '../../../../shared/wire/message-blocks.ts'
import type { PolicyUses } from '../../../safety/policies/policies.ts'

/** Tools of Gemini that the client runs. Google runs all other tools. */
const CLIENT_TOOLS = new Set(['computerUse'])

/** Collects the members of a conversation that some providers do not support. */
export type Marks = {
  readonly names: ReadonlySet<string>
  /** The members that no provider receives. */
  readonly dropped: ReadonlySet<string>
  /** What a policy may forbid. */
  readonly uses: PolicyUses
  add(name: string): void
  /** Adds the members of `value` that the gateway does not know. @param path the names of the objects around it */
  dropOthers(value: object, known: ReadonlySet<string>, path: string): void
  /**
   * Returns the members of an object that may become fields. A field is the path of a member, so a name with a dot would
   * look like a member of another object.
   */
  fieldsOf(value: object, path?: string): [string, unknown][]
  /** @throws VALIDATION_ERROR unless it is an https URL */
  addAddress(url: string): void
  addTool(type: string): void
}

export function createMarks(): Marks {
  const names = new Set<string>()
  const dropped = new Set<string>()
  const serverTools = new Set<string>()
  let addresses = false
  return {
    names,
    dropped,
    get uses() {
      return { serverTools: [...serverTools], addresses }
    },
    add: (name) => void names.add(name),
    dropOthers(value, known, path) {
      for (const [name, member] of Object.entries(value)) {
        if (member !== undefined && member !== null && !known.has(name)) {
          dropped.add(`${path}.${name.slice(0, SHOWN_CHARS)}`)
        }
      }
    },
    fieldsOf(value, path = '') {
      return Object.entries(value).filter(([name, member]) => {
        if (!name.includes('.')) return true
        if (member !== undefined && member !== null) dropped.add(`${path}${name.slice(0, SHOWN_CHARS)}`)
        return false
      })
    },
    addAddress(url) {
      addresses = true
      if (!HttpsUrl.safeParse(url).success) {
        throw invalidField('contents', 'A fileUri must be an https URL. The provider fetches it, never the gateway.')
      }
    },
    addTool(type) {
      names.add('tools')
      if (!CLIENT_TOOLS.has(type)) serverTools.add(type)
    },
  }
}

const SHOWN_CHARS = 100
