import { z } from 'zod'
import { suggestion } from '../../shared/nearest-name.ts'
import { ValueFault } from './values.ts'

/**
 * Creates the schema of a mapping with known keys. Each unknown key is reported as a separate fault that suggests a
 * similar known key.
 */
export function section<Shape extends z.core.$ZodLooseShape>(shape: Shape, mustBe: string) {
  const known = Object.keys(shape)
  const unknownKey = z.custom<unknown>(() => false, {
    error: ({ path }) => {
      const key = String(path?.at(-1))
      return `unknown key${suggestion(key, known)}; known keys: ${known.join(', ')}`
    },
  })
  return z.object(shape, { error: mustBe }).catchall(unknownKey)
}

/**
 * Creates a schema transform from a function that throws ValueFault. The thrown fault is then reported together with
 * all other faults.
 */
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
