// The table of all providers of OpenAI's family and of their differences. It is long, because it is one flat table.
// The facts come from the providers' public documentation. A fact that is not known is left out, because the default
// passes every option on and lets the server decide.

/**
 * The options that some servers do not support. A server's row does not list options that the server itself rejects
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
  | 'n'

/** How the chats of one server differ from those of other servers. */
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
export const USUAL_PROFILE: Profile = {
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

/** Routes beside `/chat/completions`. */
export type FamilyRoute = 'embeddings' | 'rerank' | 'moderations'

export type FamilyMember = {
  /** Undefined if every customer has a separate address. */
  baseUrl: string | undefined
  /** The environment variables that contain the key, highest precedence first. Empty if the provider needs no key. */
  keyVariables: readonly string[]
  /** The environment variable that overrides the address to which the key is sent. */
  baseUrlVariable?: string
  /** The environment variable that contains the API version. */
  apiVersionVariable?: string
  /** Azure has addresses and a header of its own. */
  kind?: 'azure'
  /** Whether the server runs on the daemon's machine. Its address does not identify it. */
  isLocal?: true
  /** Whether the server is discovered without configuration. */
  isDiscovered?: true
  /** Host suffixes of the server's other addresses. */
  otherHosts?: readonly string[]
  /** Routes that the server is known not to have. Requests for them are rejected without a call. */
  lacksRoutes?: readonly FamilyRoute[]
  differs?: Partial<Profile>
  /** Differences of some models. */
  models?: { names: RegExp; differs: Partial<Profile> }
}

/** OpenAI's models that have custom tools. */
const CUSTOM_TOOLS = /^(?:openai\/)?(?:gpt-(?:[5-9]|\d\d)(?!.*-chat)|codex)/
/** OpenAI's reasoning models. The model of an Azure deployment can only be guessed from the deployment's name. */
const THINKING_MODELS: FamilyMember['models'] = {
  names: /^(?:openai\/)?(?:o\d|gpt-5(?!.*-chat)|codex)/,
  differs: {
    tokensField: 'max_completion_tokens',
    systemRole: 'developer',
    fixedTemperature: true,
    lacks: ['top_p', 'top_k', 'penalties', 'logprobs', 'stop'],
  },
}

const ONLY_CHAT = ['embeddings', 'rerank', 'moderations'] as const
const NO_RANKS = ['rerank', 'moderations'] as const

/** By well-known name. */
export const OPENAI_FAMILY: Readonly<Record<string, FamilyMember>> = {
  openai: {
    baseUrl: 'https://api.openai.com/v1',
    keyVariables: ['OPENAI_API_KEY'],
    // A key that belongs to a proxy must not be sent to another server.
    baseUrlVariable: 'OPENAI_BASE_URL',
    lacksRoutes: ['rerank'],
    differs: { noTrainingFields: { store: false }, hasAllowedTools: true, customTools: CUSTOM_TOOLS, lacks: ['top_k'] },
    models: THINKING_MODELS,
  },
  azure: {
    kind: 'azure',
    baseUrl: undefined,
    keyVariables: ['AZURE_OPENAI_API_KEY'],
    baseUrlVariable: 'AZURE_OPENAI_ENDPOINT',
    apiVersionVariable: 'OPENAI_API_VERSION',
    otherHosts: ['openai.azure.com', 'services.ai.azure.com', 'cognitiveservices.azure.com'],
    lacksRoutes: NO_RANKS,
    differs: { hasAllowedTools: true, customTools: CUSTOM_TOOLS, lacks: ['top_k'] },
    models: THINKING_MODELS,
  },
  mistral: {
    baseUrl: 'https://api.mistral.ai/v1',
    keyVariables: ['MISTRAL_API_KEY'],
    lacksRoutes: ['rerank'],
    differs: {
      streamOptions: false,
      seedField: 'random_seed',
      dimensionsField: 'output_dimension',
      shortToolIds: true,
      refusesUser: true,
      lacks: ['top_k', 'logprobs'],
    },
  },
  groq: {
    baseUrl: 'https://api.groq.com/openai/v1',
    keyVariables: ['GROQ_API_KEY'],
    lacksRoutes: ONLY_CHAT,
    differs: { tokensField: 'max_completion_tokens', lacks: ['top_k', 'penalties', 'logprobs'] },
  },
  deepseek: {
    baseUrl: 'https://api.deepseek.com/v1',
    keyVariables: ['DEEPSEEK_API_KEY'],
    lacksRoutes: ONLY_CHAT,
    differs: {
      reasoningField: 'reasoning_content',
      lacks: ['images', 'json_schema', 'n', 'parallel_tool_calls', 'seed', 'top_k'],
    },
  },
  openrouter: {
    baseUrl: 'https://openrouter.ai/api/v1',
    keyVariables: ['OPENROUTER_API_KEY'],
    differs: {
      reasoningField: 'reasoning_details',
      effortField: 'reasoning',
      noTrainingFields: { provider: { data_collection: 'deny' } },
    },
  },
  xai: {
    baseUrl: 'https://api.x.ai/v1',
    keyVariables: ['XAI_API_KEY'],
    lacksRoutes: NO_RANKS,
    differs: { tokensField: 'max_completion_tokens', lacks: ['top_k'] },
  },
  together: {
    baseUrl: 'https://api.together.xyz/v1',
    keyVariables: ['TOGETHER_API_KEY'],
    otherHosts: ['api.together.ai'],
    // In this API, the `logprobs` option is a number, and answers contain log probabilities in another format.
    differs: { lacks: ['logprobs'] },
  },
  fireworks: { baseUrl: 'https://api.fireworks.ai/inference/v1', keyVariables: ['FIREWORKS_API_KEY'] },
  cerebras: {
    baseUrl: 'https://api.cerebras.ai/v1',
    keyVariables: ['CEREBRAS_API_KEY'],
    lacksRoutes: ONLY_CHAT,
    differs: { tokensField: 'max_completion_tokens', lacks: ['images', 'penalties', 'top_k'] },
  },
  perplexity: {
    baseUrl: 'https://api.perplexity.ai',
    keyVariables: ['PERPLEXITY_API_KEY'],
    lacksRoutes: NO_RANKS,
    differs: {
      streamOptions: false,
      alternates: true,
      lacks: ['tools', 'json_object', 'logprobs', 'n', 'parallel_tool_calls', 'seed', 'stop'],
    },
  },
  moonshot: {
    baseUrl: 'https://api.moonshot.ai/v1',
    keyVariables: ['MOONSHOT_API_KEY'],
    otherHosts: ['api.moonshot.cn'],
    lacksRoutes: ONLY_CHAT,
    differs: {
      reasoningField: 'reasoning_content',
      lacks: ['logprobs', 'parallel_tool_calls', 'seed', 'top_k'],
    },
    models: { names: /^kimi-k2\.[5-9]/, differs: { fixedTemperature: true } },
  },
  zai: {
    baseUrl: 'https://api.z.ai/api/paas/v4',
    keyVariables: ['ZAI_API_KEY'],
    otherHosts: ['open.bigmodel.cn'],
    differs: {
      reasoningField: 'reasoning_content',
      lacks: ['json_schema', 'logprobs', 'parallel_tool_calls', 'penalties', 'seed', 'tool_choice', 'top_k'],
    },
  },
  alibaba: {
    baseUrl: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
    keyVariables: ['DASHSCOPE_API_KEY'],
    otherHosts: ['dashscope.aliyuncs.com', 'dashscope-us.aliyuncs.com'],
  },
  huggingface: { baseUrl: 'https://router.huggingface.co/v1', keyVariables: ['HF_TOKEN'] },
  nvidia: { baseUrl: 'https://integrate.api.nvidia.com/v1', keyVariables: ['NVIDIA_API_KEY'] },
  deepinfra: {
    baseUrl: 'https://api.deepinfra.com/v1/openai',
    keyVariables: ['DEEPINFRA_API_KEY'],
    lacksRoutes: NO_RANKS,
  },
  sambanova: {
    baseUrl: 'https://api.sambanova.ai/v1',
    keyVariables: ['SAMBANOVA_API_KEY'],
    lacksRoutes: NO_RANKS,
    // The documentation says that these are ignored.
    differs: { lacks: ['logprobs', 'penalties', 'seed'] },
  },
  nebius: {
    baseUrl: 'https://api.tokenfactory.nebius.com/v1',
    keyVariables: ['NEBIUS_API_KEY'],
    otherHosts: ['api.studio.nebius.com', 'api.studio.nebius.ai'],
  },
  hyperbolic: {
    baseUrl: 'https://api.hyperbolic.xyz/v1',
    keyVariables: ['HYPERBOLIC_API_KEY'],
    lacksRoutes: NO_RANKS,
  },
  novita: { baseUrl: 'https://api.novita.ai/openai/v1', keyVariables: ['NOVITA_API_KEY'] },
  siliconflow: {
    baseUrl: 'https://api.siliconflow.com/v1',
    keyVariables: ['SILICONFLOW_API_KEY'],
    otherHosts: ['api.siliconflow.cn'],
  },
  baseten: { baseUrl: 'https://inference.baseten.co/v1', keyVariables: ['BASETEN_API_KEY'] },
  ai21: {
    baseUrl: 'https://api.ai21.com/studio/v1',
    keyVariables: ['AI21_API_KEY'],
    lacksRoutes: ONLY_CHAT,
    differs: {
      streamOptions: false,
      lacks: ['images', 'json_schema', 'logprobs', 'parallel_tool_calls', 'penalties', 'top_k'],
    },
  },
  minimax: {
    baseUrl: 'https://api.minimax.io/v1',
    keyVariables: ['MINIMAX_API_KEY'],
    otherHosts: ['api.minimaxi.com'],
    lacksRoutes: NO_RANKS,
    // The documentation says that penalties are ignored.
    differs: { lacks: ['penalties'] },
  },
  stepfun: {
    baseUrl: 'https://api.stepfun.com/v1',
    keyVariables: ['STEPFUN_API_KEY'],
    otherHosts: ['api.stepfun.ai'],
    lacksRoutes: NO_RANKS,
  },
  volcengine: { baseUrl: 'https://ark.cn-beijing.volces.com/api/v3', keyVariables: ['ARK_API_KEY'] },
  hunyuan: {
    baseUrl: 'https://api.hunyuan.cloud.tencent.com/v1',
    keyVariables: ['HUNYUAN_API_KEY'],
    lacksRoutes: NO_RANKS,
  },
  qianfan: { baseUrl: 'https://qianfan.baidubce.com/v2', keyVariables: ['QIANFAN_API_KEY'] },
  vercel: { baseUrl: 'https://ai-gateway.vercel.sh/v1', keyVariables: ['AI_GATEWAY_API_KEY'] },
  scaleway: { baseUrl: 'https://api.scaleway.ai/v1', keyVariables: ['SCALEWAY_API_KEY'] },
  ovhcloud: {
    baseUrl: 'https://oai.endpoints.kepler.ai.cloud.ovh.net/v1',
    keyVariables: ['OVHCLOUD_API_KEY'],
  },
  venice: { baseUrl: 'https://api.venice.ai/api/v1', keyVariables: ['VENICE_API_KEY'] },
  chutes: { baseUrl: 'https://llm.chutes.ai/v1', keyVariables: ['CHUTES_API_KEY'] },
  inception: {
    baseUrl: 'https://api.inceptionlabs.ai/v1',
    keyVariables: ['INCEPTION_API_KEY'],
    lacksRoutes: ONLY_CHAT,
  },
  upstage: {
    baseUrl: 'https://api.upstage.ai/v1',
    keyVariables: ['UPSTAGE_API_KEY'],
    lacksRoutes: NO_RANKS,
  },
  friendli: { baseUrl: 'https://api.friendli.ai/serverless/v1', keyVariables: ['FRIENDLI_TOKEN'] },
  databricks: {
    baseUrl: undefined,
    keyVariables: ['DATABRICKS_TOKEN'],
    otherHosts: ['cloud.databricks.com', 'gcp.databricks.com', 'azuredatabricks.net'],
    lacksRoutes: NO_RANKS,
    differs: { streamOptions: false, lacks: ['parallel_tool_calls', 'penalties', 'seed'] },
  },
  // The address contains the id of the account.
  cloudflare: {
    baseUrl: undefined,
    keyVariables: ['CLOUDFLARE_API_TOKEN'],
    otherHosts: ['api.cloudflare.com'],
    lacksRoutes: NO_RANKS,
  },
  ollama: {
    baseUrl: 'http://127.0.0.1:11434/v1',
    keyVariables: [],
    isLocal: true,
    isDiscovered: true,
    lacksRoutes: NO_RANKS,
    differs: { lacks: ['n', 'parallel_tool_calls', 'tool_choice', 'top_k'] },
  },
  vllm: {
    baseUrl: 'http://127.0.0.1:8000/v1',
    keyVariables: [],
    isLocal: true,
    isDiscovered: true,
    lacksRoutes: ['moderations'],
  },
  lmstudio: {
    baseUrl: 'http://127.0.0.1:1234/v1',
    keyVariables: [],
    isLocal: true,
    lacksRoutes: NO_RANKS,
    differs: { lacks: ['n'] },
  },
}
