// The options of OpenAI's chat completions and its Responses API that other kinds of providers do not have.
import {
  EARLIER_AUDIO,
  type GenerationOptions,
  OPENAI_ORIGIN,
  RESPONSES_ORIGIN,
  SPOKEN_ANSWER,
} from '../../conversation.ts'
import { GRAMMARS } from '../../custom-tools.ts'
import type { Profile } from './profiles.ts'

/** The options that both APIs have, under the same name. Both names of the resolution of images are known. */
const SHARED: ReadonlySet<string> = new Set([
  'image_url.detail',
  'input[].content[].detail',
  'metadata',
  'prompt_cache_key',
  'prompt_cache_retention',
  'safety_identifier',
  'service_tier',
])

/** Options that have another name in the other API. */
const OTHER_NAMES = new Map([
  ['verbosity', 'text.verbosity'],
  ['text.verbosity', 'verbosity'],
])

/** Options that servers with a closed list of fields reject. */
const OPENAI_ONLY: ReadonlySet<string> = new Set([
  SPOKEN_ANSWER,
  EARLIER_AUDIO,
  'logit_bias',
  'messages.name',
  'modalities',
  'prompt_cache_key',
  'prompt_cache_retention',
  'safety_identifier',
  'service_tier',
  'store',
  'verbosity',
  'web_search_options',
])

/** Whether a server rejects an option of its own API. */
export const rejectsOption = (option: string, model: string, profile: Profile): boolean =>
  (profile.refusesUser && OPENAI_ONLY.has(option)) || (GRAMMARS.has(option) && !hasCustomTools(model, profile))

/** Whether this model has custom tools. */
export const hasCustomTools = (model: string, { customTools }: Pick<Profile, 'customTools'>): boolean =>
  customTools?.test(model) ?? false

/** The option of chat completions that becomes a tool of the Responses API. */
export const WEB_SEARCH = 'web_search_options'

/** Whether an option of the other one of the two APIs is sent. */
export const isShared = (option: string, origin: string | undefined): boolean =>
  isOfOpenAi(origin) && (SHARED.has(option) || OTHER_NAMES.has(option))

const isOfOpenAi = (origin: string | undefined): boolean => origin === OPENAI_ORIGIN || origin === RESPONSES_ORIGIN

/**
 * Returns the native options to send, without those that the server rejects. Undefined if there are none.
 * @param api the API of the server
 */
export function nativeFields(
  { native }: Pick<GenerationOptions, 'native'>,
  {
    api,
    model,
    profile,
    noTraining,
  }: { api: string; model: string; profile: Profile; noTraining: boolean | undefined },
): Record<string, unknown> | undefined {
  if (!native || !isOfOpenAi(native.origin)) return undefined
  const isOwn = native.origin === api
  const sent = Object.entries(native.fields).filter(
    ([name]) =>
      (isOwn || isShared(name, native.origin)) &&
      !rejectsOption(name, model, profile) &&
      !(noTraining === true && name === 'store'),
  )
  return Object.fromEntries(isOwn ? sent : sent.map(([name, value]) => [OTHER_NAMES.get(name) ?? name, value]))
}

/** Adds native options to the members of a body. Members that the gateway sets take precedence. */
export function withNative(native: object, own: object): object {
  const set = Object.entries(own).filter(([, value]) => value !== undefined)
  return { ...native, ...Object.fromEntries(set) }
}
