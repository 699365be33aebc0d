// Configuration of the guards.

/** A model in the ONNX format that judges texts in addition to the built-in classifier (docs/prompt-shield.md). */
export type ShieldModelConfig = {
  /** Absolute path of the folder with `tokenizer.json`, `config.json` and the model's file. */
  folder: string
  /** Name of the model's file in the folder. */
  file: string
  /** The labels that mean an attack. Undefined: all labels of `config.json` except those that mean a harmless text. */
  attackLabels?: readonly string[] | undefined
  /** For an embedding model: absolute path of a file with example texts, as JSON lines `{text, label}`. */
  examples?: string | undefined
  /** The maximum number of tokens that the model reads at once. Longer texts are read in parts. */
  maxTokens: number
  /** How long a scan waits for the model. After that, the result of the other layers applies. */
  timeoutMs: number
  /** The probabilities from which a text reaches the scores for FLAG and BLOCK. */
  flagAt: number
  blockAt: number
  /** The number of processor threads of the model. */
  threads: number
}

export const DEFAULT_SHIELD_MODEL = {
  file: 'model.onnx',
  maxTokens: 512,
  timeoutMs: 500,
  flagAt: 0.5,
  blockAt: 0.9,
  threads: 1,
} as const
