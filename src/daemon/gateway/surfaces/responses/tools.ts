// The tools of a request. Providers accept only functions, so custom tools and namespaces are translated to functions.
import { invalidField } from '../../../../shared/errors.ts'
import type { OwnTool, ResponsesRequest, ResponsesTool } from '../../../../shared/wire/responses.ts'
import type { Tool, ToolChoice } from '../../../models/conversation.ts'
import { joined, toCustomTool } from '../custom-tools.ts'

/** A tool as the request describes it. */
type Described = { type: 'function' | 'custom'; name: string; namespace?: string }

export type Tools = {
  /** The functions that models receive. Undefined if the request has no tools that a client runs. */
  offered: Tool[] | undefined
  choice: ToolChoice | undefined
  /** Returns the tool of a call by the name of its function. */
  describe(name: string): Described
}

/**
 * @throws VALIDATION_ERROR if two tools have the same name, the choice names an unknown tool, or it needs a tool and none
 * can be offered
 */
export function toTools({ tools = [], tool_choice: choice }: Pick<ResponsesRequest, 'tools' | 'tool_choice'>): Tools {
  const described = new Map<string, Described>()
  const all: Tool[] = []

  function add(tool: OwnTool, namespace?: { name: string; description?: string | undefined }): void {
    const name = toFunctionName(tool.name, namespace?.name)
    if (described.has(name)) throw invalidField('tools', `Two tools have the name "${name.slice(0, 100)}".`)
    described.set(name, { type: tool.type, name: tool.name, ...(namespace && { namespace: namespace.name }) })
    const description = joined(namespace?.description, tool.description)
    all.push(tool.type === 'function' ? { ...toFunction(tool), name, description } : toCustom(tool, name, description))
  }

  for (const tool of tools) {
    if (isOwn(tool)) add(tool)
    else if (isNamespace(tool)) {
      const { name, description } = tool
      // The description of a namespace is part of its first tool, because functions have no namespaces.
      for (const [at, one] of tool.tools.entries()) add(one, { name, description: at === 0 ? description : undefined })
    }
  }
  const named = choiceOf(choice, described)
  const offered = named.allowed ? all.filter(({ name }) => named.allowed?.has(name)) : all
  if (offered.length === 0 && (named.choice === 'required' || named.allowed)) {
    throw invalidField(
      'tool_choice',
      'tool_choice needs a tool, but no tool remains that the model can be offered. The gateway drops tools that OpenAI runs itself. Add a function, or set tool_choice to auto.',
    )
  }
  return {
    offered: offered.length > 0 ? offered : undefined,
    choice: named.choice,
    describe: (name) => described.get(name) ?? { type: 'function', name },
  }
}

const isOwn = (tool: ResponsesTool): tool is OwnTool => tool.type === 'function' || tool.type === 'custom'
type Namespace = Extract<ResponsesTool, { tools: unknown }>
export const isNamespace = (tool: ResponsesTool): tool is Namespace => tool.type === 'namespace'

/** The types of the tools that the original API runs itself. The gateway cannot offer these tools. */
export const hostedTypes = (tools: readonly ResponsesTool[] = []): string[] =>
  tools.flatMap((tool) => (isOwn(tool) || isNamespace(tool) ? [] : tool.type))

/** Returns the name of a tool's function. */
export function toFunctionName(name: string, namespace?: string | undefined): string {
  if (namespace === undefined) return name
  return namespace.endsWith('__') ? namespace + name : `${namespace}__${name}`
}

const toFunction = ({ parameters, strict }: Extract<OwnTool, { type: 'function' }>) => ({ parameters, strict })

const toCustom = ({ format }: Extract<OwnTool, { type: 'custom' }>, name: string, description?: string): Tool =>
  toCustomTool(name, description, format?.type === 'grammar' ? format : undefined)

function choiceOf(
  choice: ResponsesRequest['tool_choice'],
  described: ReadonlyMap<string, Described>,
): { choice: ToolChoice | undefined; allowed?: ReadonlySet<string> } {
  if (choice === undefined || typeof choice === 'string') return { choice }
  const known = ({ name }: { name: string }): string => {
    // A choice may name a tool of a namespace without its namespace.
    const found = described.has(name) ? name : [...described].find(([, tool]) => tool.name === name)?.[0]
    if (found === undefined) throw invalidField('tool_choice', `No tool has the name "${name.slice(0, 100)}".`)
    return found
  }
  if (choice.type !== 'allowed_tools') return { choice: { name: known(choice) } }
  return { choice: choice.mode, allowed: new Set(choice.tools.map(known)) }
}
