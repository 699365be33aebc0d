// Custom tools: the model writes any text instead of JSON. Not every API has them, so they are offered as functions.
import type { Tool, ToolCall } from '../../models/conversation.ts'
import { parseObject } from '../../platform/text/json.ts'

/** A custom tool becomes a function with this parameter. */
const CUSTOM_PARAMETERS = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
}

/** Converts a custom tool. Functions have no grammar, so the description asks for it. */
export function toCustomTool(
  name: string,
  description: string | undefined,
  grammar: { syntax: string; definition: string } | undefined,
): Tool {
  const asked = grammar && `Write \`input\` in exactly this form (${grammar.syntax}):\n\n${grammar.definition}`
  return { name, description: joined(description, asked), parameters: CUSTOM_PARAMETERS }
}

/** Joins texts to one description. Undefined if all of them are empty. */
export function joined(...texts: (string | undefined)[]): string | undefined {
  const filled = texts.filter((text) => text !== undefined && text !== '')
  return filled.length === 0 ? undefined : filled.join('\n\n')
}

/** Converts an earlier call of a custom tool. */
export const toCustomArguments = (input: string): string => JSON.stringify({ input })

/**
 * Returns the input of a call to a custom tool. If the model did not follow the parameters, the input is the text that
 * it wrote.
 */
export function toCustomInput({ arguments: text }: Pick<ToolCall, 'arguments'>): string {
  const input = parseObject(text)?.input
  return typeof input === 'string' ? input : text
}
