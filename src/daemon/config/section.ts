import { z } from 'zod'
import { suggestion } from '../../shared/nearest-name.ts'
import { ValueFault } from './values.ts'

/** A mapping of known keys; every other key is a fault of its own, with the known key that looks like it. */
export function section<Shape extends z.core.$ZodLooseShape>(shape: Shape, mustBe: string) {
  const known = Object.keys(shape)
  const unknownKey = z.custom<unknown>(() => false, {
    error: ({ path }) => {
      const key = String(path?.at(-1))
      return `unknown key${suggestion(key, known)}; known here: ${known.join(', ')}`
    },
  })
  return z.object(shape, { error: mustBe }).catchall(unknownKey)
}

/** Turns a function that throws ValueFault into a step of a schema, so that its fault is reported beside all others. */
export function valueFrom<From, To>(parse: (value: From) => To): (value: From, context: z.core.$RefinementCtx) => To {
  return (value, context) => {
    try {
      return parse(value)
    } catch (error) {
      if (!(error instanceof ValueFault)) throw error
      context.addIssue(error.message)
      return z.NEVER
    }
  }
}
