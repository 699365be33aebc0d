import { type ChatPart, type NativeKind, ProviderError } from '../../models/provider.ts'
import { type Json, parseObject } from '../../platform/text/json.ts'

type CallPart = Extract<ChatPart, { type: 'tool_call' }>

/** Collects the parts of a stream that are not calls but blocks, citations or annotations. */
export type NativeParts = {
  /** Returns undefined if the part belongs to a call, and `partial` until the JSON of its object is complete. */
  add(part: CallPart): { kind: NativeKind; value: Json } | 'partial' | undefined
}

/** Guards may split the JSON of a part. */
export function createNativeParts(): NativeParts {
  let incomplete: Map<number, { kind: NativeKind; json: string }> | undefined
  return {
    add({ index, native, arguments: json }) {
      const known = native ? { kind: native, json: '' } : incomplete?.get(index)
      if (!known) return undefined
      known.json += json
      const value = parseObject(known.json)
      if (!value) {
        incomplete ??= new Map()
        incomplete.set(index, known)
        return 'partial'
      }
      incomplete?.delete(index)
      return { kind: known.kind, value }
    },
  }
}

/** An object in the form of a provider's own API. */
export type TypedObject = Json & { type: string }

/** Returns the object of a block, citation or annotation. @throws ProviderError if it has no type */
export function toTypedObject(value: Json | undefined): TypedObject {
  if (typeof value?.type === 'string') return value as TypedObject
  throw new ProviderError('server_error', 'The provider sent a block that is not a JSON object.')
}
