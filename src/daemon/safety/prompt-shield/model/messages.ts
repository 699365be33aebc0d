import type { ShieldModelConfig } from '../../config.ts'

/** What the thread needs to load the model. It is the `workerData` of the thread. */
export type ModelSettings = Pick<
  ShieldModelConfig,
  'folder' | 'file' | 'attackLabels' | 'examples' | 'maxTokens' | 'threads'
>

/** Asks the thread for the probability of an attack in each of these texts. */
export type ToModelThread = { id: number; texts: readonly string[] }

export type FromModelThread =
  | { kind: 'ready' }
  | { kind: 'scored'; id: number; scores: readonly number[] }
  | { kind: 'failed'; id: number; error: unknown }
