/** The built-in detectors of secrets, markings of confidential documents, and source code. */
export const DLP_DETECTOR_NAMES = ['secrets', 'document-markings', 'source-code'] as const
export type DlpDetectorName = (typeof DLP_DETECTOR_NAMES)[number]

/**
 * The detectors of a policy that names none. Source code is opt-in, because most answers about programs contain some.
 */
export const DEFAULT_DLP_DETECTORS: readonly DlpDetectorName[] = ['secrets', 'document-markings']
