// Converts the tools of a request, and how the model may call them.
import type { FunctionDeclaration, GeminiTool, ToolConfig } from '../../../../shared/wire/gemini-content.ts'
import type { Tool, ToolChoice } from '../../../models/conversation.ts'
import { ORIGIN } from '../../../models/part-signature.ts'
import type { Marks } from './native.ts'
import { toJsonSchema } from './schema.ts'

/** A tool that Google runs stays in Google's form. */
export function toTools(tools: readonly GeminiTool[], marks: Marks): Tool[] {
  return tools.flatMap(({ functionDeclarations = [], ...others }) => [
    ...functionDeclarations.map((declaration) => toFunction(declaration, marks)),
    ...Object.entries(others).flatMap(([type, options]): Tool[] => {
      if (options === undefined || options === null) return []
      marks.addTool(type)
      return [{ name: type, native: { origin: ORIGIN, definition: { type, options } } }]
    }),
  ])
}

function toFunction(declaration: FunctionDeclaration, marks: Marks): Tool {
  const { name, description, parameters, parametersJsonSchema, ...others } = declaration
  const extra = Object.entries(others).filter(([, value]) => value !== undefined && value !== null)
  for (const [member] of extra) marks.add(`tools.functionDeclarations.${member}`)
  return {
    name,
    description,
    parameters: parametersJsonSchema ?? (parameters && toJsonSchema(parameters)),
    ...(extra.length > 0 && { extra: { origin: ORIGIN, members: Object.fromEntries(extra) } }),
  }
}

const CHOICES = { ANY: 'required', NONE: 'none', AUTO: 'auto', VALIDATED: 'auto', MODE_UNSPECIFIED: undefined } as const

/**
 * Returns the choice in the form of all providers, and the fields that only Gemini's API has. The fields' names contain
 * the name of their object.
 */
export function toToolChoice(
  { functionCallingConfig: config, ...others }: ToolConfig = {},
  marks: Marks,
): {
  choice: ToolChoice | undefined
  fields: Record<string, unknown>
} {
  const fields: Record<string, unknown> = {}
  for (const [name, value] of marks.fieldsOf(others, 'toolConfig.')) {
    if (value !== undefined) fields[`toolConfig.${name}`] = value
  }
  if (!config) return { choice: undefined, fields }
  const { mode, allowedFunctionNames: names = [], ...more } = config
  const [only] = names
  if (mode === 'ANY' && names.length === 1 && only !== undefined && Object.keys(more).length === 0) {
    return { choice: { name: only }, fields }
  }
  // Other providers get the mode without the further members.
  if (mode === 'VALIDATED' || names.length > 0 || Object.keys(more).length > 0) {
    fields['toolConfig.functionCallingConfig'] = config
  }
  return { choice: mode && CHOICES[mode], fields }
}
