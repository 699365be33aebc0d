/**
 * List prices of well-known models, in dollars per million tokens. They are the providers' public prices for direct,
 * unbatched calls with prompts below the long-context tiers. `tiers` lists the tiers of service with known prices. Prices are never downloaded. To correct a price, set
 * `prices` in the configuration, or edit this table.
 */

/** The date on which the prices were last checked. */
export const PRICES_AS_OF = '2026-11-21'

/**
 * Prices of input, output, cache reads, cache writes, and cache writes with a lifetime of an hour. If a cache price is
 * undefined, the input price applies. If the price of an hour is undefined, the price of cache writes applies.
 */
export type ListPrice = readonly [
  input: number,
  output: number,
  cacheRead?: number,
  cacheWrite?: number,
  cacheWriteHour?: number,
]

/** Prices of audio tokens. */
export type AudioPrice = readonly [input: number, output: number]

/** Points per answer, by bucket. */
export const POINTS = { free: 0, standard: 1, premium: 2 } as const
export type Bucket = keyof typeof POINTS

export type ProviderPrices = {
  /** Prices by bucket, then by the provider's model name without date or version. `*` matches any model. */
  models: { readonly [In in Bucket]?: Readonly<Record<string, ListPrice>> }
  /**
   * Dated or numbered editions that are known to cost the same as their model. For other editions, the price of their
   * model is assumed and logged.
   */
  editions?: readonly string[]
  /** Prices by tier of service, then by model, as in `models`. */
  tiers?: Readonly<Record<string, Readonly<Record<string, ListPrice>>>>
  /** Prices of audio tokens in input and output, by model. The prices in `models` then apply to text. */
  audio?: Readonly<Record<string, AudioPrice>>
  /** Dollars per thousand web searches. */
  webSearch?: number
  /**
   * The price of an unlisted model. It is set only if the provider's most expensive common model costs more than
   * UNKNOWN_PRICE.
   */
  unlisted?: ListPrice
}

/** The price of an unlisted model, in the premium bucket. */
export const UNKNOWN_PRICE: ListPrice = [15, 75, 15, 18.75, 30]

/** Prices of local providers. These prices apply only to servers at private addresses. */
const FREE: ProviderPrices = { models: { free: { '*': [0, 0] } } }

const CLAUDE_EDITIONS = [
  'claude-3-haiku-20240307',
  'claude-3-5-haiku-20241022',
  'claude-haiku-4-5-20251001',
  'claude-3-5-sonnet-20240620',
  'claude-3-5-sonnet-20241022',
  'claude-3-7-sonnet-20250219',
  'claude-sonnet-4-20250514',
  'claude-sonnet-4-5-20250929',
  'claude-3-opus-20240229',
  'claude-opus-4-20250514',
  'claude-opus-4-1-20250805',
  'claude-opus-4-5-20251101',
]

const CLAUDE: ProviderPrices = {
  models: {
    standard: {
      'claude-3-haiku': [0.25, 1.25, 0.03, 0.3, 0.5],
      'claude-3-5-haiku': [0.8, 4, 0.08, 1, 1.6],
      'claude-haiku-4-5': [1, 5, 0.1, 1.25, 2],
    },
    premium: {
      'claude-3-5-sonnet': [3, 15, 0.3, 3.75, 6],
      'claude-3-7-sonnet': [3, 15, 0.3, 3.75, 6],
      'claude-sonnet-4': [3, 15, 0.3, 3.75, 6],
      'claude-sonnet-4-5': [3, 15, 0.3, 3.75, 6],
      'claude-sonnet-4-6': [3, 15, 0.3, 3.75, 6],
      'claude-sonnet-5': [2, 10, 0.2, 2.5, 4],
      'claude-3-opus': [15, 75, 1.5, 18.75, 30],
      'claude-opus-4': [15, 75, 1.5, 18.75, 30],
      'claude-opus-4-1': [15, 75, 1.5, 18.75, 30],
      'claude-opus-4-5': [5, 25, 0.5, 6.25, 10],
      'claude-opus-4-6': [5, 25, 0.5, 6.25, 10],
      'claude-opus-4-7': [5, 25, 0.5, 6.25, 10],
      'claude-opus-4-8': [5, 25, 0.5, 6.25, 10],
      'claude-opus-5': [5, 25, 0.5, 6.25, 10],
      'claude-fable-5': [10, 50, 1, 12.5, 20],
    },
  },
  editions: CLAUDE_EDITIONS,
  tiers: { fast: { 'claude-opus-4-6': [30, 150, 3, 37.5, 60] } },
  webSearch: 10,
}

export const PRICE_TABLE: Readonly<Record<string, ProviderPrices>> = {
  local: FREE,
  ollama: FREE,
  vllm: FREE,
  'self-hosted': FREE,

  openai: {
    models: {
      standard: {
        'gpt-3.5-turbo': [0.5, 1.5],
        'gpt-3.5-turbo-0613': [1.5, 2],
        'gpt-3.5-turbo-1106': [1, 2],
        'gpt-3.5-turbo-16k': [3, 4],
        'gpt-4o-mini': [0.15, 0.6, 0.075],
        'gpt-4.1-mini': [0.4, 1.6, 0.1],
        'gpt-4.1-nano': [0.1, 0.4, 0.025],
        'gpt-5-mini': [0.25, 2, 0.025],
        'gpt-5-nano': [0.05, 0.4, 0.005],
        'gpt-5.4-mini': [0.75, 4.5, 0.075],
        'gpt-5.4-nano': [0.2, 1.25, 0.02],
        'gpt-5.6-luna': [0.2, 1.2, 0.02, 0.25],
        'gpt-4o-mini-audio': [0.15, 0.6],
        'gpt-audio-mini': [0.6, 2.4],
        'text-embedding-3-small': [0.02, 0],
        'text-embedding-3-large': [0.13, 0],
        'text-embedding-ada-002': [0.1, 0],
      },
      premium: {
        'gpt-4': [30, 60],
        'gpt-4-32k': [60, 120],
        'gpt-4-1106-preview': [10, 30],
        'gpt-4-0125-preview': [10, 30],
        'gpt-4-turbo': [10, 30],
        'gpt-4o': [2.5, 10, 1.25],
        'gpt-4o-2024-05-13': [5, 15],
        'gpt-4o-audio': [2.5, 10],
        'gpt-audio': [2.5, 10],
        'chatgpt-4o': [5, 15],
        'gpt-4.1': [2, 8, 0.5],
        'gpt-5': [1.25, 10, 0.125],
        'gpt-5-chat': [1.25, 10, 0.125],
        'gpt-5-codex': [1.25, 10, 0.125],
        'gpt-5-pro': [15, 120],
        'gpt-5.1': [1.25, 10, 0.125],
        'gpt-5.1-codex': [1.25, 10, 0.125],
        'gpt-5.2': [1.75, 14, 0.175],
        'gpt-5.2-codex': [1.75, 14, 0.175],
        'gpt-5.2-pro': [21, 168],
        'gpt-5.3-codex': [1.75, 14, 0.175],
        'gpt-5.4': [2.5, 15, 0.25],
        'gpt-5.4-pro': [30, 180],
        'gpt-5.5': [5, 30, 0.5],
        'gpt-5.5-pro': [30, 180],
        'gpt-5.6-terra': [2, 12, 0.2, 2.5],
        'gpt-5.6-sol': [5, 30, 0.5, 6.25],
        o1: [15, 60, 7.5],
        'o1-mini': [1.1, 4.4, 0.55],
        'o1-pro': [150, 600],
        o3: [2, 8, 0.5],
        'o3-mini': [1.1, 4.4, 0.55],
        'o3-pro': [20, 80],
        'o4-mini': [1.1, 4.4, 0.275],
      },
    },
    editions: [
      'gpt-3.5-turbo-0125',
      'gpt-4-0613',
      'gpt-4-turbo-2024-04-09',
      'gpt-4o-2024-08-06',
      'gpt-4o-2024-11-20',
      'gpt-4o-mini-2024-07-18',
      'gpt-4.1-2025-04-14',
      'gpt-4.1-mini-2025-04-14',
      'gpt-4.1-nano-2025-04-14',
      'gpt-5-2025-08-07',
      'gpt-5-mini-2025-08-07',
      'gpt-5-nano-2025-08-07',
      'gpt-5-pro-2025-10-06',
      'gpt-5.1-2025-11-13',
      'gpt-5.2-2025-12-11',
      'o1-2024-12-17',
      'o1-mini-2024-09-12',
      'o1-pro-2025-03-19',
      'o3-2025-04-16',
      'o3-mini-2025-01-31',
      'o3-pro-2025-06-10',
      'o4-mini-2025-04-16',
    ],
    tiers: {
      flex: {
        'gpt-5': [0.625, 5, 0.0625],
        'gpt-5-mini': [0.125, 1, 0.0125],
        'gpt-5-nano': [0.025, 0.2, 0.0025],
        'gpt-5.1': [0.625, 5, 0.0625],
        'gpt-5.2': [0.875, 7, 0.0875],
        o3: [1, 4, 0.25],
        'o4-mini': [0.55, 2.2, 0.138],
      },
      priority: {
        'gpt-4o': [4.25, 17, 2.125],
        'gpt-4o-mini': [0.25, 1, 0.125],
        'gpt-4.1': [3.5, 14, 0.875],
        'gpt-4.1-mini': [0.7, 2.8, 0.175],
        'gpt-4.1-nano': [0.2, 0.8, 0.05],
        'gpt-5': [2.5, 20, 0.25],
        'gpt-5-codex': [2.5, 20, 0.25],
        'gpt-5-mini': [0.45, 3.6, 0.045],
        'gpt-5.1': [2.5, 20, 0.25],
        'gpt-5.1-codex': [2.5, 20, 0.25],
        'gpt-5.2': [3.5, 28, 0.35],
        o3: [3.5, 14, 0.875],
        'o4-mini': [2, 8, 0.5],
      },
    },
    audio: {
      'gpt-4o-audio': [40, 80],
      'gpt-4o-mini-audio': [10, 20],
      'gpt-audio': [32, 64],
      'gpt-audio-mini': [10, 20],
    },
    webSearch: 10,
    unlisted: [30, 180],
  },

  anthropic: CLAUDE,

  bedrock: {
    models: {
      standard: {
        ...CLAUDE.models.standard,
        'nova-micro': [0.035, 0.14],
        'nova-lite': [0.06, 0.24],
        'nova-pro': [0.8, 3.2],
        'titan-embed-text-v1': [0.1, 0],
        'titan-embed-text-v2:0': [0.02, 0],
        'embed-english-v3': [0.1, 0],
        'embed-multilingual-v3': [0.1, 0],
        'embed-v4:0': [0.12, 0],
      },
      premium: { ...CLAUDE.models.premium },
    },
    editions: CLAUDE_EDITIONS,
  },

  google: {
    models: {
      standard: {
        'gemini-2.0-flash': [0.1, 0.4, 0.025],
        'gemini-2.0-flash-lite': [0.075, 0.3],
        'gemini-2.5-flash': [0.3, 2.5, 0.03],
        'gemini-2.5-flash-lite': [0.1, 0.4, 0.01],
        'gemini-3-flash': [0.5, 3, 0.05],
        'gemini-3.1-flash-lite': [0.25, 1.5, 0.025],
        'gemini-3.5-flash': [1.5, 9, 0.15],
        'gemini-embedding-001': [0.15, 0],
      },
      premium: {
        'gemini-2.5-pro': [1.25, 10, 0.125],
        'gemini-3-pro': [2, 12, 0.2],
        'gemini-3.1-pro': [2, 12, 0.2],
      },
    },
    editions: [
      'gemini-2.0-flash-001',
      'gemini-2.0-flash-lite-001',
      'gemini-2.5-pro-preview-03-25',
      'gemini-2.5-pro-preview-05-06',
      'gemini-2.5-pro-preview-06-05',
    ],
  },

  mistral: {
    models: {
      standard: {
        'open-mistral-7b': [0.25, 0.25],
        'open-mistral-nemo': [0.15, 0.15],
        'ministral-3b': [0.1, 0.1],
        'ministral-8b': [0.15, 0.15],
        'ministral-14b': [0.2, 0.2],
        'mistral-small': [0.2, 0.6],
        'mistral-medium': [0.4, 2],
        'mistral-medium-2312': [2.7, 8.1],
        'mistral-large': [2, 6],
        'mistral-large-2402': [4, 12],
        'mistral-large-2407': [3, 9],
        'mistral-large-2512': [0.5, 1.5],
        codestral: [0.3, 0.9],
        'mistral-embed': [0.1, 0],
      },
    },
    editions: [
      'mistral-large-2411',
      'mistral-medium-2505',
      'mistral-medium-2508',
      'codestral-2501',
      'codestral-2508',
      'ministral-3b-2512',
      'ministral-8b-2512',
      'ministral-14b-2512',
      'open-mistral-nemo-2407',
    ],
  },

  deepseek: {
    models: { standard: { 'deepseek-chat': [0.28, 0.42, 0.028], 'deepseek-reasoner': [0.28, 0.42, 0.028] } },
  },

  groq: {
    models: {
      standard: {
        'llama-3.1-8b-instant': [0.05, 0.08],
        'llama-3.3-70b-versatile': [0.59, 0.79],
        'meta-llama/llama-4-scout-17b-16e-instruct': [0.11, 0.34],
        'meta-llama/llama-4-maverick-17b-128e-instruct': [0.2, 0.6],
        'openai/gpt-oss-20b': [0.075, 0.3],
        'openai/gpt-oss-120b': [0.15, 0.6],
        'qwen/qwen3-32b': [0.29, 0.59],
      },
    },
  },

  xai: {
    models: {
      standard: { 'grok-3-mini': [0.3, 0.5, 0.075], 'grok-4-fast': [0.2, 0.5, 0.05] },
      premium: {
        'grok-3': [3, 15, 0.75],
        'grok-4': [3, 15, 0.75],
        'grok-4.20': [2, 6],
        'grok-4.5': [2, 6, 0.5],
        'grok-4.6': [2, 6, 0.5],
      },
    },
    editions: ['grok-4-0709'],
  },

  cerebras: { models: { standard: { 'llama3.1-8b': [0.1, 0.1], 'llama-3.3-70b': [0.85, 1.2] } } },

  perplexity: {
    models: { standard: { sonar: [1, 1] }, premium: { 'sonar-pro': [3, 15], 'sonar-reasoning-pro': [2, 8] } },
  },

  moonshot: {
    models: { standard: { 'kimi-k2.7-code': [0.95, 4, 0.19] }, premium: { 'kimi-k3': [3, 15, 0.3] } },
  },
}

/**
 * Resellers that charge list prices. For each reseller, maps the prefixes of its model names to the makers' entries in
 * this table.
 */
export const RESOLD: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  openrouter: { openai: 'openai', anthropic: 'anthropic', google: 'google', mistralai: 'mistral', 'x-ai': 'xai' },
}

/** Maps a provider that is not in this table to the provider in this table whose models and prices it shares. */
export const SAME_MODELS: Readonly<Record<string, string>> = { azure: 'openai', lmstudio: 'ollama' }
