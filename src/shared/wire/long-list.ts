// Lists of which a client decides the length are checked in steps, because zod checks a whole body in one call.
import type { z } from 'zod'

/** Longer lists are checked in steps of this number of items. */
const STEP_ITEMS = 256

type Payload = z.core.ParsePayload
type Context = z.core.ParseContextInternal
type Checked = { items: unknown[]; issues: z.core.$ZodRawIssue[] }

/** The long lists that were checked, for each schema that they were checked against. */
type CheckedLists = Map<unknown, Map<z.core.$ZodArray, Checked>>
/** Undefined outside `inSteps`. A step is synchronous, so there is only one at a time. */
let checkedLists: CheckedLists | undefined

/** Thrown by the check of a long list that is not yet checked. */
class UncheckedList {
  readonly schema: z.core.$ZodArray
  readonly list: readonly unknown[]
  readonly context: Context

  constructor(schema: z.core.$ZodArray, list: readonly unknown[], context: Context) {
    this.schema = schema
    this.list = list
    this.context = context
  }
}

/** Prepares the schema of a list for `inSteps`. Checks outside `inSteps` do not change. */
export function longList<Schema extends z.ZodArray>(schema: Schema): Schema {
  // At its first use, zod replaces the functions of a schema that is not recursive.
  schema.safeParse([])
  const internals = schema._zod
  const parse = internals.parse
  const parseLong = (payload: Payload, context: Context) => {
    const list = payload.value
    if (checkedLists === undefined || !Array.isArray(list) || list.length <= STEP_ITEMS) return parse(payload, context)
    const checked = checkedLists.get(list)?.get(schema)
    if (checked === undefined) throw new UncheckedList(schema, list, context)
    payload.value = checked.items
    // Schemas that contain this schema add to the paths of their issues.
    for (const issue of checked.issues) payload.issues.push({ ...issue, path: [...(issue.path ?? [])] })
    return payload
  }
  // Without own checks, zod uses one function for both.
  if (internals.run === parse) internals.run = parseLong
  internals.parse = parseLong
  return schema
}

/**
 * Runs a check against zod schemas and yields between steps of long lists (`longList`). `check` is called again after
 * each long list, and then uses the result of the list. Its result is the result of an ordinary call, except that a long
 * list has only those issues that decide the error.
 */
export function* inSteps<Result>(check: () => Result): Generator<void, Result> {
  const lists: CheckedLists = new Map()
  for (;;) {
    const result = attempt(lists, check)
    if (!(result instanceof UncheckedList)) return result
    yield* checkItems(lists, result)
  }
}

function* checkItems(lists: CheckedLists, { schema, list, context }: UncheckedList): Generator<void, void> {
  const { element } = schema._zod.def
  const items: unknown[] = new Array(list.length)
  const issues: z.core.$ZodRawIssue[] = []
  let at = 0
  while (at < list.length) {
    const end = Math.min(list.length, at + STEP_ITEMS)
    const unchecked = attempt(lists, () => {
      for (; at < end; at++) {
        const result = element._zod.run({ value: list[at], issues: [] }, context) as Payload
        items[at] = result.value
        for (const issue of result.issues) addIssue(issues, { ...issue, path: [at, ...(issue.path ?? [])] })
      }
    })
    if (unchecked) yield* checkItems(lists, unchecked)
    yield
  }
  const known = lists.get(list) ?? new Map<z.core.$ZodArray, Checked>()
  lists.set(list, known.set(schema, { items, issues }))
}

/** Runs one step. Returns the list that it needs, if that list is not yet checked. */
function attempt<Result>(lists: CheckedLists, step: () => Result): Result | UncheckedList {
  checkedLists = lists
  try {
    return step()
  } catch (error) {
    if (error instanceof UncheckedList) return error
    throw error
  } finally {
    checkedLists = undefined
  }
}

/**
 * Keeps the first issue, the first about an unknown member, and the first that ends the check. An error names only one
 * issue, and a list may have hundreds of thousands.
 */
function addIssue(issues: z.core.$ZodRawIssue[], issue: z.core.$ZodRawIssue): void {
  const isNew = (is: (issue: z.core.$ZodRawIssue) => boolean) => is(issue) && !issues.some(is)
  if (issues.length === 0 || isNew(({ code }) => code === 'unrecognized_keys') || isNew(isFinal)) issues.push(issue)
}

const isFinal = (issue: z.core.$ZodRawIssue): boolean => issue.continue !== true
