/**
 * The options that some servers do not support. A server's profile does not list options that the server itself rejects
 * with a clear message.
 */
export type Ability =
  | 'tools'
  | 'tool_choice'
  | 'parallel_tool_calls'
  | 'json_object'
  | 'json_schema'
  | 'images'
  | 'stop'
  | 'top_p'
  | 'top_k'
  | 'penalties'
  | 'seed'
  | 'logprobs'

/** How one server differs from other OpenAI-compatible servers. */
export type Profile = {
  /**
   * The `origin` of this server's reasoning (conversation.ts). Only reasoning with this origin is sent back to the
   * server.
   */
  origin: string
  tokensField: 'max_tokens' | 'max_completion_tokens'
  systemRole: 'system' | 'developer'
  /**
   * Whether `stream_options` is sent, to request the usage. False for servers that always stream the usage and reject
   * unknown fields.
   */
  streamOptions: boolean
  /** Whether the model accepts only its own temperature, so that a default temperature is not sent. */
  fixedTemperature: boolean
  /** The field for earlier reasoning. Undefined if the server does not accept earlier reasoning. */
  reasoningField: 'reasoning_content' | 'reasoning_details' | undefined
  /** `reasoning` means `reasoning: {effort}`. */
  effortField: 'reasoning_effort' | 'reasoning'
  seedField: 'seed' | 'random_seed'
  dimensionsField: 'dimensions' | 'output_dimension'
  /** Whether tool call ids must consist of nine letters and digits. Other ids are converted. */
  shortToolIds: boolean
  /** Whether turns of user and assistant must alternate. */
  alternates: boolean
  /** Whether the server rejects the end user's name as an unknown field. */
  refusesUser: boolean
  /** Whether the server has `tool_choice: {type: "allowed_tools"}`. */
  hasAllowedTools: boolean
  /** The models that have custom tools. */
  customTools: RegExp | undefined
  /** Request fields that ask the provider not to train on a chat, in addition to the header. */
  noTrainingFields: Readonly<Record<string, unknown>>
  /**
   * Options that the server ignores, or that it rejects with an unclear message. The gateway responds with 400 to
   * requests that use them.
   */
  lacks: readonly Ability[]
}

/** The profile of an unknown server. All options are passed on, and the server decides which to accept. */
const DEFAULT: Profile = {
  origin: 'openai',
  tokensField: 'max_tokens',
  systemRole: 'system',
  streamOptions: true,
  fixedTemperature: false,
  reasoningField: undefined,
  effortField: 'reasoning_effort',
  seedField: 'seed',
  dimensionsField: 'dimensions',
  shortToolIds: false,
  alternates: false,
  refusesUser: false,
  hasAllowedTools: false,
  customTools: undefined,
  noTrainingFields: {},
  lacks: [],
}

/** OpenAI's reasoning models. The model of an Azure deployment can only be guessed from the deployment's name. */
const THINKING_MODEL = /^(?:openai\/)?(?:o\d|gpt-5(?!.*-chat)|codex)/
/** OpenAI's models that have custom tools. */
const CUSTOM_TOOLS = /^(?:openai\/)?(?:gpt-(?:[5-9]|\d\d)(?!.*-chat)|codex)/
const THINKING: Partial<Profile> = {
  tokensField: 'max_completion_tokens',
  systemRole: 'developer',
  fixedTemperature: true,
  lacks: ['top_p', 'top_k', 'penalties', 'logprobs', 'stop'],
}

type Entry = Partial<Profile> & {
  /** The host suffixes of the server's base URL. */
  hosts: readonly string[]
  /** Overrides for some models. */
  models?: { names: RegExp; profile: Partial<Profile> }
}

/** Profiles by the name of the well-known provider. */
const PROFILES: Readonly<Record<string, Entry>> = {
  openai: {
    hosts: ['api.openai.com'],
    noTrainingFields: { store: false },
    hasAllowedTools: true,
    customTools: CUSTOM_TOOLS,
    lacks: ['top_k'],
    models: { names: THINKING_MODEL, profile: THINKING },
  },
  azure: {
    hosts: ['openai.azure.com', 'services.ai.azure.com', 'cognitiveservices.azure.com'],
    hasAllowedTools: true,
    customTools: CUSTOM_TOOLS,
    lacks: ['top_k'],
    models: { names: THINKING_MODEL, profile: THINKING },
  },
  groq: {
    hosts: ['api.groq.com'],
    tokensField: 'max_completion_tokens',
    lacks: ['top_k', 'penalties', 'logprobs'],
  },
  mistral: {
    hosts: ['api.mistral.ai'],
    streamOptions: false,
    seedField: 'random_seed',
    dimensionsField: 'output_dimension',
    shortToolIds: true,
    refusesUser: true,
    lacks: ['top_k', 'logprobs'],
  },
  deepseek: {
    hosts: ['api.deepseek.com'],
    reasoningField: 'reasoning_content',
    lacks: ['images', 'json_schema', 'parallel_tool_calls', 'seed', 'top_k'],
  },
  openrouter: {
    hosts: ['openrouter.ai'],
    reasoningField: 'reasoning_details',
    effortField: 'reasoning',
    noTrainingFields: { provider: { data_collection: 'deny' } },
  },
  xai: {
    hosts: ['api.x.ai'],
    tokensField: 'max_completion_tokens',
    lacks: ['top_k'],
  },
  together: {
    hosts: ['api.together.xyz', 'api.together.ai'],
    // In this API, the `logprobs` option is a number, and answers contain log probabilities in another format.
    lacks: ['logprobs'],
  },
  fireworks: { hosts: ['api.fireworks.ai'] },
  cerebras: {
    hosts: ['api.cerebras.ai'],
    tokensField: 'max_completion_tokens',
    lacks: ['images', 'penalties', 'top_k'],
  },
  perplexity: {
    hosts: ['api.perplexity.ai'],
    streamOptions: false,
    alternates: true,
    lacks: ['tools', 'json_object', 'logprobs', 'parallel_tool_calls', 'seed', 'stop'],
  },
  moonshot: {
    hosts: ['api.moonshot.ai', 'api.moonshot.cn'],
    reasoningField: 'reasoning_content',
    lacks: ['logprobs', 'parallel_tool_calls', 'seed', 'top_k'],
    models: { names: /^kimi-k2\.[5-9]/, profile: { fixedTemperature: true } },
  },
  zai: {
    hosts: ['api.z.ai', 'open.bigmodel.cn'],
    reasoningField: 'reasoning_content',
    lacks: ['json_schema', 'logprobs', 'parallel_tool_calls', 'penalties', 'seed', 'tool_choice', 'top_k'],
  },
  huggingface: { hosts: ['router.huggingface.co'] },
  alibaba: { hosts: ['dashscope.aliyuncs.com', 'dashscope-intl.aliyuncs.com', 'dashscope-us.aliyuncs.com'] },
  ollama: { hosts: [], lacks: ['parallel_tool_calls', 'tool_choice', 'top_k'] },
  vllm: { hosts: [] },
}

/**
 * Returns a function that maps a model to its profile. The profiles are selected by host first, then by the provider's
 * name, because a proxy is usually named after its well-known provider. All other servers get the default profile.
 */
export function profilesOf(name: string, baseUrl: string): (model: string) => Profile {
  const host = new URL(baseUrl).hostname
  const known =
    Object.entries(PROFILES).find(([, { hosts }]) =>
      hosts.some((own) => host === own || host.endsWith(`.${own}`)),
    )?.[0] ?? (Object.hasOwn(PROFILES, name) ? name : undefined)
  if (known === undefined) return () => DEFAULT
  const { hosts: _, models, ...differences } = PROFILES[known] as Entry
  const profile: Profile = { ...DEFAULT, origin: known, ...differences }
  if (!models) return () => profile
  const special: Profile = { ...profile, ...models.profile }
  return (model) => (models.names.test(model) ? special : profile)
}
