// The tools of a request. Only functions exist in every API, so namespaces are translated to functions. Custom tools and
// the tools that OpenAI defines stay in their own form for providers that have them.
import { invalidField } from '../../../../shared/errors.ts'
import type { HostedTool, OwnTool, ResponsesRequest, ResponsesTool } from '../../../../shared/wire/responses.ts'
import { RESPONSES_ORIGIN, type Tool, type ToolChoice } from '../../../models/conversation.ts'
import { CUSTOM_PARAMETERS, joined } from '../../../models/custom-tools.ts'

/** A tool as the request describes it. */
type Described = { type: 'function' | 'custom'; name: string; namespace?: string }

export type Tools = {
  /** The tools that models receive. Undefined if there are none. */
  offered: Tool[] | undefined
  choice: ToolChoice | undefined
  /** A choice that names a tool of OpenAI, as in the request. */
  hostedChoice?: object | undefined
  /** Returns the tool of a call by the name of its function. */
  describe(name: string): Described
}

/**
 * @throws VALIDATION_ERROR if two tools have the same name, the choice names an unknown tool, or it needs a tool and none
 * is offered
 */
export function toTools({ tools = [], tool_choice: choice }: Pick<ResponsesRequest, 'tools' | 'tool_choice'>): Tools {
  const described = new Map<string, Described>()
  const hosted = new Set<string>()
  const all: Tool[] = []

  function add(tool: OwnTool, namespace?: { name: string; description?: string | undefined }): void {
    const name = toFunctionName(tool.name, namespace?.name)
    if (described.has(name)) throw invalidField('tools', `Two tools have the name "${name.slice(0, 100)}".`)
    described.set(name, { type: tool.type, name: tool.name, ...(namespace && { namespace: namespace.name }) })
    const description = joined(namespace?.description, tool.description)
    all.push({ ...(tool.type === 'function' ? toFunction(tool) : toCustom(tool)), name, description })
  }

  for (const tool of tools) {
    if (isOwn(tool)) add(tool)
    else if (isNamespace(tool)) {
      const { name, description } = tool
      // The description of a namespace is part of its first tool, because functions have no namespaces.
      for (const [at, one] of tool.tools.entries()) add(one, { name, description: at === 0 ? description : undefined })
    } else {
      hosted.add(tool.type)
      all.push(toHosted(tool))
    }
  }
  const named = choiceOf(choice, described, hosted)
  const offered = named.allowed ? all.filter(({ name }) => named.allowed?.has(name)) : all
  const needsTool = named.choice === 'required' || named.hosted !== undefined
  if (offered.length === 0 && (needsTool || named.allowed)) {
    throw invalidField('tool_choice', 'tool_choice needs a tool. Add a tool, or set tool_choice to auto.')
  }
  // A tool that the model must use cannot be left out.
  const hasOwn = offered.some(({ native }) => native === undefined)
  const isNeeded = ({ name }: Tool) => (named.hosted ? name === named.hosted.type : needsTool && !hasOwn)
  return {
    offered: offered.length > 0 ? offered.map((tool) => (isNeeded(tool) ? toNeeded(tool) : tool)) : undefined,
    choice: named.choice,
    hostedChoice: named.hosted,
    describe: (name) => described.get(name) ?? { type: 'function', name },
  }
}

const isOwn = (tool: ResponsesTool): tool is OwnTool => tool.type === 'function' || tool.type === 'custom'
type Namespace = Extract<ResponsesTool, { tools: unknown }>
export const isNamespace = (tool: ResponsesTool): tool is Namespace => tool.type === 'namespace'

/** Whether OpenAI defines this tool. */
export const isHosted = (tool: ResponsesTool): tool is HostedTool => !isOwn(tool) && !isNamespace(tool)

/**
 * Tools that some agents offer in every request, whether the task needs them or not. They are left out if the provider
 * does not have them, or if the policy forbids them.
 */
const OPTIONAL = /^web_search(?:_|$)/
/** The steps of these tools in a conversation. */
export const isOptionalItem = (type: string): boolean => type === 'web_search_call'

/** Returns the name under which the answer reports that a tool was left out. */
export const toolField = (type: string): string => `tools[${type.slice(0, SHOWN_CHARS)}]`
const SHOWN_CHARS = 100

/** Tools of OpenAI that the client runs. */
const CLIENT_TOOL = /^(?:local_shell|apply_patch|computer)/

/** Whether the provider runs this tool. */
export const isServerTool = ({ type, environment, execution }: HostedTool): boolean =>
  !CLIENT_TOOL.test(type) && execution !== 'client' && (environment as { type?: unknown } | undefined)?.type !== 'local'

function toHosted(definition: HostedTool): Tool {
  const isOptional = OPTIONAL.test(definition.type)
  return { name: definition.type, native: { origin: RESPONSES_ORIGIN, definition, ...(isOptional && { isOptional }) } }
}

const toNeeded = (tool: Tool): Tool =>
  tool.native ? { ...tool, native: { ...tool.native, isOptional: undefined } } : tool

/** Returns the name of a tool's function. */
export function toFunctionName(name: string, namespace?: string | undefined): string {
  if (namespace === undefined) return name
  return namespace.endsWith('__') ? namespace + name : `${namespace}__${name}`
}

const toFunction = ({ parameters, strict }: Extract<OwnTool, { type: 'function' }>) => ({ parameters, strict })

const toCustom = ({ format }: Extract<OwnTool, { type: 'custom' }>) => ({
  parameters: CUSTOM_PARAMETERS,
  custom: { format },
})

function choiceOf(
  choice: ResponsesRequest['tool_choice'],
  described: ReadonlyMap<string, Described>,
  hosted: ReadonlySet<string>,
): { choice: ToolChoice | undefined; hosted?: HostedTool; allowed?: ReadonlySet<string> } {
  if (choice === undefined || typeof choice === 'string') return { choice }
  function known({ type, name }: { type: string; name?: unknown }): string {
    if (type !== 'function' && type !== 'custom') {
      if (!hosted.has(type)) throw invalidField('tool_choice', `No tool has the type "${type.slice(0, 100)}".`)
      return type
    }
    const asked = String(name)
    // A choice may name a tool of a namespace without its namespace.
    const found = described.has(asked) ? asked : [...described].find(([, tool]) => tool.name === asked)?.[0]
    if (found === undefined) throw invalidField('tool_choice', `No tool has the name "${asked.slice(0, 100)}".`)
    return found
  }
  if (choice.type === 'allowed_tools') {
    const { mode, tools } = choice as { mode: 'auto' | 'required'; tools: { type: string }[] }
    return { choice: mode, allowed: new Set(tools.map(known)) }
  }
  const name = known(choice)
  return hosted.has(name) && name === choice.type ? { choice: undefined, hosted: choice } : { choice: { name } }
}
