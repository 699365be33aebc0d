/** The built-in detectors. They find secrets, confidentiality markings of documents, and source code. */
export const DLP_DETECTOR_NAMES = ['secrets', 'document-markings', 'source-code'] as const
export type DlpDetectorName = (typeof DLP_DETECTOR_NAMES)[number]

/**
 * The default detectors of a policy. The source code detector is opt-in, because most answers about programs contain
 * source code.
 */
export const DEFAULT_DLP_DETECTORS: readonly DlpDetectorName[] = ['secrets', 'document-markings']
