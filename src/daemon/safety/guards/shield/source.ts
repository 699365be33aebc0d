import { SHIELD_SOURCES } from '../../../../shared/wire/shield.ts'

/**
 * The origin of a text. Instructions are normal in messages of a user and of the operator (`system`), but suspicious in
 * results of tools and in retrieved documents. `output` is the answer of a model.
 */
export const TEXT_SOURCES = SHIELD_SOURCES
export type TextSource = (typeof TEXT_SOURCES)[number]

/** Whether texts of a source should contain only data. */
export const isData = (source: TextSource): boolean => source === 'tool' || source === 'retrieved'
